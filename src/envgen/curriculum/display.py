"""What the user sees of a run: its progress, and its results at the end."""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from envgen.runs.display import MIN_CHANGE, PROGRESS_ERRORS, ProgressDisplay, Sparkline, rate_bars
from envgen.runs.phases import cycle_of, has_levels, is_sampled
from envgen.runs.statistics import EpisodeWindow, score
from envgen.runs.store import exists, read_json
from envgen.text import printable
from envgen.worlds.world import World

from .loop import TrainingSummary

IN_LEVELS, IN_ORIGINAL = "in levels", "in the original"
STYLES = {IN_LEVELS: "blue", IN_ORIGINAL: "green"}
MAX_LEVELS = 6  # that are shown
MIN_EPISODES = 50  # of a phase, before changes of success rates mean something
CHANGE_SHARE = 0.1  # changes are over this share of the run, or since the beginning of the phase
MAX_BARS = 30  # with more skills, those that changed most are shown, then those that succeed most often


class TrainDisplay(ProgressDisplay):
    """The progress of `envgen train`: speed, results, success rates by skill, and the levels of the cycle."""

    unit = "steps"

    def __init__(
        self,
        skills: Sequence[str],
        total_steps: int,
        console: Console | None = None,
        folder: Path | None = None,
        live: bool | None = None,
    ):
        super().__init__(total_steps, console, folder, live)
        self.skills = skills
        self.scores = Sparkline(total_steps, STYLES)
        self.cycle: int | None = None
        self.levels: list[str] = []  # what the levels of the current cycle are for
        self._has_empty_proposal = False  # whether the designer has proposed none for it
        self._phase: str | None = None
        self._begin_phase(None)

    def _begin_phase(self, phase: str | None) -> None:
        self._phase, self._phase_episodes = phase, 0
        self._rates: deque[tuple[int, list[float]]] = deque()  # steps and recent success rates in this phase
        self._window = EpisodeWindow(len(self.skills))
        self._level_results: list[tuple[int, float]] = []  # episodes and sum of returns in each level
        cycle = cycle_of(phase or "")
        if cycle != self.cycle:
            self.cycle, self.levels, self._has_empty_proposal = cycle, [], False
            with suppress(*PROGRESS_ERRORS):
                self.levels = self._read_levels(cycle)

    def _read_levels(self, cycle: int | None) -> list[str]:
        """What each distinct level of a cycle is for, in the order of the progress lines."""
        file = (self.folder or Path()) / "cycles" / str(cycle) / "levels.json"
        if self.folder is None or cycle is None or not exists(file):
            return []
        proposed = read_json(file)["proposal"]["levels"]
        self._has_empty_proposal = not proposed
        purposes: dict[str, str] = {}
        for item in proposed:
            purpose = item["purpose"] or str(item["level"] or "the original")
            purposes.setdefault(repr(item.get("chain") or item["level"]), purpose)
        return [printable(" ".join(str(purpose).split())) for purpose in purposes.values()]

    def remember(self, line: Mapping[str, Any]) -> None:
        if line["phase"] != self._phase:
            self._begin_phase(line["phase"])
        if line.get("episodes") and line.get("succeeded"):
            self._window.add(line)
            is_level = has_levels(line["phase"]) and (is_sampled(line["phase"]) or not self._has_empty_proposal)
            kind = IN_LEVELS if is_level else IN_ORIGINAL
            self.scores.add(line["steps"], float(score(self._window.success_rates())), kind)
        self._phase_episodes += line.get("episodes", 0)
        results = line.get("levels", ())
        self._level_results = self._level_results or [(0, 0.0)] * len(results)
        self._level_results = [
            (episodes + result["episodes"], return_sum + result["return_sum"])
            for (episodes, return_sum), result in zip(self._level_results, results, strict=False)
        ]
        if (recent := line.get("recent")) and self._phase_episodes >= MIN_EPISODES:
            self._rates.append((line["steps"], recent["skills"]))
            while len(self._rates) > 1 and self._rates[1][0] <= line["steps"] - CHANGE_SHARE * self.total:
                self._rates.popleft()

    def changes(self) -> dict[str, float]:
        """By how many percentage points the success rates have changed."""
        if not self._rates:
            return {}
        change = np.subtract(self._rates[-1][1], self._rates[0][1])
        return dict(zip(self.skills, change.tolist(), strict=True))

    def title(self, line: Mapping[str, Any]) -> str:
        return line["phase"]

    def seconds_left(self, line: Mapping[str, Any]) -> float:
        """The time left for training. The evaluations between the phases are short and not included."""
        return max(0, self.total - line["steps"]) / max(1, line["steps_per_second"])

    def details(self, line: Mapping[str, Any]) -> list[str]:
        parts = [f"{line['steps_per_second']:,} steps/s", self.time_left(line)]
        if recent := line.get("recent"):
            ranked = sorted(zip(recent["skills"], self.skills, strict=True), reverse=True)
            parts += [*_results(recent), *(f"{name} {rate:.0f}%" for rate, name in ranked[:3] if rate)]
        return parts

    def rows(self, line: Mapping[str, Any]) -> list[RenderableType]:
        speed = f" {line['steps_per_second']:,} steps/s   {self.time_left(line)}"
        recent = line.get("recent")
        rows: list[RenderableType] = [Text("   ".join([speed, *(_results(recent) if recent else [])]), style="cyan")]
        if self.scores:
            rows.append(self._score_row())
        if recent:
            changes, rates = self.changes(), dict(zip(self.skills, recent["skills"], strict=True))
            if len(rates) > MAX_BARS:
                ranked = sorted(rates, key=lambda name: (-abs(changes.get(name, 0)), -rates[name]))
                rates = {name: rates[name] for name in rates if name in ranked[:MAX_BARS]}
            rows += [rate_bars(rates, 2, changes), *self._changes_row(changes)]
        return [*rows, *self._level_rows()]

    def _score_row(self) -> Text:
        row = Text(" score ", no_wrap=True).append_text(self.scores.render())
        kinds = self.scores.kinds()
        for kind in kinds if len(kinds) > 1 else ():
            row.append(f"  {kind}" if kind == IN_LEVELS else " in original", style=STYLES[kind])
        return row

    def _changes_row(self, changes: Mapping[str, float]) -> list[Text]:
        """The skills whose success rates changed most."""
        changed = sorted((name for name in changes if abs(changes[name]) >= MIN_CHANGE), key=lambda n: -abs(changes[n]))
        if not changed:
            return []
        row = Text(" change", no_wrap=True, overflow="ellipsis")
        for name in changed[:3]:
            row.append(f"  {name} {changes[name]:+.0f}", style="green" if changes[name] > 0 else "red")
        return [row]

    def _level_rows(self) -> list[RenderableType]:
        """The levels of the cycle, with the episodes and the mean return in each while the agent trains there."""
        if not self.levels:
            return []
        results = self._level_results if len(self._level_results) >= len(self.levels) > 1 else []
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True, min_width=2)
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        grid.add_column(no_wrap=True, justify="right")
        for k, purpose in enumerate(self.levels[:MAX_LEVELS]):
            episodes, return_sum = results[k] if results else (0, 0.0)
            result = f"{episodes:,} episodes, reward {return_sum / episodes:.1f} " if episodes else ""
            grid.add_row(Text(f" {k + 1}", style="bold"), Text(purpose), Text(result, style="cyan"))
        more = len(self.levels) - MAX_LEVELS
        return [
            Text(f" levels of cycle {self.cycle}", style="bold"),
            grid,
            *([Text(f"   {more} more")] if more > 0 else []),
        ]


def _results(recent: Mapping[str, Any]) -> list[str]:
    total = score(np.array(recent["skills"], np.float64))
    return [f"score {total:.1f}", f"reward {recent['reward']:.2f}", f"length {recent['length']:.0f}"]


def describe_summary(summary: TrainingSummary, world: World) -> str:
    """Return the results of a run as text."""
    lines = ["", str(summary.final), *filter(None, [world.random_baseline]), _describe_training(summary, world)]
    steps, llm = summary.steps, summary.llm
    ranking = f", and {steps['ranking']:,} to measure levels" if steps["ranking"] else ""
    lines.append(
        f"{steps['levels']:,} steps in levels, {steps['original']:,} in the original{ranking}; {summary.seconds:.0f} s"
    )
    if llm["calls"]:
        cost = "cost unknown" if llm["cost"] is None else f"${llm['cost']:.2f}"
        tokens = llm.get("estimated_tokens", 0)  # where the server did not report them
        estimated = f", about {tokens:,} not counted by the server" if tokens else ""
        calls = "1 call" if llm["calls"] == 1 else f"{llm['calls']} calls"
        lines.append(
            f"language model: {calls}, {llm['prompt_tokens']:,} tokens sent, "
            f"{llm['reply_tokens']:,} received{estimated}, {cost}"
        )
    return "\n".join(lines)


def _describe_training(summary: TrainingSummary, world: World) -> str:
    if summary.training is None:
        return "last phase of training: too few episodes ended for a score"
    training, skill = summary.training, world.published_skill
    published = f"{skill} {training.skills[skill]:.1f}%" if skill else f"score {training.score:.1f}"
    label = "training episodes of the last phase (the measure that papers report)"
    return f"{label}: {published}, reward {training.reward:.1f}"
