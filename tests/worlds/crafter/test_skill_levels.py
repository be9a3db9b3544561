"""Every skill has a lesson that teaches it, and what a level is said to make impossible never happens in it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from envgen.designers.baselines import RandomDesigner, RandomSettings
from envgen.designers.designer import Brief
from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.world import Crafter

WORLD = Crafter()
NAMES = [skill.name for skill in WORLD.skills]
IRON_TOOLS = {"make_iron_pickaxe", "make_iron_sword"}
STONE_TOOLS = {"make_stone_pickaxe", "make_stone_sword"}
WOOD_TOOLS = {"make_wood_pickaxe", "make_wood_sword"}
DIGGING = {"collect_coal", "collect_iron", "collect_diamond", "collect_stone", "place_stone", "place_furnace"}
WOODWORK = {"collect_wood", "place_table"} | WOOD_TOOLS
STONEWORK = DIGGING | STONE_TOOLS | IRON_TOOLS


def impossible(level: Mapping[str, Any], seeds: Sequence[int] = range(16)) -> set[str]:
    return set(NAMES) - WORLD.reachable_skills(level, WORLD.level_stats(level, seeds))


# --- lessons


def test_every_skill_has_a_lesson_and_each_is_a_level():
    assert set(WORLD.skill_levels) == set(NAMES)
    lessons = [CrafterLevel.parse(level) for level in WORLD.skill_levels.values()]
    assert WORLD.original not in lessons


@pytest.mark.parametrize("skill", NAMES)
def test_a_lesson_leaves_its_skill_within_reach_and_undone(skill):
    level = WORLD.skill_levels[skill]
    assert skill not in impossible(level)
    _, infos = WORLD.make([level], num_envs=4, seed=0, observation="symbols").reset()
    assert not infos["achievements"].any()


@pytest.mark.parametrize("skill", NAMES)
def test_the_scripted_player_succeeds_in_the_lesson_of_every_skill(skill):
    envs, k = WORLD.make([WORLD.skill_levels[skill]], num_envs=16, seed=5, observation="symbols"), NAMES.index(skill)
    _, infos = envs.reset()
    succeeded = np.zeros(16, np.bool_)
    for _ in range(1500):
        *_, terminated, truncated, infos = envs.step(WORLD.expert_actions(envs))
        succeeded |= infos["achievements"][:, k] > 0
        if (ended := terminated | truncated).any():
            succeeded[ended] |= infos["final_info"]["achievements"][ended, k] > 0
        if succeeded.all():
            break
    envs.close()
    assert succeeded.sum() >= 14


# --- what is within reach


def test_the_original_makes_nothing_impossible():
    assert impossible({}) == set()


@pytest.mark.parametrize(
    ("level", "lost"),
    [
        ({"trees": "none"}, WOODWORK | STONEWORK),
        ({"iron": "none"}, {"collect_iron", "collect_diamond"} | IRON_TOOLS),
        ({"coal": "none"}, {"collect_coal", "collect_diamond"} | IRON_TOOLS),
        ({"diamonds": "none"}, {"collect_diamond"}),
        ({"water": "none"}, {"collect_drink"}),
        ({"cows": "none"}, {"eat_cow"}),
        ({"zombies": "none"}, {"defeat_zombie"}),
        ({"skeletons": "none"}, {"defeat_skeleton"}),
        ({"biome": "grassland"}, STONEWORK | {"defeat_skeleton"}),
    ],
)  # fmt: skip
def test_what_is_missing_is_missed_with_all_that_needs_it(level, lost):
    assert impossible(level) == lost


@pytest.mark.parametrize(
    ("level", "lost"),
    [
        ({"trees": "none", "inventory": {"wood": 9}}, {"collect_wood"}),
        ({"trees": "none", "inventory": {"wood": 1}}, WOODWORK | STONEWORK),  # a table takes two
        ({"trees": "none", "inventory": {"wood": 1}, "near": {"table": True}}, {"collect_wood", "place_table"}),
        ({"trees": "none", "inventory": {"iron_pickaxe": 1}},
         WOODWORK | STONEWORK - {"collect_diamond"}),  # each material takes its own pickaxe
        ({"iron": "none", "inventory": {"iron": 1}}, {"collect_iron"}),
        ({"iron": "none", "inventory": {"iron_pickaxe": 1}}, {"collect_iron"} | IRON_TOOLS),
        ({"water": "none", "near": {"water": True}}, set()),
        ({"cows": "none", "near": {"cows": 1}}, set()),
        ({"biome": "grassland", "inventory": {"iron_pickaxe": 1}}, STONEWORK | {"defeat_skeleton"}),
        ({"biome": "grassland", "near": {"cave": True}},
         {"collect_coal", "collect_iron", "collect_diamond"} | IRON_TOOLS),
        ({"biome": "grassland", "inventory": {"stone": 4}},
         STONEWORK - {"place_stone", "place_furnace", "collect_stone"} - STONE_TOOLS),
        ({"biome": "grassland", "inventory": {"stone": 1}},
         STONEWORK - {"place_stone", "collect_stone"} - STONE_TOOLS),  # put down and mined again it is still one
        ({"biome": "grassland", "trees": "none", "inventory": {"stone": 1}},
         WOODWORK | STONEWORK - {"place_stone"} | {"defeat_skeleton"}),
    ],
)  # fmt: skip
def test_what_is_granted_or_near_makes_up_for_what_is_missing(level, lost):
    assert impossible(level) == lost


def test_creatures_that_neither_live_there_nor_appear_cannot_be_met():
    assert impossible({"respawn": "none"}) == set()  # those of the first morning are there
    no_tunnels = {"tunnels": "none", "skeletons": "original"}
    assert impossible(no_tunnels) == set()  # they appear in caves
    assert impossible({**no_tunnels, "respawn": "none"}) == {"defeat_skeleton"}
    assert impossible({**no_tunnels, "respawn": "none", "near": {"cave": True}}) == set()
    assert impossible({"cows": "none", "respawn": "very common"}) == {"eat_cow"}


def test_skeletons_come_to_where_somebody_mined():
    """In grassland, with one stone that is put down and mined again: a corridor, and somebody who waits outside it."""
    level = {"biome": "grassland", "trees": "none", "cows": "none", "zombies": "none",
             "inventory": {"stone": 1, "wood_pickaxe": 1}}  # fmt: skip
    assert not {"collect_stone", "defeat_skeleton"} & impossible(level)
    envs = WORLD.make([level], num_envs=16, seed=0, observation="symbols")
    _, infos = envs.reset()
    dig = [const.FIRST_MOVE + const.RIGHT, const.PLACE_STONE, const.DO]
    for action in [*dig * 12, *[const.FIRST_MOVE + const.DOWN] * 8, *[const.NOOP] * 300]:
        *_, infos = envs.step(np.full(16, action))
        envs.engine.state.envs["inventory"][:, : len(const.VITALS)] = const.MAX_ITEM_COUNT  # nobody dies
    assert (infos["achievements"][:, const.COLLECT_STONE] > 0).all()
    assert (envs.engine.state.entities["kind"] == const.SKELETON).any(1).sum() >= 8


@pytest.mark.parametrize("keep", [0.2, 0.6])
def test_no_player_does_what_was_said_to_be_impossible(keep):
    """Levels at random, each world counted and then played: at random, by the scripted player, and half and half."""
    count = 60
    brief = Brief(WORLD.name, "", WORLD.skills, CrafterLevel, {}, num_levels=2 * count, cycle=1, num_cycles=1, seed=3)
    drawn = RandomDesigner(RandomSettings(keep_prob=keep)).design(brief, ()).levels
    levels = [{**one.level, "inventory": {}} if i < count else one.level for i, one in enumerate(drawn)]
    within = np.ones((len(levels), len(NAMES)), np.bool_)
    for i, level in enumerate(levels):
        within[i, [NAMES.index(name) for name in impossible(level, [100 + i])]] = False
    assert 0.5 < within.mean() < 0.95  # there is something to be wrong about
    done = np.zeros(within.shape, np.bool_)
    for share in (0.0, 0.5, 1.0):  # of scripted actions
        envs, chance = WORLD.make(levels, seed=100, observation="symbols"), np.random.default_rng(0)
        envs.reset()
        first = np.ones(len(levels), np.bool_)  # the episodes in the worlds that were counted
        for _ in range(400):
            actions = chance.integers(len(const.ACTIONS), size=len(levels))
            if share:
                actions = np.where(chance.random(len(levels)) < share, WORLD.expert_actions(envs), actions)
            *_, terminated, truncated, infos = envs.step(actions)
            counts = infos["achievements"].copy()
            if (ended := terminated | truncated).any():
                counts[ended] = infos["final_info"]["achievements"][ended]
            done |= (counts > 0) & first[:, None]
            first &= ~ended
        envs.close()
    wrong = [(NAMES[k], levels[i]) for i, k in np.argwhere(done & ~within)]
    assert wrong == []
    assert done.any(0).sum() >= 18
