"""What the user sees of a run: its progress, and its results at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from envgen.runs.display import ProgressDisplay, rate_bars
from envgen.worlds.world import World

from .loop import TrainingSummary


class TrainDisplay(ProgressDisplay):
    unit = "steps"

    def __init__(self, skills: Sequence[str], total_steps: int, console: Console | None = None):
        super().__init__(total_steps, console)
        self.skills = skills

    def title(self, line: Mapping[str, Any]) -> str:
        return line["phase"]

    def seconds_left(self, line: Mapping[str, Any]) -> float:
        """The time left for training. The evaluations between the phases are short and not included."""
        return max(0, self.total - line["steps"]) / max(1, line["steps_per_second"])

    def details(self, line: Mapping[str, Any]) -> list[str]:
        parts = [f"{line['steps_per_second']:,} steps/s", self.time_left(line)]
        if recent := line.get("recent"):
            ranked = sorted(zip(recent["skills"], self.skills, strict=True), reverse=True)
            parts += [f"reward {recent['reward']:.2f}", f"length {recent['length']:.0f}"]
            parts += [f"{name} {rate:.0f}%" for rate, name in ranked[:3] if rate]
        return parts

    def rows(self, line: Mapping[str, Any]) -> list[RenderableType]:
        speed = f" {line['steps_per_second']:,} steps/s   {self.time_left(line)}"
        recent = line.get("recent")
        if not recent:
            return [Text(speed)]
        stats = Text(f"{speed}   reward {recent['reward']:.2f}   length {recent['length']:.0f}", style="cyan")
        return [stats, rate_bars(dict(zip(self.skills, recent["skills"], strict=True)), num_columns=2)]


def describe_summary(summary: TrainingSummary, world: World) -> str:
    """Return the results of a run as text."""
    lines = ["", str(summary.final), *filter(None, [world.random_baseline]), _describe_training(summary, world)]
    steps, llm = summary.steps, summary.llm
    ranking = f", and {steps['ranking']:,} by scoring agents" if steps["ranking"] else ""
    lines.append(
        f"{steps['levels']:,} steps in levels, {steps['original']:,} in the original{ranking}; {summary.seconds:.0f} s"
    )
    if llm["calls"]:
        cost = "cost unknown" if llm["cost"] is None else f"${llm['cost']:.2f}"
        lines.append(
            f"language model: {llm['calls']} calls, {llm['prompt_tokens']:,} tokens sent, "
            f"{llm['reply_tokens']:,} received, {cost}"
        )
    return "\n".join(lines)


def _describe_training(summary: TrainingSummary, world: World) -> str:
    if summary.training is None:
        return "last phase of training: too few episodes ended for a score"
    training, skill = summary.training, world.published_skill
    published = f"{skill} {training.skills[skill]:.1f}%" if skill else f"score {training.score:.1f}"
    label = "training episodes of the last phase (the measure that papers report)"
    return f"{label}: {published}, reward {training.reward:.1f}"
