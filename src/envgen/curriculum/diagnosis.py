"""Diagnose an agent: play episodes without learning, and measure why skills are not mastered.

Every world is measured through its skills: which prerequisites episodes reach, when skills first succeed, and how
episodes end. A world with a probe (`World.make_probe`) adds the conditions that must hold for a skill to succeed in a
step: how many episodes fulfill each of them, how often all held (an opportunity), how often the agent then attempted
the skill, and how often it failed because a condition did not hold.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from envgen.agents.learner import SupportsAct
from envgen.agents.rollout import episode_skill_counts
from envgen.designers.designer import CycleDiagnosis, EpisodeEnds, SkillFailure
from envgen.settings import FrozenModel
from envgen.worlds.world import EpisodeEnd, LevelVectorEnv, Skill, World

from .evaluate import Estimate, Evaluation, check_episodes, evaluate, make_envs, rate_with_ci

DEFAULT_THRESHOLD = 50.0  # percent
QUANTILES = (0, 10, 25, 50, 75, 90, 100)  # of the episode lengths, in percent


class FunnelStage(FrozenModel):
    """A prerequisite or condition of a skill, in percent of the episodes in which the skill is possible."""

    name: str
    ever: float
    """Episodes that had it at some time."""
    together: float
    """Episodes that had it and every stage before it: conditions at the same step, prerequisites at any time."""


class Attempts(FrozenModel):
    """How often a skill could have succeeded, and how often the agent attempted it."""

    opportunity_steps: int
    """Opportunities: steps at which all conditions held."""
    opportunity_episodes: int
    """Episodes with at least one opportunity."""
    used_steps: int
    """Opportunities at which the skill was attempted."""
    used_episodes: int
    failed_steps: int
    """Failed attempts: steps at which the skill was attempted although a condition did not hold."""
    failed_episodes: int
    missing: dict[str, float]
    """Condition: the percentage of the failed attempts in which it did not hold."""


class Bottleneck(FrozenModel):
    """The stage at which the largest share of the episodes that got this far is lost."""

    kind: Literal["prerequisite", "condition", "try", "success"]
    name: str
    reached: int
    """Episodes that passed this stage and all before it."""
    of: int
    """Episodes that passed all before it, and so got this far."""

    def __str__(self) -> str:
        return f"{self.name}: {self.reached} of the {self.of} episodes that got this far"


class SkillDiagnosis(FrozenModel):
    """How far episodes get towards a skill."""

    success: Estimate
    """Success rate in percent."""
    mastered: bool
    episodes: int
    """Episodes in which the skill is possible."""
    first_step: float | None
    """The step of the first success, as the median over the episodes with one."""
    prerequisites: tuple[FunnelStage, ...]
    """The skills that it requires, directly or indirectly."""
    conditions: tuple[FunnelStage, ...]
    """What must hold for it to succeed in a step. Empty if the world has no probe."""
    attempts: Attempts | None
    bottleneck: Bottleneck | None
    """None if no episode is lost at any stage."""


class EndDiagnosis(FrozenModel):
    """The episodes that ended for one reason."""

    cause: str
    episodes: int
    lengths: tuple[int, ...]
    """Their lengths, in ascending order."""
    circumstances: dict[str, dict[str, int]]
    """Circumstance: value: the number of these episodes with it."""


class Diagnosis(FrozenModel):
    """What `diagnose` measured, for all skills of the world."""

    evaluation: Evaluation
    """The results of the episodes."""
    threshold: float
    """A skill is mastered if its success rate in percent reaches this."""
    length_quantiles: dict[str, float]
    """Percentage: this quantile of the episode lengths."""
    ends: tuple[EndDiagnosis, ...]
    """By cause, the most frequent first."""
    skills: dict[str, SkillDiagnosis]
    """What keeps the agent from each skill."""

    @property
    def unmastered(self) -> dict[str, SkillDiagnosis]:
        """The skills that are not mastered but possible, the most successful first."""
        skills = [(name, skill) for name, skill in self.skills.items() if not skill.mastered and skill.episodes]
        return dict(sorted(skills, key=lambda item: -item[1].success.value))

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.evaluation.summary}>"  # the lengths of all episodes are long

    def __str__(self) -> str:
        total = self.evaluation.episodes
        lines = [self.evaluation.summary, "ends of episodes"]
        for end in self.ends:
            share, step = 100 * end.episodes / total, np.median(end.lengths)
            lines.append(f"  {end.cause:22} {share:5.1f}%, median step {step:.0f}")
        lines.append(f"skills below {self.threshold:g}%, and where most episodes are lost")
        for name, skill in self.unmastered.items():
            lines.append(f"  {name:22} {skill.success.value:5.1f}%  {skill.bottleneck or 'no bottleneck'}")
        return "\n".join(lines)


def diagnose(
    agent: SupportsAct,
    world: World,
    level: Any = None,
    episodes: int = 256,
    seed: int = 0,
    observation: str = "symbols",
    deterministic: bool = False,
    threshold: float = DEFAULT_THRESHOLD,
) -> Diagnosis:
    """Play the episodes that `evaluate` plays with the same arguments, and measure why skills are not mastered.

    Args:
        level: The level to play; the original if None.
        deterministic: Take the most likely actions instead of sampling.
        threshold: A skill is mastered if its success rate in percent reaches this.
    """
    check_episodes(episodes, seed)
    parsed = world.Level.parse(level)
    with closing(make_envs(world, parsed, episodes, seed, observation)) as envs:
        recorder = EpisodeRecorder(world, envs)
        evaluation = evaluate(agent, world, parsed, episodes, seed, observation, deterministic, envs, recorder)
    episodes_played = _Episodes(world.skills, recorder)
    lengths = episodes_played.counts.lengths
    quantiles = zip(QUANTILES, np.percentile(lengths, QUANTILES).tolist(), strict=True)
    return Diagnosis(
        evaluation=evaluation,
        threshold=threshold,
        length_quantiles={f"{percent}%": value for percent, value in quantiles},
        ends=_summarize_ends(recorder.ends, lengths),
        skills={skill.name: episodes_played.diagnose(skill, threshold) for skill in world.skills},
    )


def diagnose_for_designer(
    agent: SupportsAct, world: World, episodes: int, seed: int, observation: str
) -> CycleDiagnosis:
    """Return what a designer learns about the episodes of an agent in the original."""
    diagnosis = diagnose(agent, world, None, episodes, seed, observation)
    return CycleDiagnosis(
        episodes=episodes,
        median_length=diagnosis.length_quantiles["50%"],
        ends=tuple(
            EpisodeEnds(cause=end.cause, episodes=end.episodes, median_length=float(np.median(end.lengths)))
            for end in diagnosis.ends
        ),
        failures={
            name: SkillFailure(
                success_rate=skill.success.value,
                bottleneck=str(skill.bottleneck or ""),
                opportunities=skill.attempts and skill.attempts.opportunity_episodes,
                used=skill.attempts and skill.attempts.used_episodes,
            )
            for name, skill in diagnosis.unmastered.items()
        },
    )


class EpisodeCounts(NamedTuple):
    """Counts of episodes, one per row. `conditions` are those of all skills, one skill after the other."""

    lengths: np.ndarray  # (n,) int
    first_steps: np.ndarray  # (n, skills) int, the step of the first success, 0 where none
    ever: np.ndarray  # (n, conditions) bool, whether the condition held at some step
    together: np.ndarray  # (n, conditions) bool, whether it did so with all before it of the same skill
    opportunities: np.ndarray  # (n, skills) int, steps at which all conditions of the skill held
    used: np.ndarray  # (n, skills) int, those of them at which the skill was attempted
    failed: np.ndarray  # (n, skills) int, steps at which it was attempted while a condition did not hold
    missing: np.ndarray  # (n, conditions) int, those of the failed steps at which this condition did not hold

    @classmethod
    def zeros(cls, n: int, num_skills: int, num_conditions: int) -> "EpisodeCounts":
        skills, conditions = (n, num_skills), (n, num_conditions)
        return cls(
            lengths=np.zeros(n, np.int64),
            first_steps=np.zeros(skills, np.int64),
            ever=np.zeros(conditions, np.bool_),
            together=np.zeros(conditions, np.bool_),
            opportunities=np.zeros(skills, np.int64),
            used=np.zeros(skills, np.int64),
            failed=np.zeros(skills, np.int64),
            missing=np.zeros(conditions, np.int64),
        )

    def rows(self, selected: Any) -> "EpisodeCounts":
        """A copy of some rows."""
        return EpisodeCounts(*(array[selected].copy() for array in self))


class EpisodeRecorder:
    """An `EpisodeObserver` that keeps the counts of every episode that `run_episodes` plays.

    Attributes:
        conditions: The conditions of each skill that has some, in the order of the columns of `EpisodeCounts`.
        ends: How the episodes ended, in the order in which they ended.
    """

    def __init__(self, world: World, envs: LevelVectorEnv):
        self.skills, self.probe = [skill.name for skill in world.skills], world.make_probe(envs)
        self.conditions: dict[str, tuple[str, ...]] = {}
        if self.probe is not None:
            self.conditions = {name: world.conditions[name] for name in self.skills if name in world.conditions}
        self.ends: list[EpisodeEnd] = []
        self._finished: list[tuple[EpisodeCounts, np.ndarray]] = []
        num_conditions = sum(map(len, self.conditions.values()))
        self._running = EpisodeCounts.zeros(envs.num_envs, len(self.skills), num_conditions)

    def before_step(self, actions: np.ndarray, playing: np.ndarray) -> None:
        if self.probe is None:
            return
        checks, counts = self.probe.before_step(actions), self._running
        for name, columns in condition_slices(self.conditions).items():
            conditions, attempted = checks[name]
            k, is_opportunity = self.skills.index(name), conditions.all(1)
            has_failed = attempted & ~is_opportunity
            counts.ever[:, columns] |= conditions
            counts.together[:, columns] |= np.logical_and.accumulate(conditions, axis=1)
            counts.opportunities[:, k] += is_opportunity
            counts.used[:, k] += is_opportunity & attempted
            counts.failed[:, k] += has_failed
            counts.missing[:, columns] += has_failed[:, None] & ~conditions

    def after_step(
        self, playing: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, infos: Mapping[str, Any]
    ) -> None:
        counts, dones, achievements = self._running, terminated | truncated, infos["achievements"]
        if dones.any():
            achievements = np.where(dones[:, None], infos["final_info"]["achievements"], achievements)
        counts.lengths[:] += 1
        env_ids, skills = np.nonzero((achievements > 0) & (counts.first_steps == 0))
        counts.first_steps[env_ids, skills] = counts.lengths[env_ids]
        ended = np.flatnonzero(dones & playing)
        if ended.size:
            if self.probe is not None:
                self.ends += self.probe.episode_ends(ended)
            else:
                self.ends += [EpisodeEnd("terminated" if terminated[i] else "time limit") for i in ended]
            self._finished.append((counts.rows(ended), episode_skill_counts(infos["final_info"], ended)))
        for array in counts:
            array[dones] = 0

    def finished(self) -> tuple[EpisodeCounts, np.ndarray]:
        """The counts of all episodes that ended, and their skill counts (episodes, skills), -1 where impossible."""
        parts, skill_counts = zip(*self._finished, strict=True)
        return EpisodeCounts(*map(np.concatenate, zip(*parts, strict=True))), np.concatenate(skill_counts)


def condition_slices(conditions: Mapping[str, Sequence[str]]) -> dict[str, slice]:
    """Where the conditions of each skill are among those of all skills."""
    stops = list(accumulate(map(len, conditions.values())))
    return {name: slice(stop - len(names), stop) for (name, names), stop in zip(conditions.items(), stops, strict=True)}


# --- from counts to results


def _summarize_ends(ends: Sequence[EpisodeEnd], lengths: np.ndarray) -> tuple[EndDiagnosis, ...]:
    results: list[EndDiagnosis] = []
    for cause, count in Counter(end.cause for end in ends).most_common():
        selected = [k for k, end in enumerate(ends) if end.cause == cause]
        circumstances = {
            name: dict(Counter(ends[k].circumstances[name] for k in selected).most_common())
            for name in ends[selected[0]].circumstances
        }
        sorted_lengths = tuple(np.sort(lengths[selected]).tolist())
        results.append(EndDiagnosis(cause=cause, episodes=count, lengths=sorted_lengths, circumstances=circumstances))
    return tuple(results)


class _Episodes:
    """All episodes of a diagnosis."""

    def __init__(self, skills: Sequence[Skill], recorder: EpisodeRecorder):
        self.skills, self.names = {skill.name: skill for skill in skills}, recorder.skills
        self.conditions, self.slices = recorder.conditions, condition_slices(recorder.conditions)
        self.counts, self.skill_counts = recorder.finished()

    def diagnose(self, skill: Skill, threshold: float) -> SkillDiagnosis:
        k = self.names.index(skill.name)
        possible = self.skill_counts[:, k] >= 0
        counts, skill_counts = self.counts.rows(possible), self.skill_counts[possible]
        succeeded = skill_counts[:, k] > 0
        success, first_steps = rate_with_ci(int(succeeded.sum()), len(succeeded)), counts.first_steps[succeeded, k]
        prerequisites, conditions = self._ordered_prerequisites(skill), self.conditions.get(skill.name, ())
        # A prerequisite that is impossible in an episode (-1) is not required there.
        reached = skill_counts[:, [self.names.index(name) for name in prerequisites]] != 0
        columns = self.slices.get(skill.name, slice(0, 0))
        ever, together = counts.ever[:, columns], counts.together[:, columns]
        return SkillDiagnosis(
            success=success,
            mastered=success.value >= threshold,
            episodes=len(succeeded),
            first_step=float(np.median(first_steps)) if first_steps.size else None,
            prerequisites=_stages(prerequisites, reached, np.logical_and.accumulate(reached, axis=1)),
            conditions=_stages(conditions, ever, together),
            attempts=_count_attempts(counts, k, columns, conditions) if conditions else None,
            bottleneck=_find_bottleneck(
                dict(zip(prerequisites, reached.T, strict=True)),
                dict(zip(conditions, together.T, strict=True)),
                counts.used[:, k] > 0,
                succeeded,
            ),
        )

    def _ordered_prerequisites(self, skill: Skill) -> list[str]:
        """All skills that it requires, directly or not, each after its own prerequisites, then by success rate."""
        required, pending = set[str](), list(skill.prerequisites)
        while pending:
            if (name := pending.pop()) not in required:
                required.add(name)
                pending += self.skills[name].prerequisites
        successes = (self.skill_counts > 0).sum(0)
        ordered: list[str] = []
        while required:
            available = [name for name in self.names if name in required]
            available = [name for name in available if not required & set(self.skills[name].prerequisites)]
            ordered.append(max(available, key=lambda name: successes[self.names.index(name)]))
            required.remove(ordered[-1])
        return ordered


def _count_attempts(counts: EpisodeCounts, k: int, columns: slice, conditions: Sequence[str]) -> Attempts:
    opportunities, used, failed = (array[:, k] for array in (counts.opportunities, counts.used, counts.failed))
    missing = 100 * counts.missing[:, columns].sum(0) / max(1, failed.sum())
    return Attempts(
        opportunity_steps=int(opportunities.sum()),
        opportunity_episodes=int((opportunities > 0).sum()),
        used_steps=int(used.sum()),
        used_episodes=int((used > 0).sum()),
        failed_steps=int(failed.sum()),
        failed_episodes=int((failed > 0).sum()),
        missing=dict(zip(conditions, missing.tolist(), strict=True)),
    )


def _find_bottleneck(
    prerequisites: Mapping[str, np.ndarray],
    conditions: Mapping[str, np.ndarray],
    used: np.ndarray,
    succeeded: np.ndarray,
) -> Bottleneck | None:
    """Follow the episodes through prerequisites, conditions, an attempt and the success.

    Args:
        prerequisites: The episodes that reached each, (episodes,) bool, in order.
        conditions: The episodes in which each held at the same step as all before it, in order.
    """
    # A level may provide what a prerequisite yields, so an episode in which all conditions held passes it.
    is_ready = succeeded
    if conditions:
        is_ready = succeeded | list(conditions.values())[-1]
    passed = np.ones(len(succeeded), np.bool_)
    stages: list[tuple[Any, str, np.ndarray]] = []
    for name, reached in prerequisites.items():
        passed = passed & (reached | is_ready)
        stages.append(("prerequisite", name, passed))
    stages += [("condition", name, passed & together) for name, together in conditions.items()]
    if conditions:
        stages.append(("try", "attempt at an opportunity", used))
    stages.append(("success", "success", succeeded))
    worst, lowest_share, before = None, 1.0, len(succeeded)
    for kind, name, mask in stages:
        count = int(mask.sum())
        share = (count + 1) / (before + 1)  # +1, so that one or two episodes have little weight
        if share < lowest_share:
            worst, lowest_share = Bottleneck(kind=kind, name=name, reached=count, of=before), share
        before = count
    return worst


def _stages(names: Sequence[str], ever: np.ndarray, together: np.ndarray) -> tuple[FunnelStage, ...]:
    """Return the stages of episodes, given as arrays (episodes, stages) of bool."""
    if not len(ever):
        return tuple(FunnelStage(name=name, ever=0, together=0) for name in names)
    rates = zip(names, 100 * ever.mean(0), 100 * together.mean(0), strict=True)
    return tuple(FunnelStage(name=name, ever=float(single), together=float(joint)) for name, single, joint in rates)
