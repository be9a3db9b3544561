"""Chains withdraw what a skill's level grants, one step at a time, until the original is left."""

from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError
from samples import make_cycle, world_brief

from envgen.designers.baselines import FixedDesigner, UserLevels
from envgen.designers.chains import derive_chain, parse_chain
from envgen.designers.designer import ChainOutcome, LevelChain, LevelOutcome, ProposedLevel
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.world import Level, LevelError, Skill

WORLDS = [Crafter(), Heist()]


def chain_of(world: Any, skill: str) -> tuple[Any, ...]:
    return derive_chain(skill, world.Level, world.skills, world.skill_levels)


def granted(levels: tuple[Level, ...]) -> list[set[str]]:
    return [set(level.granted_skills) for level in levels]


def test_the_iron_pickaxe_is_chained_back_to_the_original():
    chain = chain_of(Crafter(), "make_iron_pickaxe")
    withdrawn = [before - after for before, after in zip(granted(chain), granted(chain)[1:], strict=False)]
    assert withdrawn == [
        {"place_furnace"},
        {"place_table"},
        {"collect_coal"},
        {"collect_iron"},
        {"collect_stone"},  # the level of the furnace grants it
        {"collect_wood", "make_wood_pickaxe", "make_stone_pickaxe"},
        set(),
        set(),
        set(),
    ]
    assert chain[0] == Crafter.Level.parse(Crafter.skill_levels["make_iron_pickaxe"])
    assert chain[2].inventory.wood == 2 + 1  # a table costs wood, which the pickaxe needs as well
    assert chain[4].iron == "very common"  # as in the level for finding iron
    assert [level.iron for level in chain[6:]] == ["very common", "common", "original", "original"]
    assert [level.biome for level in chain[6:]] == ["mountain", "mountain", "mountain", "natural"]
    assert chain[-1] == Crafter.Level()


def test_what_a_level_grants_to_a_withdrawn_skill_is_withdrawn_next():
    chain = chain_of(Crafter(), "collect_diamond")
    assert "make_iron_pickaxe" in chain[0].granted_skills
    assert {"place_table", "place_furnace", "collect_coal", "collect_iron"} <= set(chain[1].granted_skills)
    assert len(chain) == 11


def test_choices_are_weakened_before_they_are_withdrawn():
    plants = ["ripe", "nearly ripe", "half grown", "sapling", "none", "none", "none", "none"]
    chain = chain_of(Crafter(), "eat_plant")
    assert [level.near.plant for level in chain] == plants
    assert [level.inventory.sapling for level in chain] == [2] * 5 + [0] * 3
    assert [level.zombies for level in chain] == ["rare"] * 6 + ["original"] * 2


def test_what_a_skill_does_not_need_is_withdrawn_at_once_before_the_original():
    swords = [{"make_wood_sword", "make_stone_sword"}, set(), set(), set(), set()]
    chain = chain_of(Crafter(), "defeat_skeleton")
    assert granted(chain) == swords
    assert [level.skeletons for level in chain[1:]] == ["very common", "common", "original", "original"]


@pytest.mark.parametrize("world", WORLDS, ids=["crafter", "heist"])
def test_every_chain_grants_less_and_less_and_never_the_skill_itself(world):
    for skill in world.skills:
        chain = chain_of(world, skill.name)
        assert chain[0] == world.Level.parse(world.skill_levels[skill.name])
        assert len(set(chain)) == len(chain)
        assert all(skill.name not in level.granted_skills for level in chain)
        if len(chain) > 1:
            assert chain[-1] == world.original
        else:
            assert not chain[0].granted_skills


def test_heist_begins_beyond_the_doors_and_ends_at_the_start():
    chain = chain_of(Heist(), "take_red_key")
    assert [level.start for level in chain] == ["red key", "original", "original", "original"]
    assert chain[2].to_overrides() == {"maze_size": 9, "keys": "three"}
    assert chain[1].held_keys.blue
    assert chain[1].held_keys.green
    assert not chain[1].held_keys.red
    assert [level.to_overrides() for level in chain_of(Heist(), "steal_gem")] == [
        {"keys": "none", "start": "gem"}, {"keys": "none"}, {},
    ]  # fmt: skip


# --- other worlds


class BridgeLevel(Level):
    planks: int = Field(default=0, ge=0, le=4)
    """Planks at hand."""
    river: Literal["none", "original"] = "original"
    """Whether there is a river."""

    @property
    def granted_skills(self) -> tuple[str, ...]:
        return ("saw",) * (self.planks > 0) + ("cross",) * (self.river == "none")


BRIDGE_SKILLS = (Skill("saw"), Skill("cross", ("saw",)), Skill("visit", ("cross",)))


def test_skills_without_prerequisites_stay_granted_until_the_original():
    levels = {"cross": {"planks": 3}, "visit": {"river": "none", "planks": 2}}
    chain = derive_chain("visit", BridgeLevel, BRIDGE_SKILLS, levels)
    assert [level.to_overrides() for level in chain] == [{"planks": 2, "river": "none"}, {"planks": 4}, {}]


class KitchenLevel(Level):
    tools: tuple[Literal["knife", "oven"], ...] = ()
    """Tools at hand."""

    @property
    def granted_skills(self) -> tuple[str, ...]:
        return ("make_knife",) * ("knife" in self.tools) + ("build_oven",) * ("oven" in self.tools)


def test_the_items_of_a_list_are_withdrawn_one_by_one():
    skills = (Skill("mine"), Skill("make_knife", ("mine",)), Skill("build_oven", ("make_knife",)),
              Skill("bake", ("build_oven", "make_knife")))  # fmt: skip
    chain = derive_chain("bake", KitchenLevel, skills, {"bake": {"tools": ["knife", "oven"]}})
    assert [level.tools for level in chain] == [("knife", "oven"), ("oven",), ()]


class ForestLevel(Level):
    axes: int = Field(default=0, ge=0, le=1)
    """Axes at hand."""
    trees: Literal["none", "few", "original", "many", "very many"] = "original"
    """How many trees there are."""
    wolves: Literal["none", "few", "original", "many"] = "original"
    """How many wolves there are."""
    weather: Literal["clear", "rain", "storm"] = "clear"
    """The weather."""

    @property
    def granted_skills(self) -> tuple[str, ...]:
        return ("make_axe",) * self.axes


def test_settings_between_other_choices_return_to_the_original_step_by_step():
    skills = (Skill("saw"), Skill("make_axe", ("saw",)), Skill("fell", ("make_axe",)))
    level = {"axes": 1, "trees": "very many", "wolves": "none", "weather": "storm"}
    chain = derive_chain("fell", ForestLevel, skills, {"fell": level})
    assert [stage.to_overrides() for stage in chain] == [
        level,
        {"trees": "very many", "wolves": "none", "weather": "storm"},
        {"trees": "many", "wolves": "few", "weather": "storm"},
        {"weather": "storm"},
        {},
    ]


def test_a_world_without_grants_has_chains_of_one_stage():
    class PlainLevel(Level):
        size: int = Field(default=8, ge=3, le=16)
        """Cells."""

    skills = (Skill("walk"), Skill("run", ("walk",)))
    assert derive_chain("run", PlainLevel, skills, {"run": {"size": 4}}) == (PlainLevel(size=4),)
    assert derive_chain("run", PlainLevel, skills, {}) == (PlainLevel(),)


# --- in proposals


def test_a_chain_is_written_with_its_levels_and_read_again():
    stages = chain_of(Crafter(), "place_furnace")
    chain = LevelChain(skill="place_furnace", levels=stages, start=1)
    proposed = ProposedLevel(level=stages[1], chain=chain)
    data = proposed.model_dump(mode="json")
    assert data["chain"]["levels"] == [level.to_overrides() for level in stages]
    assert ProposedLevel.from_json(data, Crafter.Level) == proposed
    assert "chain" not in ProposedLevel(level=stages[1]).model_dump(mode="json")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"start": 2}, "start is 2, but the chain has the stages 0 to 1"),
        ({"levels": (BridgeLevel(), BridgeLevel())}, "two stages of the chain for cross are the same level"),
        ({"levels": ()}, "at least 1 item"),
        ({"advance_at": 20, "fall_back_at": 20}, "fall_back_at 20 must be below advance_at 20"),
        ({"levels": ({"planks": 1},)}, "expected a Level"),
    ],
)
def test_invalid_chains_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        LevelChain(**{"skill": "cross", "levels": (BridgeLevel(planks=1), BridgeLevel()), **fields})


def test_the_level_of_a_chain_is_the_stage_that_it_starts_with():
    chain = LevelChain(skill="cross", levels=(BridgeLevel(planks=1), BridgeLevel()))
    with pytest.raises(ValidationError, match="the level is not stage 0 of its chain for cross"):
        ProposedLevel(level=BridgeLevel(), chain=chain)


# --- written by users


def test_a_chain_is_derived_or_written_in_full():
    world = Crafter()
    chain = parse_chain({"skill": "place_furnace", "advance_at": 70}, world)
    assert chain == LevelChain(skill="place_furnace", levels=chain_of(world, "place_furnace"), advance_at=70)
    own = parse_chain({"skill": "eat_cow", "levels": [{"cows": "common"}, {}], "start": 1}, world)
    assert [level.to_overrides() for level in own.levels] == [{"cows": "common"}, {}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"skill": "eat_cows"}, "the skill of a chain 'eat_cows' is not one of .*did you mean 'eat_cow'"),
        ({"skill": "eat_cow", "levels": 3}, "the levels of a chain are a list, not 3"),
        ({"skill": "eat_cow", "levels": [{"cow": 3}]}, "setting 'cow' is not one of .*did you mean 'cows'"),
        ({"skill": "eat_cow", "start": 9}, "start is 9, but the chain has the stages 0 to 0"),
        ({"skill": "eat_cow", "stage": 1}, "stage"),
        ({"skill": "eat_cow", "advance_at": 101}, "advance_at: .*less than or equal to 100"),
    ],
)
def test_wrong_chains_are_explained(data, message):
    with pytest.raises(LevelError, match=message):
        parse_chain(data, Crafter())


def test_chains_of_the_user_continue_where_training_has_come():
    chain = parse_chain({"skill": "place_furnace"}, Crafter())
    designer = FixedDesigner(UserLevels([chain, {"trees": "rare"}]))
    rebuilt = FixedDesigner(UserLevels(designer.config()["source"]["levels"]))
    first = designer.design(world_brief(num_levels=2), ())
    assert rebuilt.design(world_brief(num_levels=2), ()) == first
    assert [item.chain for item in first.levels] == [chain, None]
    outcome = LevelOutcome(
        episodes=9, reward=0, skills={}, first_third={}, last_third={},
        chain=ChainOutcome(stage=1, episodes=(4, 5, 0), successes=(4, 1, 0)),
    )  # fmt: skip
    second = designer.design(world_brief(num_levels=2, cycle=2), [make_cycle(first, [outcome, None])])
    assert second.levels[0].level == chain.levels[1]
    assert second.levels[0].chain == chain.model_copy(update={"start": 1})
    assert second.levels[1] == first.levels[1]


def test_two_chains_for_a_skill_continue_at_stages_of_their_own():
    near = parse_chain({"skill": "eat_cow", "levels": [{"near": {"cows": 4}}, {"near": {"cows": 2}}, {}]}, Crafter())
    many = parse_chain({"skill": "eat_cow", "levels": [{"cows": "very common"}, {}]}, Crafter())
    designer = FixedDesigner(UserLevels([near, many]))
    first = designer.design(world_brief(num_levels=2), ())
    outcomes = [
        LevelOutcome(
            episodes=9, reward=0, skills={}, first_third={}, last_third={},
            chain=ChainOutcome(stage=stage, episodes=episodes, successes=episodes),
        )
        for stage, episodes in ((2, (4, 4, 1)), (1, (6, 3)))
    ]  # fmt: skip
    second = designer.design(world_brief(num_levels=2, cycle=2), [make_cycle(first, outcomes)])
    assert [item.chain.start for item in second.levels if item.chain] == [2, 1]
    assert [item.chain.levels for item in second.levels if item.chain] == [near.levels, many.levels]
    third = designer.design(world_brief(num_levels=2, cycle=2), [make_cycle(first, [outcomes[0], None])])
    assert [item.chain.start for item in third.levels if item.chain] == [2, 0]


def test_two_chains_with_other_thresholds_continue_at_stages_of_their_own():
    fast, slow = (parse_chain({"skill": "place_furnace", "advance_at": rate}, Crafter()) for rate in (30, 90))
    assert fast.levels == slow.levels
    designer = FixedDesigner(UserLevels([fast, slow]))
    first = designer.design(world_brief(num_levels=2), ())
    outcomes = [
        LevelOutcome(
            episodes=9, reward=0, skills={}, first_third={}, last_third={},
            chain=ChainOutcome(stage=stage, episodes=(9, 0, 0), successes=(9, 0, 0)),
        )
        for stage in (2, 0)
    ]  # fmt: skip
    second = designer.design(world_brief(num_levels=2, cycle=2), [make_cycle(first, outcomes)])
    assert [item.chain.start for item in second.levels if item.chain] == [2, 0]


def test_levels_of_skills_are_written_as_settings_are():
    skills = (Skill("saw"), Skill("make_axe", ("saw",)), Skill("fell", ("make_axe",)))
    exact = {"axes": 1, "trees": "very many"}
    chain = derive_chain("fell", ForestLevel, skills, {"fell": exact})
    assert len(chain) == 4
    assert derive_chain("fell", ForestLevel, skills, {"fell": {"axes": "1", "trees": "Very_Many"}}) == chain
