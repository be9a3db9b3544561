"""What a person sees while an agent learns a world."""

from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from envgen.runs import display as live
from envgen.runs.display import format_duration, progress_bar

BAR = 10  # characters


class TrainDisplay(live.ProgressDisplay):
    def __init__(self, skills: list[str], total_steps: int, console: Console | None = None):
        super().__init__(console)
        self.skills, self.total = skills, total_steps

    def is_last(self, line: dict[str, Any]) -> bool:
        return line["steps"] >= self.total

    def _left(self, line: dict[str, Any]) -> str:
        """Of the training of all phases; what lies between them is short."""
        return format_duration(max(0, self.total - line["steps"]) / max(1, line["steps_per_second"]))

    def log_line(self, line: dict[str, Any]) -> str:
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
        way = progress_bar(line["phase"], line["steps"], self.total, "steps")
        recent = line.get("recent")
        pace = f" {line['steps_per_second']:,} steps/s   {self._left(line)} left"
        if not recent:
            return Group(way, Text(pace))
        facts = Text(f"{pace}   reward {recent['reward']:.2f}   length {recent['length']:.0f}", style="cyan")
        grid, rows = Table.grid(padding=(0, 1)), -(-len(self.skills) // 2)
        for row in range(rows):
            cells: list[Text] = []
            for k in range(row, len(self.skills), rows):
                rate = recent["skills"][k]
                bar = "█" * round(BAR * rate / 100)
                cells += [Text(f" {self.skills[k]}"), Text(f"{bar:{BAR}}", style="green"), Text(f"{rate:5.1f}%")]
            grid.add_row(*cells)
        return Group(way, facts, grid)
