"""What progress lines say about levels and skills: the results of each level, and when skills first succeeded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np

from envgen.runs.kinds import get_path, number, skill_rates
from envgen.runs.phases import (
    ORIGINAL_KEY,
    CyclePhase,
    cycle_phase_name,
    entry_keys,
    group_levels,
    has_levels,
    is_final,
    is_sampled,
)

from .curves import num_skills
from .read import RunFiles, counts, objects, texts

WINDOW = 100  # episodes in the original over which a success rate is averaged
THRESHOLDS = (5.0, 20.0)  # percent


@dataclass(frozen=True)
class LevelSlot:
    """The levels whose results are one entry of `levels` in the progress lines of a phase."""

    skills: frozenset[str] = frozenset()  # that its levels teach
    is_original: bool = False


ORIGINAL = (LevelSlot(is_original=True),)


@dataclass
class SkillSteps:
    """When a skill first succeeded, and when its success in the original first exceeded each threshold, in steps."""

    in_level: float | None = None
    in_original: float | None = None
    above: dict[float, float] = field(default_factory=dict)


def skill_names(run: RunFiles) -> list[str]:
    """The world's skills, in the order of the counts in the progress."""
    evaluations = [*(cycle.result.get("evaluation") for cycle in run.cycles), run.summary.get("final")]
    named = (list(skills) for e in evaluations if isinstance(skills := get_path(e, "skills"), Mapping))
    n = num_skills(run)
    return next((names for names in named if not n or len(names) == n), [])


def taught_skills(level: Mapping[str, Any]) -> list[str]:
    """The skills that a proposed level teaches."""
    chain = level.get("chain")
    of_chain = [chain["skill"]] if isinstance(chain, dict) and isinstance(chain.get("skill"), str) else []
    return list(dict.fromkeys([*of_chain, *texts(level, "skills")]))


def phase_slots(run: RunFiles) -> dict[str, tuple[LevelSlot, ...]]:
    """The slot of each entry of `levels` in the progress lines, by phase."""
    slots: dict[str, tuple[LevelSlot, ...]] = {}
    for cycle in run.cycles:
        proposed = objects(cycle.design, "proposal", "levels")
        taught = {
            key: frozenset(skill for level in levels for skill in taught_skills(level))
            for key, levels in group_levels(proposed).items()
        }
        for kind in get_args(CyclePhase):
            phase = cycle_phase_name(cycle.number, kind)
            plays_proposed = has_levels(phase) and not is_sampled(phase)
            if plays_proposed and not cycle.design:  # its levels are not known
                continue
            skills = taught if plays_proposed else {}
            slots[phase] = tuple(
                LevelSlot(skills.get(key, frozenset()), key == ORIGINAL_KEY) for key in entry_keys(phase, proposed)
            )
    return slots


def slots_of(line: Mapping[str, Any], slots: Mapping[str, tuple[LevelSlot, ...]]) -> tuple[LevelSlot, ...]:
    name = line.get("phase")
    if not isinstance(name, str):
        return ()
    return slots.get(name) or (ORIGINAL if is_final(name) else ())


def plays_levels(phase: str, slots: Mapping[str, tuple[LevelSlot, ...]]) -> bool:
    """Whether environments play levels in a phase, and not only the original; without its levels, by its name."""
    if phase in slots:
        return not all(slot.is_original for slot in slots[phase])
    return has_levels(phase)


def results_in_original(line: Mapping[str, Any], slots: Mapping[str, tuple[LevelSlot, ...]]) -> Mapping[str, Any]:
    """The counts of the episodes of a progress line that were played in the original."""
    if not plays_levels(str(line.get("phase")), slots):
        return line
    entries = zip(slots_of(line, slots), objects(line, "levels"), strict=False)
    return next((entry for slot, entry in entries if slot.is_original), {})


class LevelResult(NamedTuple):
    """The training episodes that ended in a level, or in the original, in one update."""

    steps: float
    phase: str
    slot: LevelSlot
    episodes: float
    succeeded: list[float]  # by skill
    possible: list[float]  # by skill, the episodes in which it was possible


def level_results(run: RunFiles) -> Iterable[LevelResult]:
    """Yield the results of each level after each update."""
    slots, n = phase_slots(run), len(skill_names(run))
    for line in run.lines:
        steps = number(line, "steps")
        for slot, result in zip(slots_of(line, slots), objects(line, "levels"), strict=False):
            episodes, succeeded = number(result, "episodes"), counts(result.get("succeeded"), n)
            if steps is None or not episodes or succeeded is None:
                continue
            possible = counts(result.get("possible"), n) or [episodes] * n
            yield LevelResult(steps, str(line.get("phase")), slot, episodes, succeeded, possible)


def skill_steps(run: RunFiles) -> dict[str, SkillSteps]:
    """When each skill first succeeded, and when its success rate in the original first exceeded the thresholds.

    Success rates are those of at least WINDOW training episodes in a row in which the skill was possible, and of the
    evaluations.
    """
    names = skill_names(run)
    steps_by_skill = {name: SkillSteps() for name in names}
    num_possible, num_succeeded = np.zeros((2, len(names)))
    rates_at: list[tuple[float, Mapping[str, float]]] = []
    for steps, _, slot, _, successes, possible in level_results(run):
        for name, count in zip(names, successes, strict=True):
            attribute = "in_original" if slot.is_original else "in_level"
            if count > 0 and getattr(steps_by_skill[name], attribute) is None:
                setattr(steps_by_skill[name], attribute, steps)
        if slot.is_original:
            num_possible += possible
            num_succeeded += successes
            complete = num_possible >= WINDOW
            if complete.any():
                rates = {names[k]: float(100 * num_succeeded[k] / num_possible[k]) for k in np.flatnonzero(complete)}
                rates_at.append((steps, rates))
                num_possible[complete] = num_succeeded[complete] = 0
    for cycle in run.cycles:
        if (steps := number(cycle.result, "cycle", "steps")) is not None:
            rates_at.append((steps, skill_rates(cycle.result.get("evaluation"))))
    if run.summary and run.steps:
        rates_at.append((run.steps, skill_rates(run.summary.get("final"))))
    for steps, by_skill in sorted(rates_at, key=lambda item: item[0]):
        for name, rate in by_skill.items():
            for threshold in THRESHOLDS if name in steps_by_skill else ():
                if rate > threshold:
                    steps_by_skill[name].above.setdefault(threshold, steps)
    return steps_by_skill
