"""Every skill has a level that teaches it, and skills that a level makes impossible never happen in it."""

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
MINING_SKILLS = {"collect_coal", "collect_iron", "collect_diamond", "collect_stone", "place_stone", "place_furnace"}
WOOD_SKILLS = {"collect_wood", "place_table"} | WOOD_TOOLS
STONE_SKILLS = MINING_SKILLS | STONE_TOOLS | IRON_TOOLS


def impossible_skills(level: Mapping[str, Any], seeds: Sequence[int] = range(16)) -> set[str]:
    return set(NAMES) - WORLD.reachable_skills(level, WORLD.level_stats(level, seeds))


# --- skill levels


def test_every_skill_has_a_valid_level():
    assert set(WORLD.skill_levels) == set(NAMES)
    levels = [CrafterLevel.parse(level) for level in WORLD.skill_levels.values()]
    assert WORLD.original not in levels


@pytest.mark.parametrize("skill", NAMES)
def test_skill_level_makes_its_skill_possible_but_not_done(skill):
    level = WORLD.skill_levels[skill]
    assert skill not in impossible_skills(level)
    _, infos = WORLD.make([level], num_envs=4, seed=0, observation="symbols").reset()
    assert not infos["achievements"].any()


@pytest.mark.parametrize("skill", NAMES)
def test_expert_succeeds_in_every_skill_level(skill):
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


# --- reachable skills


def test_original_makes_every_skill_possible():
    assert impossible_skills({}) == set()


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ({"trees": "none"}, WOOD_SKILLS | STONE_SKILLS),
        ({"iron": "none"}, {"collect_iron", "collect_diamond"} | IRON_TOOLS),
        ({"coal": "none"}, {"collect_coal", "collect_diamond"} | IRON_TOOLS),
        ({"diamonds": "none"}, {"collect_diamond"}),
        ({"water": "none"}, {"collect_drink"}),
        ({"cows": "none"}, {"eat_cow"}),
        ({"zombies": "none"}, {"defeat_zombie"}),
        ({"skeletons": "none"}, {"defeat_skeleton"}),
        ({"growth": 0}, {"eat_plant"}),
        ({"biome": "grassland"}, STONE_SKILLS | {"defeat_skeleton"}),
    ],
)  # fmt: skip
def test_missing_resources_make_dependent_skills_impossible(level, expected):
    assert impossible_skills(level) == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ({"trees": "none", "inventory": {"wood": 9}}, {"collect_wood"}),
        ({"trees": "none", "inventory": {"wood": 1}}, WOOD_SKILLS | STONE_SKILLS),  # a table costs two
        ({"trees": "none", "inventory": {"wood": 1}, "near": {"table": True}}, {"collect_wood", "place_table"}),
        ({"trees": "none", "inventory": {"iron_pickaxe": 1}},
         WOOD_SKILLS | STONE_SKILLS - {"collect_diamond"}),  # each material needs its own pickaxe
        ({"iron": "none", "inventory": {"iron": 1}}, {"collect_iron"}),
        ({"iron": "none", "inventory": {"iron_pickaxe": 1}}, {"collect_iron"} | IRON_TOOLS),
        ({"water": "none", "near": {"water": True}}, set()),
        ({"cows": "none", "near": {"cows": 1}}, set()),
        ({"growth": 0, "near": {"plant": "nearly ripe"}}, {"eat_plant"}),
        ({"growth": 0, "near": {"plant": "ripe"}}, set()),
        ({"biome": "grassland", "inventory": {"iron_pickaxe": 1}}, STONE_SKILLS | {"defeat_skeleton"}),
        ({"biome": "grassland", "near": {"cave": True}},
         {"collect_coal", "collect_iron", "collect_diamond"} | IRON_TOOLS),
        ({"biome": "grassland", "inventory": {"stone": 4}},
         STONE_SKILLS - {"place_stone", "place_furnace", "collect_stone"} - STONE_TOOLS),
        ({"biome": "grassland", "inventory": {"stone": 1}},
         STONE_SKILLS - {"place_stone", "collect_stone"} - STONE_TOOLS),  # placed and mined again, it is still one
        ({"biome": "grassland", "trees": "none", "inventory": {"stone": 1}},
         WOOD_SKILLS | STONE_SKILLS - {"place_stone"} | {"defeat_skeleton"}),
    ],
)  # fmt: skip
def test_inventory_and_near_replace_missing_resources(level, expected):
    assert impossible_skills(level) == expected


def test_creatures_that_neither_exist_nor_spawn_cannot_be_defeated():
    assert impossible_skills({"respawn": "none"}) == set()  # the first creatures exist
    no_tunnels = {"tunnels": "none", "skeletons": "original"}
    assert impossible_skills(no_tunnels) == set()  # skeletons spawn in caves
    assert impossible_skills({**no_tunnels, "respawn": "none"}) == {"defeat_skeleton"}
    assert impossible_skills({**no_tunnels, "respawn": "none", "near": {"cave": True}}) == set()
    assert impossible_skills({"cows": "none", "respawn": "very common"}) == {"eat_cow"}


def test_skeletons_spawn_on_mined_path():
    """In grassland, one stone is placed and mined repeatedly, which leaves a corridor of path; then players wait."""
    level = {"biome": "grassland", "trees": "none", "cows": "none", "zombies": "none",
             "inventory": {"stone": 1, "wood_pickaxe": 1}}  # fmt: skip
    assert not {"collect_stone", "defeat_skeleton"} & impossible_skills(level)
    envs = WORLD.make([level], num_envs=16, seed=0, observation="symbols")
    _, infos = envs.reset()
    dig = [const.FIRST_MOVE + const.RIGHT, const.PLACE_STONE, const.DO]
    for action in [*dig * 12, *[const.FIRST_MOVE + const.DOWN] * 8, *[const.NOOP] * 300]:
        *_, infos = envs.step(np.full(16, action))
        envs.engine.state.envs["inventory"][:, : len(const.VITALS)] = const.MAX_ITEM_COUNT  # players do not die
    assert (infos["achievements"][:, const.COLLECT_STONE] > 0).all()
    assert (envs.engine.state.entities["kind"] == const.SKELETON).any(1).sum() >= 8


@pytest.mark.parametrize("keep", [0.2, 0.6])
def test_impossible_skills_never_succeed(keep):
    """Measures the maps of random levels, then plays on them with random actions, the expert, and a mix of both."""
    count = 60
    brief = Brief(WORLD.name, "", WORLD.skills, CrafterLevel, {}, num_levels=2 * count, cycle=1, num_cycles=1, seed=3)
    sampled = RandomDesigner(RandomSettings(keep_prob=keep)).design(brief, ()).levels
    levels = [proposed.level.to_overrides() for proposed in sampled]
    levels[:count] = [{**level, "inventory": {}} for level in levels[:count]]
    possible = np.ones((len(levels), len(NAMES)), np.bool_)
    for i, level in enumerate(levels):
        possible[i, [NAMES.index(name) for name in impossible_skills(level, [100 + i])]] = False
    assert 0.5 < possible.mean() < 0.95  # the test covers both cases
    succeeded = np.zeros(possible.shape, np.bool_)
    for expert_share in (0.0, 0.5, 1.0):
        envs, rng = WORLD.make(levels, seed=100, observation="symbols"), np.random.default_rng(0)
        envs.reset()
        is_first_episode = np.ones(len(levels), np.bool_)  # on the maps that were measured
        for _ in range(400):
            actions = rng.integers(len(const.ACTIONS), size=len(levels))
            if expert_share:
                actions = np.where(rng.random(len(levels)) < expert_share, WORLD.expert_actions(envs), actions)
            *_, terminated, truncated, infos = envs.step(actions)
            counts = infos["achievements"].copy()
            if (ended := terminated | truncated).any():
                counts[ended] = infos["final_info"]["achievements"][ended]
            succeeded |= (counts > 0) & is_first_episode[:, None]
            is_first_episode &= ~ended
        envs.close()
    violations = [(NAMES[k], levels[i]) for i, k in np.argwhere(succeeded & ~possible)]
    assert violations == []
    assert succeeded.any(0).sum() >= 18
