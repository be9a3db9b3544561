"""Progress of a run: a table that updates in place on a terminal, occasional lines elsewhere."""

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from envgen.errors import EnvgenError
from envgen.text import printable

from .store import read_progress

LOG_INTERVAL = 10.0  # seconds between two lines where there is no terminal
PROGRESS_WIDTH, RATE_WIDTH = 30, 6  # characters of the bars
SPARKLINE_WIDTH = 48  # with its label and legend less than 80
SPARKS = "▁▂▃▄▅▆▇█"
MIN_CHANGE = 2.0  # percentage points: smaller changes are not shown
PROGRESS_ERRORS = (EnvgenError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def is_live(console: Console) -> bool:
    """Whether a display may update in place: on a terminal that people watch, and not in a pipe or CI."""
    if console.quiet or os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    return console.is_interactive and console.file.isatty()


class LiveDisplay:
    """A context manager that shows something, in place on a terminal.

    Args:
        live: Whether to update in place; by default where `is_live` allows it.
    """

    def __init__(self, console: Console, live: bool | None = None):
        self.console = console
        live = is_live(console) if live is None else live
        self.live = Live(console=console, auto_refresh=False) if live else None

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.live:
            self.live.stop()


class TerminalConsole(Console):
    """A console that raises BrokenPipeError when the reader of its output has ended; rich's exits with code 1."""

    def on_broken_pipe(self) -> None:
        raise


class ProgressDisplay(LiveDisplay, ABC):
    """A context manager, called with each progress line after it was written to the run directory.

    Args:
        folder: The run directory, from which a resumed run's earlier lines are read.
        live: Whether to update in place; by default where `is_live` allows it.
    """

    unit: ClassVar[str]  # what is counted: the key of a progress line

    def __init__(
        self, total: int, console: Console | None = None, folder: Path | None = None, live: bool | None = None
    ):
        super().__init__(console or TerminalConsole(), live)
        self.total, self.folder = total, folder
        self._last_log = float("-inf")
        self._has_history = False

    @abstractmethod
    def title(self, line: Mapping[str, Any]) -> str:
        """What is running."""

    @abstractmethod
    def seconds_left(self, line: Mapping[str, Any]) -> float | None:
        """Seconds until the run ends; None if unknown."""

    @abstractmethod
    def details(self, line: Mapping[str, Any]) -> list[str]:
        """Further parts of a log line."""

    @abstractmethod
    def rows(self, line: Mapping[str, Any]) -> list[RenderableType]:
        """What the terminal shows below the progress bar. Must fit 80 columns."""

    @abstractmethod
    def remember(self, line: Mapping[str, Any]) -> None:
        """Keep what later displays need of a progress line. In a resumed run, this gets the earlier lines first."""

    def log_line(self, line: Mapping[str, Any]) -> str:
        title = self.title(line)
        progress = f"{line[self.unit]:,} of {self.total:,} {self.unit}"
        return ", ".join([f"{title}: {progress}" if title != self.unit else progress, *self.details(line)])

    def render(self, line: Mapping[str, Any]) -> Group:
        header = Table.grid(padding=(0, 2))
        done = line[self.unit]
        bar = ProgressBar(self.total, min(done, self.total), width=PROGRESS_WIDTH, complete_style="green")
        count = f"{done:,} / {self.total:,} {self.unit}"
        header.add_row(Text(f" {self.title(line)}", style="bold"), bar, Text(count, no_wrap=True))
        return Group(header, *self.rows(line))

    def time_left(self, line: Mapping[str, Any]) -> str:
        seconds = self.seconds_left(line)
        return "time left unknown" if seconds is None else f"{format_duration(seconds)} left"

    def is_last(self, line: Mapping[str, Any]) -> bool:
        return line[self.unit] >= self.total

    def __call__(self, line: Mapping[str, Any]) -> None:
        if not self._has_history:
            self._has_history = True
            if self.live and self.folder is not None:
                with suppress(*PROGRESS_ERRORS):  # a damaged line must not stop the run
                    for earlier in read_progress(self.folder):
                        if earlier[self.unit] < line[self.unit]:
                            self.remember(earlier)
        self.remember(line)
        if self.live:
            self.live.update(self.render(line), refresh=True)
        elif self.is_last(line) or time.monotonic() - self._last_log >= LOG_INTERVAL:
            self._last_log = time.monotonic()
            self.console.print(printable(self.log_line(line)), soft_wrap=True, markup=False, highlight=False)


def rate_bars(rates: Mapping[str, float], num_columns: int = 1, changes: Mapping[str, float] | None = None) -> Table:
    """Return bars of rates in percent, in columns that are read from top to bottom.

    Args:
        changes: By how many percentage points the rates have changed; small changes are left out.
    """
    grid, names = Table.grid(padding=(0, 1)), list(rates)
    num_rows = -(-len(names) // num_columns)
    for row in range(num_rows):
        cells: list[Text] = []
        for name in names[row::num_rows]:
            change = (changes or {}).get(name, 0.0)
            color = "green" if change >= MIN_CHANGE else "red" if change <= -MIN_CHANGE else ""
            bar = "█" * round(RATE_WIDTH * rates[name] / 100)
            cells += [
                Text(f" {printable(name)}", style=color), Text(f"{bar:{RATE_WIDTH}}", style="green"),
                Text(f"{rates[name]:5.1f}%"), Text(f"{change:+4.0f}" if color else "    ", style=color),
            ]  # fmt: skip
        grid.add_row(*cells)
    return grid


class Sparkline:
    """A curve over the whole run in one line: the mean of the values of each of its parts.

    A part of the run that has several kinds of values, such as phases in levels and in the original, shows the latest.

    Args:
        total: Where the run ends.
        styles: The color of each kind of values.
    """

    def __init__(self, total: int, styles: Mapping[str, str]):
        self.total, self.styles = max(1, total), styles
        self._values: dict[int, tuple[str, list[float]]] = {}

    def add(self, position: int, value: float, kind: str) -> None:
        index = min(SPARKLINE_WIDTH - 1, max(0, position - 1) * SPARKLINE_WIDTH // self.total)
        if not math.isfinite(value):
            return
        if index not in self._values or self._values[index][0] != kind:
            self._values[index] = (kind, [])
        self._values[index][1].append(value)

    def __bool__(self) -> bool:
        return bool(self._values)

    def kinds(self) -> list[str]:
        """The kinds that it shows, in the order of `styles`."""
        shown = {kind for kind, _ in self._values.values()}
        return [kind for kind in self.styles if kind in shown]

    def render(self) -> Text:
        """From 0 to the highest value. A part without values shows those of the next part that has some."""
        means = {index: sum(values) / len(values) for index, (_, values) in self._values.items()}
        highest, text, start = max([*means.values(), 1e-9]), Text(no_wrap=True), 0
        for index in sorted(means):
            level = round((len(SPARKS) - 1) * max(0.0, means[index]) / highest)
            text.append(SPARKS[level] * (index + 1 - start), style=self.styles[self._values[index][0]])
            start = index + 1
        return text


def format_duration(seconds: float) -> str:
    """`0:01:01`"""
    return str(timedelta(seconds=round(seconds)))
