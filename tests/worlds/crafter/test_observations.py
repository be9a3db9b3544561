"""Symbols and text describe exactly what the image shows."""

import numpy as np
import pytest

from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter import observations
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.reference import make_reference_env
from envgen.worlds.observations import MAX_TEXT_LENGTH, TEXT_CHARSET


def play_expert(steps: int, seed: int = 2):
    """Yields the environment, the reference environment and the observation after each of the expert's actions."""
    env, reference = CrafterEnv(observation="symbols"), make_reference_env(seed)
    env.reset(seed=seed)
    reference.reset()
    for _ in range(steps):
        action = int(expert_actions(env.engine)[0])
        obs = env.step(action)[0]
        if reference.step(action)[2]:
            break
        yield env, reference, obs


def test_symbols_match_the_reference():
    kinds = {"Cow": "cow", "Zombie": "zombie", "Skeleton": "skeleton"}
    arrows = {(-1, 0): "arrow left", (1, 0): "arrow right", (0, -1): "arrow up", (0, 1): "arrow down"}
    for env, reference, obs in play_expert(250):
        assert env.observation_space.contains(obs)
        decoded, player, world = observations.decode_symbols(obs), reference._player, reference._world
        for row in range(7):
            for column in range(9):
                material, entity = world[player.pos + np.array([column - 4, row - 3])]
                assert decoded["materials"][row][column] == (material or "outside")
                if entity is None or entity is player:
                    expected = "none"
                elif type(entity).__name__ == "Arrow":
                    expected = arrows[tuple(entity.facing)]
                elif type(entity).__name__ == "Plant":
                    expected = "ripe plant" if entity.ripe else "sapling"
                else:
                    expected = kinds[type(entity).__name__]
                assert decoded["entities"][row][column] == expected
        assert decoded["inventory"] == player.inventory
        assert decoded["sleeping"] == player.sleeping
        facing = None if player.sleeping else const.DIRECTION_OFFSETS[const.DIRECTIONS.index(decoded["facing"])]
        assert facing == (None if player.sleeping else tuple(player.facing))
        assert decoded["daylight"] == pytest.approx(world.daylight, abs=1 / 255)


def test_symbols_hide_the_direction_during_sleep():
    env = CrafterEnv({"vitals": {"energy": 3}}, observation="symbols")
    env.reset(seed=0)
    obs, *_ = env.step(const.SLEEP)
    assert obs[observations.ASLEEP_INDEX] == 1
    assert obs[observations.FACING_INDEX] == 0
    assert observations.decode_symbols(obs)["facing"] is None


def test_ripe_plants_differ_from_saplings():
    for plant, name in (("sapling", "sapling"), ("ripe", "ripe plant")):
        env = CrafterEnv({"near": {"plant": plant}}, observation="symbols")
        obs, _ = env.reset(seed=0)
        assert any(name in row for row in observations.decode_symbols(obs)["entities"])


def test_decode_rejects_other_shapes():
    with pytest.raises(ValueError, match=r"shape \(145,\), not \(3,\)"):
        observations.decode_symbols(np.zeros(3, np.uint8))


def test_text_describes_vitals_inventory_and_view():
    env = CrafterEnv({"near": {"table": True}, "inventory": {"wood": 2, "wood_sword": 1}}, observation="text")
    text, _ = env.reset(seed=3)
    assert env.observation_space.contains(text)
    assert "health 9, food 9, drink 9, energy 9 of 9." in text
    assert "You have 2 wood, 1 wood sword." in text
    assert "You stand on grass and face down: " in text
    assert "table" in text
    assert "Next to you: left " in text
    rows = text.split("\n")[-7:]
    ascii_rows = observations.ascii_map(env.engine.obs_bytes[0]).split("\n")[:7]
    assert all(ascii_row.startswith(row.rstrip()) for row, ascii_row in zip(rows, ascii_rows, strict=True))
    assert "v you, " in text.split("The map (")[1]


def test_the_result_of_an_action_is_what_happened():
    """Compare with the exact state in an episode in which all kinds of actions occur, half of them at random."""
    env = CrafterEnv({"near": {"table": True, "water": True}, "inventory": {"wood": 5, "sapling": 1, "stone": 5},
                      "vitals": {"energy": 4}}, observation="text")  # fmt: skip
    before, info = env.reset(seed=4)
    rng = np.random.default_rng(0)
    kinds = {"moved": 0, "blocked": 0, "ahead": 0, "asleep": 0, "nothing": 0}
    for step in range(300):
        action = int(rng.integers(len(const.ACTIONS)) if step % 2 else expert_actions(env.engine)[0])
        old, was_asleep = info, bool(env.engine.envs["sleeping"][0])
        after, _, terminated, _, info = env.step(action)
        result = observations.describe_result(const.ACTIONS[action], before, after)
        if terminated:
            break
        assert ("you moved" in result) == (old["player_pos"] != info["player_pos"]).any()
        for item in const.ITEMS:
            change = f"{item.replace('_', ' ')} {old['inventory'][item]} -> {info['inventory'][item]}"
            assert (change in result) == (old["inventory"][item] != info["inventory"][item]), (item, result)
        assert ("you fell asleep" in result) == (not was_asleep and bool(env.engine.envs["sleeping"][0]))
        kinds["moved"] += "you moved" in result
        kinds["blocked"] += "did not move, because of" in result
        kinds["ahead"] += "ahead: " in result
        kinds["asleep"] += "asleep" in result
        kinds["nothing"] += result == "no visible effect"
        before = after
    assert min(kinds.values()) > 0, kinds


def test_the_player_moves_into_lava_and_dies():
    env = CrafterEnv({"cows": "none", "zombies": "none"}, observation="text")
    env.reset(seed=0)
    env.engine.envs["ground"][0, const.CENTER - 1, const.CENTER] = const.LAVA
    before, *_ = env.step(const.ACTIONS.index("noop"))
    after, _, terminated, *_ = env.step(const.ACTIONS.index("move_left"))
    assert terminated
    result = observations.describe_result("move_left", before, after)
    assert result == "you moved left into lava and died; health 9 -> 0"


def test_the_edge_of_the_map_is_named():
    symbols = np.zeros(observations.NUM_SYMBOLS, np.uint8)
    symbols[observations.PLAYER_CELL] = const.GRASS
    symbols[observations.FACING_INDEX] = 1
    text = observations.describe_symbols(symbols)
    assert observations.describe_result("move_left", text, text) == (
        "you face left but did not move, because of the edge of the map"
    )


def test_longest_text_fits_the_space():
    symbols = np.zeros(observations.NUM_SYMBOLS, np.uint8)
    symbols[: observations.NUM_CELLS] = np.arange(observations.NUM_CELLS) % len(const.MATERIALS)
    symbols[observations.ENTITY_OFFSET : observations.ITEM_OFFSET] = np.arange(observations.NUM_CELLS) % len(
        observations.ENTITY_SYMBOLS
    )
    symbols[observations.ITEM_OFFSET : observations.FACING_INDEX] = 9
    symbols[observations.FACING_INDEX] = 1
    text = observations.describe_symbols(symbols)
    assert len(text) < MAX_TEXT_LENGTH
    assert set(text) <= TEXT_CHARSET


def test_ascii_map_shows_the_view_with_status_and_legend():
    level = {"near": {"table": True, "plant": "ripe"}, "inventory": {"wood": 2, "wood_sword": 1}, "cows": "none"}
    env = CrafterEnv(level, observation="symbols")
    obs, _ = env.reset(seed=3)
    lines = observations.ascii_map(obs).split("\n")
    rows = [line[:17].ljust(17)[::2] for line in lines[:7]]
    decoded = observations.decode_symbols(obs)
    for row, materials, entities in zip(rows, decoded["materials"], decoded["entities"], strict=True):
        for character, material, entity in zip(row, materials, entities, strict=True):
            expected = observations.ENTITY_CHARACTERS.get(entity, observations.MATERIAL_CHARACTERS[material])
            assert character == expected or (character == "v" and row is rows[3])
    assert rows[3][4] == "v"  # the player faces down
    assert lines[0].endswith("health 9  food 9  drink 9  energy 9")
    assert lines[1].endswith("wood 2")
    assert lines[2].endswith("wood sword")
    assert "facing down: " in lines[4]
    assert {"v you", ". grass", "t table", "P ripe plant"} <= set(lines[-1].split("  "))


def test_ascii_map_characters_are_unique():
    characters = [*observations.MATERIAL_CHARACTERS.values(), *observations.PLAYER_CHARACTERS]
    characters += {*observations.ENTITY_CHARACTERS.values()}
    assert len(set(characters)) == len(characters)
