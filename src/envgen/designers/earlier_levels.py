"""The levels that a language model has designed so far, which it can keep, change or drop.

A level is named after the cycle and the position in which it was first used: 1.2 is the second level of the first
cycle. A level or chain that is used again in later cycles keeps its name, and a chain goes on at the stage it reached.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envgen.worlds.world import Level

from .chains import derive_chain
from .designer import Brief, Cycle, LevelChain, LevelOutcome, ProposedLevel

EarlierLevels = dict[str, "EarlierLevel"]  # by name, in the order of first use


@dataclass
class EarlierLevel:
    """A level with its results in all cycles that used it."""

    proposed: ProposedLevel
    cycles: list[int] = field(default_factory=list)
    outcomes: list[LevelOutcome] = field(default_factory=list)  # of the cycles in which enough episodes ended

    @property
    def episodes(self) -> int:
        return sum(outcome.episodes for outcome in self.outcomes)

    @property
    def reached_stage(self) -> int:
        """The stage at which the last training in this chain ended; 0 for a level."""
        chain = self.proposed.chain
        if chain is None:
            return 0
        stages = [outcome.chain.stage for outcome in self.outcomes if outcome.chain is not None]
        return stages[-1] if stages else chain.start


def collect_earlier_levels(history: Sequence[Cycle]) -> EarlierLevels:
    """The levels of all finished cycles."""
    earlier_levels: EarlierLevels = {}
    names: dict[Level | LevelChain, str] = {}
    for cycle in history:
        for k, proposed in enumerate(cycle.proposal.levels):
            name = names.setdefault(_identity(proposed), f"{cycle.number}.{k + 1}")
            entry = earlier_levels.setdefault(name, EarlierLevel(proposed))
            entry.proposed = proposed  # with the latest purpose, skills and weight
            if cycle.number in entry.cycles:
                continue  # a copy of the level, with the same outcome
            entry.cycles.append(cycle.number)
            outcome = cycle.outcomes[k] if k < len(cycle.outcomes) else None
            entry.outcomes += [outcome] if outcome is not None else []
    return earlier_levels


def names_of(levels: Sequence[ProposedLevel], earlier_levels: Mapping[str, EarlierLevel]) -> list[str]:
    """The name of each of these levels, all of which are among the earlier ones."""
    names = {_identity(entry.proposed): name for name, entry in earlier_levels.items()}
    return [names[_identity(proposed)] for proposed in levels]


def _identity(proposed: ProposedLevel) -> Level | LevelChain:
    """What is equal for equal levels, and for a chain at any of its stages."""
    return proposed.chain.at_stage(0) if proposed.chain is not None else proposed.level


def chain_stages(brief: Brief) -> dict[str, int]:
    """The skills that can be taught by a chain, each with the number of stages in its chain."""
    lengths = {name: len(_derive(name, brief)) for name in brief.skill_levels}
    return {skill.name: lengths[skill.name] for skill in brief.skills if lengths.get(skill.name, 0) > 1}


def make_chain(skill: str, brief: Brief, earlier_levels: Mapping[str, EarlierLevel]) -> LevelChain:
    """The chain for a skill, beginning at the stage that it last reached."""
    chain = LevelChain(skill=skill, levels=_derive(skill, brief))
    start = next((e.reached_stage for e in earlier_levels.values() if _identity(e.proposed) == chain), 0)
    return chain.at_stage(start)


def _derive(skill: str, brief: Brief) -> tuple[Level, ...]:
    return derive_chain(skill, brief.Level, brief.skills, brief.skill_levels)


def merge_settings(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a level with some of them changed. Groups are merged; lists and values are replaced."""
    merged = dict(base)
    for name, value in changes.items():
        old = merged.get(name)
        merged[name] = merge_settings(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
