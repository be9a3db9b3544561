"""Designers to compare against: none, fixed, random, easy-to-hard and adversarial.

They reproduce the baselines of EnvGen (arXiv 2403.12014).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from envgen.settings import Settings
from envgen.worlds.level_space import random_level, setting_values
from envgen.worlds.world import Level

from .chains import continue_chain
from .designer import (
    AuditResult,
    Brief,
    Cycle,
    Designer,
    DesignError,
    DesignerWrapper,
    LevelChain,
    Proposal,
    ProposedLevel,
    ScoredBy,
)

CANDIDATES_PER_LEVEL = 4  # levels ranked by `adversarial` per level used


class NoDesigner(Designer):
    """No levels: train in the original for the same number of steps."""

    name = "none"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        return Proposal()


class FixedDesigner(DesignerWrapper):
    """The first proposal of another designer, or levels of your own, in every cycle (EnvGen, table 2)."""

    name = "fixed"
    default_source = "expert"
    takes_levels = True
    asks_every_cycle = False

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        if history:
            return Proposal(levels=tuple(continue_chain(level, history) for level in history[0].proposal.levels))
        return self.source.design(brief, history)

    def revise(
        self, brief: Brief, history: Sequence[Cycle], proposal: Proposal, audits: Sequence[AuditResult]
    ) -> Proposal | None:
        return None if history else self.source.revise(brief, history, proposal, audits)


class UserLevels(Designer):
    """Levels and chains written by the user, repeated in order until there are enough.

    A chain is a `LevelChain`, or its JSON data as `{"chain": {...}}`.
    """

    name = "user-levels"

    def __init__(self, levels: Sequence[Level | LevelChain | Mapping[str, Any]]):
        self.levels = [_dump(level) for level in levels]

    def config(self) -> dict[str, Any]:
        return {"name": self.name, "levels": self.levels}

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        if len(self.levels) > brief.num_levels:
            raise DesignError(
                f"there are {len(self.levels)} levels, but a cycle trains in {brief.num_levels}; "
                f"set levels={len(self.levels)} in the plan, or pass fewer levels"
            )
        items = islice(cycle(self.levels), brief.num_levels)
        return Proposal(levels=tuple(_propose(item, brief.Level) for item in items))


def _dump(level: Level | LevelChain | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(level, LevelChain):
        return {"chain": level.model_dump(mode="json")}
    return level.to_overrides() if isinstance(level, Level) else dict(level)


def _propose(item: Mapping[str, Any], level_type: type[Level]) -> ProposedLevel:
    purpose = "written by the user"
    if "chain" not in item:
        return ProposedLevel(level=level_type.parse(item), purpose=purpose)
    chain = LevelChain.from_json(item["chain"], level_type)
    return ProposedLevel(level=chain.levels[chain.start], purpose=purpose, skills=(chain.skill,), chain=chain)


class RandomSettings(Settings):
    """How random levels are drawn."""

    keep_prob: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The probability that a setting is left at its original value instead of being drawn."""


class RandomDesigner(Designer):
    """Random levels: every setting at random. A baseline for all other designers.

    Each setting keeps its original value with probability `keep_prob`, otherwise it takes a value drawn uniformly. With
    `keep_prob` 0 a Crafter player would start with half of the maximum of every item on average, and nothing would be
    left to learn.
    """

    name = "random"
    settings_type = RandomSettings
    settings: RandomSettings

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        rng = np.random.default_rng([brief.seed, brief.cycle])
        space = setting_values(brief.Level)
        levels = []
        for _ in range(brief.num_levels):
            level = random_level(brief.Level, space, self.settings.keep_prob, rng)
            levels.append(ProposedLevel(level=level, purpose="drawn at random"))
        return Proposal(levels=tuple(levels))


class EasyToHardDesigner(DesignerWrapper):
    """Rank the levels of all cycles at once and use the easiest first (EnvGen, appendix D).

    The rank is the score that a scoring agent reaches in the level after training in it. A run that is extended by
    further cycles ranks new levels for these.
    """

    name = "easy-to-hard"
    asks_every_cycle = False

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        ranking = next((cycle for cycle in reversed(history) if cycle.proposal.candidates), None)
        if ranking is not None:
            start = (brief.cycle - ranking.number) * brief.num_levels
            if levels := ranking.proposal.candidates[start : start + brief.num_levels]:
                return Proposal(levels=levels)
        num_cycles = brief.num_cycles - brief.cycle + 1
        ranked = rank_proposal(self.source, brief, history, brief.num_levels * num_cycles, "scoring_agent")
        return ranked.model_copy(update={"levels": ranked.candidates[: brief.num_levels]})


class AdversarialDesigner(DesignerWrapper):
    """Rank new levels in each cycle and use the hardest (EnvGen, appendix D).

    The first cycle ranks by the score of a scoring agent that trained in each level, later cycles by the score of the
    agent itself.
    """

    name = "adversarial"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        scored_by = "agent" if history else "scoring_agent"
        ranked = rank_proposal(self.source, brief, history, CANDIDATES_PER_LEVEL * brief.num_levels, scored_by)
        hardest_first = ranked.candidates[::-1]
        return ranked.model_copy(update={"levels": hardest_first[: brief.num_levels], "candidates": hardest_first})


def rank_proposal(
    source: Designer, brief: Brief, history: Sequence[Cycle], count: int, scored_by: ScoredBy
) -> Proposal:
    """Have `source` propose `count` levels; return them as candidates, highest score first."""
    if brief.score_levels is None:
        raise DesignError("this designer ranks levels by score; brief.score_levels must be a function")
    candidates_brief = dataclasses.replace(brief, num_levels=count, levels_per_cycle=brief.num_levels)
    proposal = source.design(candidates_brief, history)
    levels = proposal.levels
    scores = brief.score_levels([proposed.level for proposed in levels], scored_by)
    order = sorted(range(len(levels)), key=lambda k: (-scores[k], k))
    candidates = tuple(
        levels[k].model_copy(update={"purpose": f"{levels[k].purpose}; score {scores[k]:.1f}"}) for k in order
    )
    return proposal.model_copy(update={"levels": (), "candidates": candidates})
