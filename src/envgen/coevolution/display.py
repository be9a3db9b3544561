"""The progress display of a co-evolution."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from envgen.runs.display import ProgressDisplay, Sparkline, rate_bars
from envgen.runs.kinds import model_tokens

from .train import PHASES, CoevolutionSummary


class CoevolutionDisplay(ProgressDisplay):
    unit = "rollouts"

    def __init__(
        self,
        rollouts: int,
        alpha: float,
        console: Console | None = None,
        folder: Path | None = None,
        live: bool | None = None,
    ):
        super().__init__(rollouts, console, folder, live)
        self.alpha = alpha
        self.first_evaluation: Mapping[str, Any] = {}  # the first and last lines with an evaluation
        self.last_evaluation: Mapping[str, Any] = {}
        self.success = Sparkline(rollouts, {"": "green"})  # of the agent in its tasks
        self.accuracy = Sparkline(rollouts, {"": "cyan"})  # on the held-out tasks
        self._start: tuple[int, float] | None = None  # rollouts and time at the first line

    def __call__(self, line: Mapping[str, Any]) -> None:
        self._start = self._start or (line["rollouts"], time.monotonic())
        super().__call__(line)

    def remember(self, line: Mapping[str, Any]) -> None:
        if "eval_accuracy" in line:
            self.first_evaluation, self.last_evaluation = self.first_evaluation or line, line
            self.accuracy.add(line["rollouts"], line["eval_accuracy"], "")
        if line["step"]:
            self.success.add(line["rollouts"], line["success_rate"], "")

    def title(self, line: Mapping[str, Any]) -> str:
        return self.unit

    def seconds_left(self, line: Mapping[str, Any]) -> float | None:
        start_rollouts, start_time = self._start or (0, time.monotonic())
        done, left = (
            line["rollouts"] - start_rollouts,
            max(0, self.total - line["rollouts"]),
        )  # the last step may overshoot
        return (time.monotonic() - start_time) * left / done if done else None

    def details(self, line: Mapping[str, Any]) -> list[str]:
        evaluation = [self._evaluation()] if self.last_evaluation else []
        return [self.time_left(line), *evaluation, *(self._step_metrics(line) if line["step"] else [])]

    def rows(self, line: Mapping[str, Any]) -> list[RenderableType]:
        rows: list[RenderableType] = [Text(f" {self.time_left(line)}")]
        if line["step"]:
            rows.append(Text(" " + "   ".join(self._step_metrics(line)), style="cyan"))
            diversity = line["diversity"]
            entropy = "  ".join(f"{name} {bits:.1f}" for name, bits in diversity["entropy"].items())
            rows.append(Text(f" proposed: {diversity['distinct_fraction']:.0%} distinct; entropy in bits: {entropy}"))
        for name, curve in (("success", self.success), ("accuracy", self.accuracy)):
            if curve:
                rows.append(Text(f" {name:8} ", no_wrap=True).append_text(curve.render()))
        if self.last_evaluation:
            rates, before = map(_accuracy_by_first_feature, (self.last_evaluation, self.first_evaluation))
            changes = {name: rate - before[name] for name, rate in rates.items() if name in before}
            rows.append(Text(f" {self._evaluation()}", style="bold"))
            rows += [rate_bars(rates, changes=changes)] if rates else []
        return rows

    def _evaluation(self) -> str:
        accuracy, rollouts = self.last_evaluation["eval_accuracy"], self.last_evaluation["rollouts"]
        return f"held-out accuracy {accuracy:.1%} at {rollouts:,}"

    def _step_metrics(self, line: Mapping[str, Any]) -> list[str]:
        seconds = line["seconds"]
        total = max(1e-9, sum(seconds.get(phase, 0.0) for phase in PHASES))
        shares = ", ".join(f"{phase} {seconds[phase] / total:.0%}" for phase in PHASES if phase in seconds)
        metrics = [f"success {line['success_rate']:.0%}"]
        if line["proposed_success_rate"] is not None:
            metrics.append(f"p {line['proposed_success_rate']:.2f} (alpha {self.alpha:g})")
        num_rejected = sum(line["rejected"].values())
        metrics += [f"{num_rejected} rejected"] if num_rejected else []
        return [*metrics, f"{line['tokens_per_second']:,} tokens/s ({shares})"]


def _accuracy_by_first_feature(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """The accuracy in percent by the values of the domain's first feature, if it has one."""
    name, rates = next(iter(evaluation["eval_accuracy_by"].items()), ("", {}))
    return {f"  {name} {value}": 100 * rate for value, rate in rates.items()}


def describe_summary(summary: CoevolutionSummary) -> str:
    """The results of a run as text."""
    counts, total = summary.counts, max(1e-9, summary.total_seconds)
    lines = [
        "",
        f"accuracy on the held-out tasks: {summary.initial_accuracy:.1f}% before, {summary.final_accuracy:.1f}% after",
    ]
    for feature, values in summary.final_accuracy_by.items():
        lines.append(f"  {feature:12} " + "  ".join(f"{value} {accuracy:.1f}%" for value, accuracy in values.items()))
    shares = ", ".join(f"{phase} {seconds / total:.0%}" for phase, seconds in summary.seconds.items())
    lines.append(
        f"{counts['rollouts']:,} rollouts, {counts['tasks_proposed']:,} tasks proposed, "
        f"{model_tokens(counts, 'agent') or 0:,.0f} tokens of the agent, "
        f"{model_tokens(counts, 'environment') or 0:,.0f} of the environment policy; {total:.0f} s ({shares})"
    )
    return "\n".join(lines)
