"""Progress of a co-evolution."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from envgen.runs.display import ProgressDisplay, rate_bars

PARTS = ("rollout", "update", "environment", "test")


class CoevolveDisplay(ProgressDisplay):
    unit = "rollouts"

    def __init__(self, rollouts: int, alpha: float, console: Console | None = None):
        super().__init__(rollouts, console)
        self.alpha = alpha
        self.last_test: Mapping[str, Any] = {}  # the last line with a test
        self._start: tuple[int, float] | None = None  # rollouts and time at the first line

    def __call__(self, line: Mapping[str, Any]) -> None:
        self._start = self._start or (line["rollouts"], time.monotonic())
        self.last_test = line if "test" in line else self.last_test
        super().__call__(line)

    def title(self, line: Mapping[str, Any]) -> str:
        return self.unit

    def seconds_left(self, line: Mapping[str, Any]) -> float | None:
        start_rollouts, start_time = self._start or (0, time.monotonic())
        done = line["rollouts"] - start_rollouts
        return (time.monotonic() - start_time) * (self.total - line["rollouts"]) / done if done else None

    def details(self, line: Mapping[str, Any]) -> list[str]:
        test = [f"test {self._test_result()}"] if self.last_test else []
        return [self.time_left(line), *test, *(self._step_metrics(line) if line["step"] else [])]

    def rows(self, line: Mapping[str, Any]) -> list[RenderableType]:
        rows: list[RenderableType] = [Text(f" {self.time_left(line)}")]
        if line["step"]:
            rows.append(Text(" " + "   ".join(self._step_metrics(line)), style="cyan"))
            entropy = "  ".join(f"{name} {bits:.1f}" for name, bits in line["diversity"]["entropy"].items())
            rows.append(Text(f" proposed: {line['diversity']['distinct']:.0%} distinct; bits: {entropy}"))
        if self.last_test:
            rows += [Text(f" test {self._test_result()}", style="bold"), rate_bars(self._rates_by_first_field())]
        return rows

    def _test_result(self) -> str:
        return f"{self.last_test['test']:.1%} at {self.last_test['rollouts']:,}"

    def _rates_by_first_field(self) -> dict[str, float]:
        """Return the accuracy by the values of the domain's first field."""
        name, rates = next(iter(self.last_test["test_by"].items()))
        return {f"  {name} {value}": 100 * rate for value, rate in rates.items()}

    def _step_metrics(self, line: Mapping[str, Any]) -> list[str]:
        seconds = line["seconds"]
        total = max(1e-9, sum(seconds.get(part, 0.0) for part in PARTS))
        shares = ", ".join(f"{part} {seconds[part] / total:.0%}" for part in PARTS if part in seconds)
        metrics = [f"success {line['success']:.0%}"]
        if line["p"] is not None:
            metrics.append(f"p {line['p']:.2f} (alpha {self.alpha:g})")
        rejected = sum(line["refused"].values())
        metrics += [f"{rejected} rejected"] if rejected else []
        return [*metrics, f"{line['tokens_per_second']:,} tokens/s ({shares})"]
