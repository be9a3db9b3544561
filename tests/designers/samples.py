"""A toy world, and briefs, outcomes and cycles to test designers with."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from envgen.designers.designer import Brief, Cycle, LevelOutcome, Proposal, ProposedLevel, SuccessRate
from envgen.designers.reply import ParsedReply
from envgen.settings import Settings
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import Level, Skill, World

SKILL_NAMES = [skill.name for skill in Crafter.skills]
NO_USAGE = {"calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0}


class Ground(Settings):
    stones: int = Field(default=2, ge=0, le=4)


class ToyLevel(Level):
    slope: Literal["flat", "original", "steep"] = "original"
    fog: bool = False
    ground: Ground = Ground()


class StoneScorer:
    """Scores a level by the number of stones on the ground, and records its calls."""

    def __init__(self):
        self.calls: list[tuple[list[Level], str]] = []

    def __call__(self, levels: Sequence[Level], scored_by: str) -> list[float]:
        self.calls.append((list(levels), scored_by))
        return [10.0 * num_stones(level) for level in levels]


def num_stones(level: Level) -> int:
    assert isinstance(level, ToyLevel)
    return level.ground.stones


def world_brief(world: World | type[World] = Crafter, **fields: Any) -> Brief:
    defaults = {"num_levels": 4, "cycle": 1, "num_cycles": 4, "seed": 0}
    return Brief(world.name, world.rules, world.skills, world.Level, world.skill_levels, **(defaults | fields))


def toy_brief(**fields: Any) -> Brief:
    defaults = {"num_levels": 4, "cycle": 1, "num_cycles": 4, "seed": 0, "score_levels": StoneScorer()}
    return Brief("toy", "", (Skill("climb"),), ToyLevel, {"climb": {"slope": "flat"}}, **(defaults | fields))


def make_outcome(rates: Sequence[float]) -> LevelOutcome:
    skills = {f"skill {k}": rate for k, rate in enumerate(rates)}
    return LevelOutcome(episodes=10, reward=1.0, skills=skills, first_third=skills, last_third=skills)


def make_proposal(level_type: type[Level], *levels: Mapping[str, Any]) -> Proposal:
    return Proposal(levels=tuple(ProposedLevel(level=level_type.parse(level)) for level in levels))


def make_cycle(
    proposal: Proposal,
    outcomes: Sequence[LevelOutcome | None] = (),
    number: int = 1,
    rates: Mapping[str, float] | None = None,
) -> Cycle:
    return Cycle(
        number=number,
        steps=1000 * number,
        proposal=proposal,
        audits=(),
        outcomes=tuple(outcomes) or (None,) * len(proposal.levels),
        success_rates={name: SuccessRate(mean=mean, std=0) for name, mean in (rates or {}).items()},
        reward=0.0,
    )


def overrides(proposal: Proposal | ParsedReply) -> list[dict[str, Any]]:
    return [item.level.to_overrides() for item in proposal.levels]
