"""`expert`: rules over the world's skill graph. No language model and no network.

For each skill, the expert derives a chain of levels that begins with everything at hand and ends with the original
(chains.py). It spends the levels of a cycle on the skills of the highest value,

    ln((1 + t) / (1 + p)) * (q (1 - q) + 0.01)

The first factor is the gain in the score that the skill allows now: the score is the geometric mean of 1 + the success
rates in percent, p is the rate in the original, and t the lowest rate of the skill's prerequisites there, but at least
2%: no skill can succeed more often than what it needs. The second is the learnability of a stage of the chain, in
which the current agent succeeds at the rate q: what always or never succeeds cannot be learned now (Rutherford et al.
2024 choose levels by q (1 - q)). The search for the stage begins at the one that training last reached and goes on
to later or earlier ones while they are too easy or too hard; of those measured, the most learnable is used.

Skills that have fallen by more than `rehearsal_threshold` points since their best cycle, and by more than chance
explains, are rehearsed first: in up to half of the levels, but at least one. The search for their stage begins at the
original. A fall from the only cycle before is significant if it exceeds two standard errors of the difference. The best
of more cycles is higher by chance already, so a larger fall is required (Sidak's correction).
"""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple, Self

from pydantic import model_validator

from envgen.settings import Settings
from envgen.worlds.world import Level, Skill

from .chains import derive_chain, reached_stage
from .designer import Brief, Cutoff, Cycle, Designer, LevelChain, Percent, Proposal, ProposedLevel, SuccessRate

MIN_LEARNABILITY = 0.01  # added to q (1 - q), so that the gain decides where nothing is learnable
SIGNIFICANT_ERRORS = 2.0  # a fall of fewer standard errors since one cycle may be chance
MIN_TARGET = 2.0  # percent; the start of a chain can be learned before the prerequisites succeed
UNKNOWN_RATE = 50.0  # of a level that cannot be measured: the highest learnability


class ExpertSettings(Settings):
    """How the expert rules choose levels."""

    mastery_threshold: Percent = 80
    """The success rate in the original, in percent, at which a skill is mastered and gets no more levels, except
    to rehearse it."""
    advance_at: Percent = 50
    """The success rate in a stage of a chain at which training goes on to the next stage."""
    fall_back_at: Percent = 5
    """The success rate in a stage at which training returns to the stage before."""
    cutoff: Cutoff | None = None
    """Truncate episodes at this multiple of the number of steps within which most successful episodes of the same
    chain stage succeed. The last stage is exempt. If not set, episodes are not truncated early."""
    rehearsal_threshold: Percent = 10
    """A skill is rehearsed if its success rate has fallen by more than this many points since its best, and by more
    than the sampling error of the rates explains."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.fall_back_at >= self.advance_at:
            raise ValueError(f"fall_back_at {self.fall_back_at:g} must be below advance_at {self.advance_at:g}")
        return self


class StageCandidate(NamedTuple):
    """A stage that a skill could be trained in, and the success rate of the agent there in percent."""

    skill: str
    stages: tuple[Level, ...]
    stage: int
    rate: float

    @property
    def learnability(self) -> float:
        return self.rate / 100 * (1 - self.rate / 100) + MIN_LEARNABILITY


class ExpertDesigner(Designer):
    """Rules: chains of levels for the skills with the largest gain in the score that are learnable now."""

    name = "expert"
    settings_type = ExpertSettings
    settings: ExpertSettings

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        measured_rates = _rates_in_original(brief, history)
        rates = {name: rate.mean for name, rate in measured_rates.items()}
        best = _best_rates(history)
        chains = {
            s.name: derive_chain(s.name, brief.Level, brief.skills, brief.skill_levels)
            for s in brief.skills
            if s.name in brief.skill_levels
        }
        forgotten = self.forgotten(measured_rates, best, chains, len(history) - 1)
        taught = [name for name in chains if rates.get(name, 0) < self.settings.mastery_threshold]
        starts = {name: len(chains[name]) - 1 for name in forgotten}
        starts |= {
            name: reached_stage(self._chain(name, chains[name]), history) for name in taught if name not in starts
        }
        measured = self.choose_stages(brief, {name: chains[name] for name in starts}, starts)
        levels = [
            self._propose(measured[name], f"rehearse {name} ({rates[name]:.1f}%, best {best[name].mean:.1f}%)")
            for name in forgotten[: max(1, brief.num_levels // 2)]
        ]
        rehearsed = [name for level in levels for name in level.skills]
        targets = {s.name: _target(s, rates) for s in brief.skills}
        values = {name: score_gain(rates.get(name, 0), targets[name]) * measured[name].learnability for name in taught}
        by_value = sorted((name for name in taught if name not in rehearsed), key=lambda name: (-values[name], name))
        levels += [self._propose(measured[name], f"teach {name} ({rates.get(name, 0):.1f}%)") for name in by_value]
        purpose = "the original: every other skill is mastered or has no level"
        levels += [ProposedLevel(level=brief.Level(), purpose=purpose)] * (brief.num_levels - len(levels))
        return Proposal(levels=tuple(levels[: brief.num_levels]))

    def forgotten(
        self,
        rates: Mapping[str, SuccessRate],
        best: Mapping[str, SuccessRate],
        chains: Mapping[str, tuple[Level, ...]],
        num_earlier: int,
    ) -> list[str]:
        """The skills to rehearse, in descending order of what they cost the score.

        Args:
            rates: The current success rates in the original.
            best: The highest ones so far.
            chains: The levels of each skill.
            num_earlier: The number of cycles before the current one, of which `best` are the highest rates.
        """
        normal = NormalDist()
        significant_errors = normal.inv_cdf(normal.cdf(SIGNIFICANT_ERRORS) ** (1 / max(1, num_earlier)))

        def is_forgotten(name: str) -> bool:
            drop = best[name].mean - rates[name].mean
            error = math.hypot(best[name].standard_error, rates[name].standard_error)
            return drop > max(self.settings.rehearsal_threshold, significant_errors * error)

        names = [name for name in chains if name in best and is_forgotten(name)]
        return sorted(names, key=lambda name: (-score_gain(rates[name].mean, best[name].mean), name))

    def choose_stages(
        self, brief: Brief, chains: Mapping[str, tuple[Level, ...]], starts: Mapping[str, int]
    ) -> dict[str, StageCandidate]:
        """The most learnable stage of each chain among those measured: from its start until one is neither too easy
        nor too hard."""
        rates: dict[str, dict[int, float]] = {name: {} for name in chains}
        stages = {name: min(starts[name], len(chain) - 1) for name, chain in chains.items()}
        while stages:
            levels = list(dict.fromkeys(chains[name][stage] for name, stage in stages.items()))
            results = dict(zip(levels, brief.success_rates(levels), strict=True)) if brief.success_rates else {}
            following = {}
            for name, stage in stages.items():
                rate = rates[name][stage] = results.get(chains[name][stage], {}).get(name, UNKNOWN_RATE)
                is_easy, is_hard = rate >= self.settings.advance_at, rate <= self.settings.fall_back_at
                other = stage + is_easy - is_hard
                if results and 0 <= other < len(chains[name]) and other not in rates[name]:
                    following[name] = other
            stages = following
        candidates = {
            name: [StageCandidate(name, chains[name], stage, rate) for stage, rate in by_stage.items()]
            for name, by_stage in rates.items()
        }
        # equally learnable: one in which the skill succeeds, then the later stage
        return {
            name: max(options, key=lambda c: (c.learnability, c.rate > 0, c.stage))
            for name, options in candidates.items()
        }

    def _propose(self, candidate: StageCandidate, purpose: str) -> ProposedLevel:
        skill, stages, stage, rate = candidate
        chain = None
        if len(stages) > 1:
            purpose += f", stage {stage + 1} of {len(stages)}"
            chain = self._chain(skill, stages, stage)
        return ProposedLevel(level=stages[stage], purpose=f"{purpose}: {rate:.0f}% here", skills=(skill,), chain=chain)

    def _chain(self, skill: str, stages: tuple[Level, ...], start: int = 0) -> LevelChain:
        return LevelChain(
            skill=skill, levels=stages, start=start,
            advance_at=self.settings.advance_at, fall_back_at=self.settings.fall_back_at, cutoff=self.settings.cutoff,
        )  # fmt: skip


def score_gain(rate: float, target: float) -> float:
    """The gain in the logarithm of the score, times the number of skills, from one success rate to another."""
    return max(0.0, math.log((1 + target) / (1 + rate)))


def _target(skill: Skill, rates: Mapping[str, float]) -> float:
    """The success rate that a skill can reach now: that of its rarest prerequisite, or 100% if it needs nothing."""
    return max(MIN_TARGET, min((rates.get(name, 0.0) for name in skill.prerequisites), default=100.0))


def _rates_in_original(brief: Brief, history: Sequence[Cycle]) -> dict[str, SuccessRate]:
    """The last measured success rates in the original; measured before the first cycle if possible."""
    if history:
        return {name: rate for cycle in history for name, rate in cycle.success_rates.items()}
    rates = brief.success_rates([brief.Level()])[0] if brief.success_rates else {}
    return {name: SuccessRate(mean=rate, std=0) for name, rate in rates.items()}


def _best_rates(history: Sequence[Cycle]) -> dict[str, SuccessRate]:
    best: dict[str, SuccessRate] = {}
    for cycle in history:
        for name, rate in cycle.success_rates.items():
            best[name] = max(best.get(name, rate), rate, key=lambda rate: rate.mean)
    return best
