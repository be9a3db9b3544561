"""Symbols say what the picture shows, index by index, and text says the same in words."""

import numpy as np
import pytest

from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter import observations
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.observations import MAX_TEXT_LENGTH, TEXT_CHARSET
from envgen.worlds.crafter.original import make_original


def played(steps: int, seed: int = 2):
    """An environment and the original after the same expert play, with every observation on the way."""
    env, theirs = CrafterEnv(observation="symbols"), make_original(seed)
    seen = [env.reset(seed=seed)[0]]
    theirs.reset()
    for _ in range(steps):
        action = int(expert_actions(env.engine)[0])
        seen.append(env.step(action)[0])
        if theirs.step(action)[2]:
            break
        yield env, theirs, seen[-1]


def test_every_cell_and_count_agrees_with_the_original():
    kinds = {"Cow": "cow", "Zombie": "zombie", "Skeleton": "skeleton"}
    arrows = {(-1, 0): "arrow left", (1, 0): "arrow right", (0, -1): "arrow up", (0, 1): "arrow down"}
    for env, theirs, seen in played(250):
        assert env.observation_space.contains(seen)
        said, player, world = observations.decode_symbols(seen), theirs._player, theirs._world
        for row in range(7):
            for column in range(9):
                material, entity = world[player.pos + np.array([column - 4, row - 3])]
                assert said["materials"][row][column] == (material or "outside")
                if entity is None or entity is player:
                    expected = "none"
                elif type(entity).__name__ == "Arrow":
                    expected = arrows[tuple(entity.facing)]
                elif type(entity).__name__ == "Plant":
                    expected = "ripe plant" if entity.ripe else "sapling"
                else:
                    expected = kinds[type(entity).__name__]
                assert said["entities"][row][column] == expected
        assert said["inventory"] == player.inventory
        assert said["sleeping"] == player.sleeping
        facing = None if player.sleeping else const.DIRECTION_OFFSETS[const.DIRECTIONS.index(said["facing"])]
        assert facing == (None if player.sleeping else tuple(player.facing))
        assert said["daylight"] == pytest.approx(world.daylight, abs=1 / 255)


def test_what_the_picture_hides_the_symbols_hide():
    env = CrafterEnv({"vitals": {"energy": 3}}, observation="symbols")
    env.reset(seed=0)
    seen, *_ = env.step(const.SLEEP)
    assert seen[observations.ASLEEP_INDEX] == 1
    assert seen[observations.FACING_INDEX] == 0
    assert observations.decode_symbols(seen)["facing"] is None


def test_a_ripe_plant_is_told_from_a_sapling():
    for plant, name in (("sapling", "sapling"), ("ripe", "ripe plant")):
        env = CrafterEnv({"near": {"plant": plant}}, observation="symbols")
        seen, _ = env.reset(seed=0)
        assert any(name in row for row in observations.decode_symbols(seen)["entities"])


def test_decoding_something_else_is_refused():
    with pytest.raises(ValueError, match=r"shape \(145,\), not \(3,\)"):
        observations.decode_symbols(np.zeros(3, np.uint8))


def test_text_is_exact_and_short():
    env = CrafterEnv({"near": {"table": True}, "inventory": {"wood": 2, "wood_sword": 1}}, observation="text")
    said, _ = env.reset(seed=3)
    assert env.observation_space.contains(said)
    assert "health 9, food 9, drink 9, energy 9 of 9." in said
    assert "You have 2 wood, 1 wood sword." in said
    assert "You stand on grass and face down: " in said
    assert "table" in said


def test_no_world_makes_a_text_too_long():
    seen = np.zeros(observations.NUM_SYMBOLS, np.uint8)
    seen[: observations.NUM_CELLS] = np.arange(observations.NUM_CELLS) % len(const.MATERIALS)
    seen[observations.ENTITY_OFFSET : observations.ITEM_OFFSET] = np.arange(observations.NUM_CELLS) % len(
        observations.ENTITY_SYMBOLS
    )
    seen[observations.ITEM_OFFSET : observations.FACING_INDEX] = 9
    seen[observations.FACING_INDEX] = 1
    said = observations.describe_symbols(seen)
    assert len(said) < MAX_TEXT_LENGTH
    assert set(said) <= TEXT_CHARSET
