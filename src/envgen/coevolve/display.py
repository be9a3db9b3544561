"""What a person sees while agent and environment learn from each other."""

import time
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from envgen.runs import display as live
from envgen.runs.display import format_duration, progress_bar

BAR = 10  # characters
PARTS = ("rollout", "update", "environment", "test")


class CoevolveDisplay(live.ProgressDisplay):
    def __init__(self, rollouts: int, alpha: float, console: Console | None = None):
        super().__init__(console)
        self.total, self.alpha = rollouts, alpha
        self.test: dict[str, Any] = {}  # the last line with a test
        self.first: tuple[int, float] | None = None

    def __call__(self, line: dict[str, Any]) -> None:
        self.first = self.first or (line["rollouts"], time.monotonic())
        self.test = line if "test" in line else self.test
        super().__call__(line)

    def is_last(self, line: dict[str, Any]) -> bool:
        return line["rollouts"] >= self.total

    def _left(self, line: dict[str, Any]) -> str:
        began, at = self.first or (0, time.monotonic())
        done = line["rollouts"] - began
        return format_duration((time.monotonic() - at) * (self.total - line["rollouts"]) / done) if done else "?"

    def log_line(self, line: dict[str, Any]) -> str:
        parts = [f"{line['rollouts']:,} of {self.total:,} rollouts", f"{self._left(line)} left"]
        if self.test:
            parts.append(f"test {self._tested()}")
        return ", ".join(parts + (self._facts(line) if line["step"] else []))

    def table(self, line: dict[str, Any]) -> Group:
        rows: list[Any] = [progress_bar("rollouts", line["rollouts"], self.total, f"  {self._left(line)} left")]
        if line["step"]:
            rows.append(Text(" " + "   ".join(self._facts(line)), style="cyan"))
            spread = "  ".join(f"{name} {bits:.1f}" for name, bits in line["diversity"]["entropy"].items())
            rows.append(Text(f" written: {line['diversity']['distinct']:.0%} distinct; bits: {spread}"))
        if self.test:
            rows.append(Text(f" test {self._tested()}", style="bold"))
            grid = Table.grid(padding=(0, 1))
            for value, rate in self._first_field().items():
                bar = "█" * round(BAR * rate)
                grid.add_row(f"   {value}", Text(f"{bar:{BAR}}", style="green"), f"{rate:6.1%}")
            rows.append(grid)
        return Group(*rows)

    def _tested(self) -> str:
        return f"{self.test['test']:.1%} at {self.test['rollouts']:,}"

    def _first_field(self) -> dict[str, float]:
        """Accuracy by the values of the field that a domain names first."""
        name, rates = next(iter(self.test["test_by"].items()))
        return {f"{name} {value}": rate for value, rate in rates.items()}

    def _facts(self, line: dict[str, Any]) -> list[str]:
        spent = line["seconds"]
        whole = max(1e-9, sum(spent.get(part, 0.0) for part in PARTS))
        shares = ", ".join(f"{part} {spent[part] / whole:.0%}" for part in PARTS if part in spent)
        facts = [f"success {line['success']:.0%}"]
        if line["p"] is not None:
            facts.append(f"p {line['p']:.2f} (alpha {self.alpha:g})")
        refused = sum(line["refused"].values())
        facts += [f"{refused} refused"] if refused else []
        return [*facts, f"{line['tokens_per_second']:,} tokens/s ({shares})"]
