"""Levels do what they say, are always solvable, and are rejected with a clear message when invalid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.worlds.heist import constants as const
from envgen.worlds.heist.engine import Engine
from envgen.worlds.heist.env import HeistEnv, HeistVectorEnv
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.heist.level_stats import compute_level_stats
from envgen.worlds.heist.reference import RolloutRequest, mixed_policies, record_engine_rollout
from envgen.worlds.heist.rules import AGENT_RADIUS
from envgen.worlds.world import LevelError

SEEDS = range(60)


def start_episodes(level, seeds=SEEDS) -> Engine:
    engine = Engine(len(seeds), [HeistLevel.parse(level)], False, threads=1)
    for i, seed in enumerate(seeds):
        engine.seed(i, seed)
    engine.reset(np.ones(len(seeds), np.bool_))
    return engine


def levels() -> st.SearchStrategy[HeistLevel]:
    def instances(model):
        fields = {}
        for name, field in model.model_fields.items():
            kind = field.annotation
            if kind is bool:
                fields[name] = st.booleans()
            elif kind is int:
                limits = {type(constraint).__name__: constraint for constraint in field.metadata}
                fields[name] = st.integers(limits["Ge"].ge, limits["Le"].le)
            elif hasattr(kind, "model_fields"):
                fields[name] = instances(kind)
            else:
                fields[name] = st.sampled_from(kind.__args__)
        return st.builds(model, **fields)

    return instances(HeistLevel)


@given(level=levels(), seed=st.integers(0, 2**31))
@settings(max_examples=150)
def test_every_level_is_solvable_and_the_expert_solves_it(level, seed):
    level = level.model_copy(update={"length": const.MAX_EPISODE_STEPS})
    env = HeistEnv(level, observation="symbols")
    _, info = env.reset(seed=seed)
    assert info["shortest_path"] > 0
    assert info["possible"]["steal_gem"]
    actions = []
    for _ in range(const.MAX_EPISODE_STEPS):
        actions.append(int(expert_actions(env.engine)[0]))
        _, _, terminated, truncated, info = env.step(actions[-1])
        if terminated or truncated:
            break
    assert info["achievements"]["steal_gem"] == 1
    assert len(actions) * 1.5 * 0.62 > info["shortest_path"] - 1  # top speed is a lower bound on the steps
    env.reset(seed=seed)
    *_, terminated, _, _ = [env.step(action) for action in actions][-1]
    assert terminated  # replaying the actions solves it again


@given(level=levels(), seed=st.integers(0, 2**31), data=st.data())
@settings(max_examples=60)
def test_walls_and_locked_doors_block_and_keys_are_conserved(level, seed, data):
    env = HeistEnv(level, observation="symbols")
    obs, info = env.reset(seed=seed)
    record = env.engine.envs[0]
    start_entities = record["entities"][: record["num_entities"]]
    keys_in_maze = {int(entity["color"]) for entity in start_entities if entity["kind"] == const.ENTITY_KEY}
    held = {color for color in range(const.NUM_COLORS) if record["has_key"][color]}
    assert not keys_in_maze & held
    assert keys_in_maze | held == set(range(record["num_doors"])) | held
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    expert_probability = data.draw(st.floats(0, 1))
    for _ in range(80):
        use_expert = rng.random() < expert_probability
        action = expert_actions(env.engine)[0] if use_expert else rng.integers(0, 15)
        obs, _, terminated, truncated, info = env.step(int(action))
        assert env.observation_space.contains(obs)
        record = env.engine.envs[0]
        check_position(record)
        entities = record["entities"][: record["num_entities"]]
        remaining_keys_in_maze = {int(k["color"]) for k in entities if k["kind"] == const.ENTITY_KEY and k["alive"]}
        now_held = {color for color in range(const.NUM_COLORS) if record["has_key"][color]}
        assert remaining_keys_in_maze | now_held == keys_in_maze | held
        assert not remaining_keys_in_maze & now_held
        for color, name in enumerate(const.COLORS):
            opened = info["achievements"][f"open_{name}_door"]
            assert not opened or color in now_held
            assert info["achievements"][f"take_{name}_key"] == (color in now_held - held)
        achieved = [name for name, count in info["achievements"].items() if count]
        assert all(info["possible"][name] for name in achieved)
        if terminated or truncated:
            break


def check_position(record):
    """The agent is in no wall and in no locked door, except for the reference's own tolerance."""
    x, y, r = float(record["x"]), float(record["y"]), float(AGENT_RADIUS) * 0.98 - 1e-4
    for px in (x - r, x + r):
        for py in (y - r, y + r):
            assert 0 <= px < record["world_size"]
            assert 0 <= py < record["world_size"]
            assert record["grid"][int(py), int(px)] != const.WALL
    for door in record["entities"][: record["num_entities"]]:
        if door["kind"] == const.ENTITY_DOOR and door["alive"] and not record["has_key"][door["color"]]:
            assert max(abs(x - door["x"]), abs(y - door["y"])) >= 0.873


def test_default_level_is_the_original_hard_mode():
    assert HeistLevel() == HeistLevel(mode="hard")
    params = HeistLevel().to_params()
    assert params["world_size"] == 13
    assert params["acceleration"] == 0.375
    assert params["length"] == 1000
    zero_fields = (
        "maze_size", "held_keys", "open_doors", "key_distance", "gem_distance", "loop_percent", "key_reward",
        "door_reward",
    )  # fmt: skip
    assert not any(params[name] for name in zero_fields)


@pytest.mark.parametrize(("mode", "size"), [("easy", 9), ("hard", 13), ("memory", 23)])
def test_modes_have_the_original_world_sizes(mode, size):
    assert (start_episodes({"mode": mode}).envs["world_size"] == size).all()


@pytest.mark.parametrize("size", [5, 9, 13, 19, 25])
def test_maze_size_is_exact_and_the_world_is_large_enough(size):
    engine = start_episodes({"maze_size": size, "world_size": 9})
    for record in engine.envs:
        y, x = np.nonzero(record["grid"] != const.WALL)
        assert np.ptp(x) + 1 == np.ptp(y) + 1 == size
        assert record["world_size"] == max(size, 9)


@pytest.mark.parametrize(("keys", "count"), [("none", 0), ("one", 1), ("two", 2), ("three", 3)])
def test_keys_sets_the_number_of_keys_and_doors(keys, count):
    stats = compute_level_stats({"keys": keys, "maze_size": 13}, SEEDS)
    assert stats.cells["keys"] == stats.cells["doors"] == count
    colors = [c for c in const.COLORS if stats.possible[f"take_{c}_key"] == 1]
    assert colors == list(const.COLORS[:count])


def test_held_keys_are_not_in_the_maze_and_their_doors_are():
    engine = start_episodes({"keys": "three", "maze_size": 13, "held_keys": {"blue": True, "red": True}})
    assert engine.envs["has_key"].tolist() == [[1, 0, 1]] * len(SEEDS)
    assert (engine.envs["possible"] == [0, 1, 1, 1, 0, 1, 1]).all()


def test_open_doors_are_not_in_the_maze_and_their_keys_are():
    engine = start_episodes({"keys": "three", "maze_size": 13, "open_doors": {"green": True}})
    assert (engine.envs["possible"] == [1, 1, 1, 0, 1, 1, 1]).all()
    assert (engine.envs["grid"] != const.DOOR + 1).all()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_start_near_a_key_holds_the_keys_before_it(number):
    color = const.COLORS[number]
    stats = compute_level_stats({"keys": "three", "maze_size": 13, "start": f"{color} key"}, SEEDS)
    assert stats.mean_moves[f"take_{color}_key"] <= 2
    engine = start_episodes({"keys": "three", "maze_size": 13, "start": f"{color} key"})
    assert (engine.envs["has_key"] == [k < number for k in range(3)]).all()


def test_start_near_the_gem_holds_all_keys():
    engine = start_episodes({"keys": "three", "maze_size": 13, "start": "gem"})
    assert engine.envs["has_key"].all()
    assert engine.envs["shortest_path"].mean() <= 2


@pytest.mark.parametrize(
    ("setting", "skill", "keys"), [("key_distance", "take_blue_key", "one"), ("gem_distance", "steal_gem", "none")]
)
def test_short_is_nearer_and_long_is_farther(setting, skill, keys):
    base = {"maze_size": 13, "keys": keys}
    short, original, long = (
        compute_level_stats(base | {setting: value}, SEEDS).mean_moves[skill] for value in ("short", "original", "long")
    )
    assert short < 0.8 * original < original < 0.85 * long


def test_more_loops_leave_fewer_dead_ends():
    dead_ends = [
        compute_level_stats({"maze_size": 13, "loops": value}, SEEDS).cells["dead ends"]
        for value in ("none", "few", "many", "all")
    ]
    assert dead_ends == sorted(dead_ends, reverse=True)
    assert dead_ends[0] > 8
    assert dead_ends[3] == 0


def test_speed_sets_the_top_speed():
    top_speeds = []
    for speed in ("slow", "original", "fast"):
        env = HeistEnv({"speed": speed, "loops": "all", "maze_size": 25, "keys": "none"}, observation="symbols")
        env.reset(seed=2)
        positions = [env.step(7 if k < 40 else 1)[4]["player_pos"][0] for k in range(60)]
        top_speeds.append(np.abs(np.diff(positions)).max())
    assert top_speeds == pytest.approx([0.5 * 0.6136, 0.6136, 1.5 * 0.6136], rel=0.01)


def test_length_truncates_the_episode():
    env = HeistEnv({"length": 5}, observation="symbols")
    env.reset(seed=0)
    assert [env.step(4)[2:4] for _ in range(5)] == [(False, False)] * 4 + [(False, True)]


def test_bonus_is_the_reward_for_keys_and_doors():
    level = {"keys": "two", "maze_size": 9, "key_reward": 1, "door_reward": 2}
    envs = HeistVectorEnv(2, [level, {"keys": "two", "maze_size": 9}], "symbols")
    envs.reset(seed=[3, 3])
    returns, final_info = np.zeros(2), None
    while final_info is None or not final_info["_bonus"].all():
        _, reward, terminated, _, infos = envs.step(expert_actions(envs.engine))
        returns += reward
        if terminated.any():
            assert terminated.all()
            final_info = infos["final_info"]
    assert returns.tolist() == final_info["episode_return"].tolist() == [16, 10]
    assert final_info["bonus"].tolist() == [6, 0]


def test_explicit_defaults_change_nothing():
    batches = [HeistVectorEnv(4, level, "symbols") for level in ({}, {"held_keys": {"red": False}, "length": 1000})]
    for envs in batches:
        envs.reset(seed=5)
    for actions in np.random.default_rng(0).integers(0, 15, (200, 4)):
        first, second = (envs.step(actions) for envs in batches)
        assert np.array_equal(first[0], second[0])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"mode": "extreme"}, "mode: 'extreme' is not one of easy, hard, memory"),
        ({"moed": "easy"}, "setting 'moed' is not one of .*did you mean 'mode'"),
        ({"maze_size": 6}, "maze_size: .*5, 7, 9.*6"),
        ({"keys": 3}, "keys: .*'three'.*3"),
        ({"held_keys": {"yellow": True}}, "HeldKeys: setting 'yellow' is not one of blue, green, red"),
        ({"length": 0}, "length: .*greater than or equal to 1"),
        ({"length": 1001}, "length: .*less than or equal to 1000"),
        ({"key_reward": 0.5}, "key_reward: .*0.5"),
        ("{not json", "Invalid JSON"),
    ],
)
def test_invalid_levels_are_rejected_with_a_message(data, message):
    with pytest.raises(LevelError, match=f"(?s){message}"):
        HeistLevel.parse(data)


def test_levels_are_immutable_values():
    level = HeistLevel.parse({"start": "Blue_Key"})
    assert level == HeistLevel.model_validate_json(level.model_dump_json())
    assert hash(level) == hash(HeistLevel(start="blue key"))
    with pytest.raises(ValueError, match="frozen"):
        level.mode = "easy"


def test_expert_steals_the_gem_more_often_than_random_actions():
    recording = record_engine_rollout(RolloutRequest("easy", 4, 5), 300, mixed_policies(4, 5))
    wins = (recording.states["reward"] > 0).sum(0)
    assert wins[1] > wins[0]
