"""Progress of a run: a table that updates in place on a terminal, occasional lines elsewhere."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from envgen.text import printable

LOG_INTERVAL = 10.0  # seconds between two lines where there is no terminal
PROGRESS_WIDTH, RATE_WIDTH = 30, 10  # characters of the bars


class ProgressDisplay(ABC):
    """A context manager, called with each progress line."""

    unit: ClassVar[str]  # what is counted: the key of a progress line

    def __init__(self, total: int, console: Console | None = None):
        self.total = total
        self.console = console or Console()
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._last_log = float("-inf")

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

    def __enter__(self) -> "ProgressDisplay":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, line: Mapping[str, Any]) -> None:
        if self.live:
            self.live.update(self.render(line), refresh=True)
        elif self.is_last(line) or time.monotonic() - self._last_log >= LOG_INTERVAL:
            self._last_log = time.monotonic()
            self.console.print(printable(self.log_line(line)), soft_wrap=True, markup=False, highlight=False)


def rate_bars(rates: Mapping[str, float], num_columns: int = 1) -> Table:
    """Return bars of rates in percent, in columns that are read from top to bottom."""
    grid, names = Table.grid(padding=(0, 1)), list(rates)
    num_rows = -(-len(names) // num_columns)
    for row in range(num_rows):
        cells: list[Text] = []
        for name in names[row::num_rows]:
            bar = "█" * round(RATE_WIDTH * rates[name] / 100)
            cells += [Text(f" {name}"), Text(f"{bar:{RATE_WIDTH}}", style="green"), Text(f"{rates[name]:5.1f}%")]
        grid.add_row(*cells)
    return grid


def format_duration(seconds: float) -> str:
    """`0:01:01`"""
    return str(timedelta(seconds=round(seconds)))
