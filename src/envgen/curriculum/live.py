"""What a person sees while an agent learns: a table that changes in place, or a line now and then where nothing can."""

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

PLAIN_EVERY = 10.0  # seconds between two lines
BAR, ROAD = 10, 30  # characters


class Display:
    """Use as a context; call it with each line of progress."""

    def __init__(self, skills: list[str], total_steps: int, console: Console | None = None):
        self.skills, self.total = skills, total_steps
        self.console = console or Console()
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._told = float("-inf")

    def __enter__(self) -> "Display":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, line: dict[str, Any]) -> None:
        last = line["steps"] >= self.total
        if self.live:
            self.live.update(self.table(line), refresh=True)
        elif last or time.monotonic() - self._told >= PLAIN_EVERY:
            self._told = time.monotonic()
            self.console.print(self.sentence(line), soft_wrap=True, highlight=False)

    def _left(self, line: dict[str, Any]) -> str:
        """Of the training of all phases; what lies between them is short."""
        return _time(max(0, self.total - line["steps"]) / max(1, line["steps_per_second"]))

    def sentence(self, line: dict[str, Any]) -> str:
        parts = [
            f"{line['phase']}: {line['steps']:,} of {self.total:,} steps",
            f"{line['steps_per_second']:,} steps/s",
            f"{self._left(line)} left",
        ]
        if recent := line.get("recent"):
            ranked = sorted(zip(recent["skills"], self.skills, strict=True), reverse=True)
            parts += [f"reward {recent['reward']:.2f}", f"length {recent['length']:.0f}"]
            parts += [f"{name} {rate:.0f}%" for rate, name in ranked[:3] if rate]
        return ", ".join(parts)

    def table(self, line: dict[str, Any]) -> Group:
        """Fits 80 columns."""
        full = round(ROAD * min(1.0, line["steps"] / max(1, self.total)))
        road = Text.assemble(
            (f" {line['phase']}  ", "bold"), ("━" * full, "green"), ("━" * (ROAD - full), "bright_black"),
            f"  {line['steps']:,} / {self.total:,} steps",
        )  # fmt: skip
        recent = line.get("recent")
        pace = f" {line['steps_per_second']:,} steps/s   {self._left(line)} left"
        if not recent:
            return Group(road, Text(pace))
        facts = Text(f"{pace}   reward {recent['reward']:.2f}   length {recent['length']:.0f}", style="cyan")
        grid, rows = Table.grid(padding=(0, 1)), -(-len(self.skills) // 2)
        for row in range(rows):
            cells: list[Text] = []
            for k in range(row, len(self.skills), rows):
                rate = recent["skills"][k]
                bar = "█" * round(BAR * rate / 100)
                cells += [Text(f" {self.skills[k]}"), Text(f"{bar:{BAR}}", style="green"), Text(f"{rate:5.1f}%")]
            grid.add_row(*cells)
        return Group(road, facts, grid)


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
