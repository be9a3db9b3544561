"""The expert: chains for the skills with the largest gain in the score that are learnable now, and rehearsal."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import SKILL_NAMES, make_cycle, overrides, world_brief

from envgen.designers.chains import derive_chain
from envgen.designers.designer import Brief, ChainOutcome, Cycle, LevelOutcome, Proposal, SuccessRate
from envgen.designers.expert import ExpertDesigner, ExpertSettings
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.world import Level

CHAINS = {
    name: derive_chain(name, Crafter.Level, Crafter.skills, Crafter.skill_levels) for name in SKILL_NAMES
}  # fmt: skip
RATES = st.sampled_from([0.0, 3.0, 20.0, 49.9, 50.0, 79.9, 80.0, 100.0])


def brief_with(rate_of: Callable[[str, int], float] | None, num_levels: int = 4, cycle: int = 2) -> Brief:
    """A brief in which the agent succeeds at `rate_of(skill, stage)` percent in the stages of the skills' chains."""

    def success_rates(levels: Sequence[Level]) -> list[dict[str, float]]:
        assert rate_of is not None
        return [
            {name: rate_of(name, chain.index(level)) for name, chain in CHAINS.items() if level in chain}
            for level in levels
        ]

    return world_brief(num_levels=num_levels, cycle=cycle, success_rates=success_rates if rate_of else None)


def design(
    rates: Mapping[str, float], rate_of: Callable[[str, int], float] | None = None, num_levels: int = 4, **settings: Any
) -> Proposal:
    """The proposal after a cycle with these rates in the original."""
    designer = ExpertDesigner(ExpertSettings(**settings))
    return designer.design(brief_with(rate_of, num_levels), [make_cycle(Proposal(), rates=rates)])


def taught(proposal: Proposal) -> list[tuple[str, int]]:
    """The skill of each level and the stage of its chain; ("", 0) for the original."""
    return [
        (item.skills[0], CHAINS[item.skills[0]].index(item.level)) if item.skills else ("", 0)
        for item in proposal.levels
    ]


def value(name: str, rates: Mapping[str, float], success: float) -> float:
    q, prerequisites = success / 100, next(skill.prerequisites for skill in Crafter.skills if skill.name == name)
    target = max(2.0, min([rates[other] for other in prerequisites] or [100.0]))
    return max(0.0, math.log((1 + target) / (1 + rates[name]))) * (q * (1 - q) + 0.01)


@given(st.fixed_dictionaries({name: RATES for name in SKILL_NAMES}), st.integers(0, 2**20), st.integers(1, 8))
def test_levels_go_to_the_skills_with_the_largest_learnable_gain(rates, seed, num_levels):
    success = {name: float((seed * (k + 3)) % 54 + 6) for k, name in enumerate(SKILL_NAMES)}  # neither easy nor hard
    skills = [name for name, _ in taught(design(rates, lambda name, stage: success[name], num_levels)) if name]
    expected = [name for name in SKILL_NAMES if rates[name] < 80]
    expected.sort(key=lambda name: (-value(name, rates, success[name]), name))
    assert skills == expected[:num_levels]


def test_rare_skills_that_are_learnable_come_before_common_ones_and_unlearnable_ones():
    rates = dict.fromkeys(SKILL_NAMES, 90.0) | {"collect_wood": 60.0, "collect_iron": 5.0, "eat_plant": 0.0}
    success = {"collect_wood": 60.0, "collect_iron": 30.0, "eat_plant": 0.0}
    proposal = design(rates, lambda name, stage: success.get(name, 95.0))
    assert [name for name, _ in taught(proposal)] == ["collect_iron", "collect_wood", "eat_plant", ""]
    assert proposal.levels[0].purpose == "teach collect_iron (5.0%), stage 1 of 8: 30% here"


def test_skills_whose_prerequisites_fail_come_after_those_that_can_succeed_now():
    rates = dict.fromkeys(SKILL_NAMES, 0.0) | {"collect_wood": 90.0, "place_table": 20.0}
    names = [name for name, _ in taught(design(rates, num_levels=22))]
    assert names.index("place_table") < names.index("collect_diamond")
    assert names.index("make_wood_pickaxe") < names.index("make_iron_pickaxe")


def test_the_first_levels_are_learnable_by_the_untrained_agent():
    def rate_of(name: str, stage: int) -> float:
        return (
            {"make_iron_pickaxe": 30.0, "collect_wood": 55.0, "eat_plant": 20.0}.get(name, 0.0) if stage == 0 else 0.0
        )

    proposal = ExpertDesigner().design(brief_with(rate_of, cycle=1), ())
    assert taught(proposal)[:3] == [("collect_wood", 0), ("make_iron_pickaxe", 0), ("eat_plant", 0)]


@pytest.mark.parametrize(
    ("rate_by_stage", "expected"),
    [
        ([30, 0, 0], 0),  # learnable where it is
        ([90, 40, 0], 1),  # too easy: the next stage
        ([100, 90, 70], 2),
        ([100, 100, 100, 40], 3),
        ([100, 0, 0], 0),  # neither is learnable, so the one in which the skill succeeds
        ([100] * 10, 9),  # all of them are too easy, so the hardest one
        ([90, 2, 0], 0),
    ],
)
def test_the_stage_is_the_most_learnable_one(rate_by_stage, expected):
    rates = dict.fromkeys(SKILL_NAMES, 100.0) | {"make_iron_pickaxe": 0.0}
    proposal = design(rates, lambda name, stage: [*rate_by_stage, *[0] * 9][stage], 1)
    assert taught(proposal) == [("make_iron_pickaxe", expected)]
    chain = proposal.levels[0].chain
    assert chain is not None
    assert (chain.skill, chain.levels, chain.start) == ("make_iron_pickaxe", CHAINS["make_iron_pickaxe"], expected)


def cycle_in_chain(stage: int, rates: Mapping[str, float], number: int = 1) -> Cycle:
    """A cycle that trained the iron pickaxe and ended in this stage."""
    proposal = design(dict.fromkeys(SKILL_NAMES, 100.0) | {"make_iron_pickaxe": 0.0}, num_levels=1)
    outcome = LevelOutcome(
        episodes=30, reward=1.0, skills={}, first_third={}, last_third={},
        chain=ChainOutcome(stage=stage, episodes=(30, *[0] * 6), successes=(9, *[0] * 6)),
    )  # fmt: skip
    return make_cycle(proposal, [outcome], number, rates)


def test_a_chain_continues_at_the_stage_that_training_reached():
    rates = dict.fromkeys(SKILL_NAMES, 100.0) | {"make_iron_pickaxe": 0.0}
    history = [cycle_in_chain(3, rates), make_cycle(Proposal(), rates=rates, number=2)]

    def stage_after(rate: float) -> int:
        return taught(ExpertDesigner().design(brief_with(lambda name, stage: rate, 1, 3), history))[0][1]

    assert stage_after(40.0) == 3
    assert stage_after(0.0) == 3  # nothing is learnable in the stages before either
    by_stage = {3: 0.0, 2: 50.0}
    brief = brief_with(lambda name, stage: by_stage.get(stage, 0.0), 1, 3)
    assert taught(ExpertDesigner().design(brief, history)) == [("make_iron_pickaxe", 2)]


def test_thresholds_are_settings():
    rates = dict.fromkeys(SKILL_NAMES, 100.0) | {"make_iron_pickaxe": 0.0}
    by_stage = [40, 50, 45]
    assert taught(design(rates, lambda name, stage: [*by_stage, *[0] * 9][stage], 1)) == [("make_iron_pickaxe", 0)]
    proposal = design(rates, lambda name, stage: [*by_stage, *[0] * 9][stage], 1, advance_at=40, fall_back_at=2)
    assert taught(proposal) == [("make_iron_pickaxe", 1)]
    chain = proposal.levels[0].chain
    assert chain is not None
    assert (chain.advance_at, chain.fall_back_at) == (40, 2)
    assert taught(design(dict.fromkeys(SKILL_NAMES, 80.0), num_levels=1)) == [("", 0)]
    assert taught(design(dict.fromkeys(SKILL_NAMES, 80.0), num_levels=1, mastery_threshold=90)) != [("", 0)]


# --- rehearsal


def test_skills_that_have_fallen_since_their_best_are_rehearsed_first():
    earlier = dict.fromkeys(SKILL_NAMES, 90.0) | {"collect_iron": 30.0, "make_iron_pickaxe": 0.0, "collect_coal": 70.0}
    now = earlier | {"wake_up": 20.0, "collect_iron": 15.0, "place_table": 81.0, "collect_coal": 60.5}
    history = [make_cycle(Proposal(), rates=earlier), make_cycle(Proposal(), rates=now, number=2)]
    success = {"collect_iron": [90, 90, 30, 30, 0], "wake_up": [40], "make_iron_pickaxe": [50]}
    brief = brief_with(lambda name, stage: ([*success.get(name, []), *[0] * 19])[stage], 4, 3)
    proposal = ExpertDesigner().design(brief, history)
    assert taught(proposal)[:3] == [("wake_up", 0), ("collect_iron", 3), ("make_iron_pickaxe", 0)]
    assert [item.purpose.split(",")[0] for item in proposal.levels[:2]] == [
        "rehearse wake_up (20.0%", "rehearse collect_iron (15.0%"
    ]  # fmt: skip
    assert "best 90.0%" in proposal.levels[0].purpose
    tolerant = ExpertDesigner(ExpertSettings(rehearsal_threshold=80)).design(brief, history)
    assert not any("rehearse" in item.purpose for item in tolerant.levels)


def test_a_fall_that_may_be_chance_is_not_rehearsed():
    earlier = dict.fromkeys(SKILL_NAMES, 90.0)
    now = earlier | {"wake_up": 65.0, "place_table": 65.0}
    history = [make_cycle(Proposal(), rates=earlier), make_cycle(Proposal(), rates=now, number=2)]
    few_episodes = SuccessRate(mean=65.0, std=20.0, standard_error=15.0)
    history[1] = history[1].model_copy(update={"success_rates": history[1].success_rates | {"wake_up": few_episodes}})
    purposes = [item.purpose for item in ExpertDesigner().design(brief_with(None, 4), history).levels]
    assert [purpose.split(",")[0] for purpose in purposes if "rehearse" in purpose] == ["rehearse place_table (65.0%"]


def test_a_fall_since_the_best_of_many_cycles_has_to_be_larger():
    rates = dict.fromkeys(SKILL_NAMES, 90.0)

    def purposes(num_earlier: int) -> str:
        history = [make_cycle(Proposal(), rates=rates, number=k + 1) for k in range(num_earlier + 1)]
        now = SuccessRate(mean=75.0, std=20.0, standard_error=6.0)
        history[-1] = history[-1].model_copy(update={"success_rates": {**history[-1].success_rates, "wake_up": now}})
        return str([item.purpose for item in ExpertDesigner().design(brief_with(None, 4), history).levels])

    assert "rehearse wake_up" in purposes(1)  # 2.5 standard errors
    assert "rehearse" not in purposes(19)


def test_skills_that_were_not_possible_in_the_last_cycle_keep_their_rate():
    earlier = dict.fromkeys(SKILL_NAMES, 90.0) | {"wake_up": 40.0}
    now = {name: rate for name, rate in earlier.items() if name != "wake_up"}
    history = [make_cycle(Proposal(), rates=earlier), make_cycle(Proposal(), rates=now, number=2)]
    purposes = [item.purpose for item in ExpertDesigner().design(brief_with(None, 4), history).levels]
    assert not any("rehearse" in purpose for purpose in purposes)
    assert any("teach wake_up (40.0%)" in purpose for purpose in purposes)


def test_at_most_half_of_the_levels_rehearse():
    earlier, now = dict.fromkeys(SKILL_NAMES, 90.0), dict.fromkeys(SKILL_NAMES, 40.0)
    history = [make_cycle(Proposal(), rates=earlier), make_cycle(Proposal(), rates=now, number=2)]
    for num_levels, expected in ((1, 1), (4, 2), (5, 2)):
        proposal = ExpertDesigner().design(brief_with(None, num_levels), history)
        assert sum("rehearse" in item.purpose for item in proposal.levels) == expected
        names = [name for name, _ in taught(proposal)]
        assert len(set(names)) == num_levels


# --- other worlds


def test_levels_that_cannot_be_measured_are_assumed_to_be_learnable():
    rates = dict.fromkeys(SKILL_NAMES, 100.0) | {"make_iron_sword": 1.0, "make_stone_sword": 50.0}
    assert taught(design(rates))[:2] == [("make_iron_sword", 0), ("make_stone_sword", 0)]


def test_skills_with_one_stage_get_a_plain_level():
    proposal = design(dict.fromkeys(SKILL_NAMES, 100.0) | {"wake_up": 0.0}, num_levels=1)
    assert proposal.levels[0].chain is None
    assert proposal.levels[0].level == Crafter.Level.parse(Crafter.skill_levels["wake_up"])


def test_the_original_is_used_when_all_skills_are_mastered():
    assert overrides(design(dict.fromkeys(SKILL_NAMES, 80.0))) == [{}] * 4


def test_a_world_without_skill_levels_is_trained_in_the_original():
    brief = dataclasses.replace(world_brief(), skill_levels={})
    assert overrides(ExpertDesigner().design(brief, ())) == [{}] * 4


def test_heist_has_chains_too():
    proposal = ExpertDesigner().design(world_brief(Heist, num_levels=7), ())
    assert {item.skills[0] for item in proposal.levels} == {skill.name for skill in Heist.skills}
    assert sum(item.chain is not None for item in proposal.levels) == 6
