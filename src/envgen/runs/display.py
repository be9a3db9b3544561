"""What a person sees while a run goes on: a table that changes in place, or a line now and then where nothing can."""

import time
from abc import ABC, abstractmethod
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

PLAIN_EVERY = 10.0  # seconds between two lines
ROAD = 30  # characters of the way a run has to go


class ProgressDisplay(ABC):
    """Use as a context; call it with each line of progress."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console()
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._told = float("-inf")

    @abstractmethod
    def is_last(self, line: dict[str, Any]) -> bool:
        """Whether this is the last line of a run."""

    @abstractmethod
    def log_line(self, line: dict[str, Any]) -> str: ...

    @abstractmethod
    def table(self, line: dict[str, Any]) -> RenderableType:
        """Fits 80 columns."""

    def __enter__(self) -> "ProgressDisplay":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, line: dict[str, Any]) -> None:
        if self.live:
            self.live.update(self.table(line), refresh=True)
        elif self.is_last(line) or time.monotonic() - self._told >= PLAIN_EVERY:
            self._told = time.monotonic()
            self.console.print(self.log_line(line), soft_wrap=True, highlight=False)


def progress_bar(title: str, done: int, of: int, what: str) -> Text:
    """How far a run is."""
    full = round(ROAD * min(1.0, done / max(1, of)))
    return Text.assemble(
        (f" {title}  ", "bold"), ("━" * full, "green"), ("━" * (ROAD - full), "bright_black"),
        f"  {done:,} / {of:,} {what}",
    )  # fmt: skip


def format_duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
