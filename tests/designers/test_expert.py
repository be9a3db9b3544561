"""The expert: skills that fail although their prerequisites succeed, the highest priority first."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from samples import SKILL_NAMES, make_cycle, overrides, world_brief

from envgen.designers.designer import Proposal
from envgen.designers.expert import ExpertDesigner, ExpertSettings
from envgen.worlds.crafter.world import Crafter

PREREQUISITES = {skill.name: skill.prerequisites for skill in Crafter.skills}
RATES = st.sampled_from([0.0, 3.0, 20.0, 49.9, 50.0, 79.9, 80.0, 100.0])


def num_descendants(name: str) -> int:
    def ancestors(skill: str) -> set[str]:
        return set(PREREQUISITES[skill]).union(*(ancestors(prerequisite) for prerequisite in PREREQUISITES[skill]))

    return sum(name in ancestors(skill) for skill in SKILL_NAMES)


def priority(name: str, rates: dict[str, float]) -> float:
    return (1 + num_descendants(name)) * (100 - rates[name])


def taught_skills(rates: dict[str, float], num_levels: int = 4, **settings) -> list[str]:
    """The skill of each level after a cycle with these rates; "" for the original."""
    history = [make_cycle(Proposal(), rates=rates)]
    designer = ExpertDesigner(ExpertSettings(**settings))
    proposal = designer.design(world_brief(num_levels=num_levels, cycle=2), history)
    for item in proposal.levels:
        assert item.level == Crafter.Level.parse(Crafter.skill_levels[item.skills[0]] if item.skills else {})
    return [item.skills[0] if item.skills else "" for item in proposal.levels]


@given(st.fixed_dictionaries({name: RATES for name in SKILL_NAMES}), st.integers(1, 8))
def test_expert_teaches_failing_skills_whose_prerequisites_succeed(rates, num_levels):
    taught = taught_skills(rates, num_levels)
    frontier = [
        name for name in SKILL_NAMES if rates[name] < 80 and all(rates[other] >= 50 for other in PREREQUISITES[name])
    ]
    skills = [name for name in taught if name]
    assert len(set(skills)) == len(skills)
    assert all(rates[name] < 80 for name in skills)  # none that is mastered
    frontier.sort(key=lambda name: (-priority(name, rates), name))
    assert skills[: len(frontier)] == frontier[:num_levels]  # before any other skill
    num_failing = sum(rate < 80 for rate in rates.values())
    assert taught.count("") == max(0, num_levels - num_failing)  # the original only if nothing else is left


def test_first_levels_teach_skills_without_prerequisites_and_with_most_descendants():
    taught = [item.skills[0] for item in ExpertDesigner().design(world_brief(), ()).levels]
    assert taught == ["collect_wood", "collect_sapling", "collect_drink", "defeat_skeleton"]


def test_the_threshold_is_relaxed_until_there_are_enough_skills():
    rates = {name: 100.0 for name in SKILL_NAMES} | {
        "make_stone_pickaxe": 30.0, "collect_iron": 10.0, "make_iron_pickaxe": 0.0, "collect_diamond": 0.0,
    }  # fmt: skip
    assert taught_skills(rates, 4) == ["make_stone_pickaxe", "collect_iron", "make_iron_pickaxe", "collect_diamond"]
    assert taught_skills(rates, 2, prerequisite_threshold=30) == ["collect_iron", "make_stone_pickaxe"]


def test_the_original_is_used_when_all_skills_are_mastered():
    assert taught_skills({name: 80.0 for name in SKILL_NAMES}) == [""] * 4
    assert taught_skills({name: 80.0 for name in SKILL_NAMES}, 2, mastery_threshold=90)[0] != ""


def test_purposes_state_the_success_rates():
    rates = {name: 90.0 for name in SKILL_NAMES} | {"collect_iron": 12.34, "make_stone_pickaxe": 66.6}
    proposal = ExpertDesigner().design(world_brief(num_levels=3), [make_cycle(Proposal(), rates=rates)])
    assert [item.purpose for item in proposal.levels] == [
        "teach collect_iron (12.3%), which needs make_stone_pickaxe 66.6%",
        "teach make_stone_pickaxe (66.6%), which needs place_table 90.0%, collect_wood 90.0%, collect_stone 90.0%",
        "the original: no other skill needs a level",
    ]


def test_a_world_without_skill_levels_is_trained_in_the_original():
    brief = dataclasses.replace(world_brief(), skill_levels={})
    assert overrides(ExpertDesigner().design(brief, ())) == [{}] * 4
