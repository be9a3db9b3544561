"""MiniGrid as Gymnasium environments: observations, images, states, and what the world gives to designers."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import envgen  # noqa: F401  registers the environments
from envgen.worlds.check_world import check_world
from envgen.worlds.minigrid import constants as const
from envgen.worlds.minigrid import observations
from envgen.worlds.minigrid.env import MiniGridEnv, MiniGridVectorEnv
from envgen.worlds.minigrid.state import ENV
from envgen.worlds.minigrid.world import MiniGrid
from envgen.worlds.observations import MAX_TEXT_LENGTH, TEXT_CHARSET
from minigrid_maps import room


@pytest.fixture(scope="module")
def world() -> MiniGrid:
    return MiniGrid()


def test_the_world_follows_its_contract(world):
    check_world(world, {"task": "empty", "length": 40})


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
def test_gymnasium_env_checker_passes_without_warnings(observation):
    env = gymnasium.make("envgen/MiniGrid-v0", observation=observation, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("action", [-1, 7, 1.5, "left", None])
def test_invalid_actions_are_rejected_without_side_effects(action):
    env = MiniGridEnv(observation="symbols")
    env.reset(seed=0)
    before = env.engine.envs.copy()
    with pytest.raises(ValueError, match="not an integer from 0 to 6"):
        env.step(action)
    assert np.array_equal(env.engine.envs, before)


def test_walls_and_closed_doors_hide_what_is_behind_them():
    rows = room(".Kr.By.", "##Dg##", "..^..")
    env = MiniGridEnv({"task": "key corridor", "map": rows}, "symbols")
    obs, info = env.reset(seed=0)
    image = observations.decode_symbols(obs)["image"]
    assert (image[:, :5, 0] == const.TYPE_UNSEEN).all()  # two rows ahead and more are behind the wall
    assert tuple(image[3, 5]) == (const.TYPE_DOOR, const.GREEN, 1)
    assert info["mission"] == "pick up the yellow ball"
    env = MiniGridEnv({"map": room("..G..", "##Dg##", "..^..")}, "symbols")
    env.reset(seed=0)
    obs, *_ = env.step(const.TOGGLE)
    image = observations.decode_symbols(obs)["image"]
    assert tuple(image[3, 5]) == (const.TYPE_DOOR, const.GREEN, 0)
    assert tuple(image[3, 4]) == (const.TYPE_GOAL, const.GREEN, 0)


def test_text_says_what_symbols_say():
    rows = room("..G..", ".Xe(Kb).Lr.", "Kr.^..")
    env = MiniGridEnv({"map": rows}, "text")
    text, _ = env.reset(seed=0)
    assert "Your mission: reach the goal." in text
    assert "You face up and carry nothing." in text
    assert "goal 2 ahead" in text
    assert "grey box 1 ahead 1 left" in text
    assert "locked red door 1 ahead 1 right" in text
    assert text.splitlines()[-1][3] == "^"
    env.step(const.TURN_LEFT)
    env.step(const.FORWARD)
    text, *_ = env.step(const.PICK_UP)
    assert "You face left and carry red key." in text


def test_long_texts_fit():
    for seed in range(40):
        text, _ = MiniGridEnv(None, "text").reset(seed=seed)
        assert 0 < len(text) <= MAX_TEXT_LENGTH
        assert set(text) <= TEXT_CHARSET
    rows = room(*["Kr" * 11] * 9, "Kr" * 5 + "^" + "Kr" * 4 + "G")
    text, _ = MiniGridEnv({"map": rows}, "text").reset(seed=0)
    assert len(text) <= MAX_TEXT_LENGTH


def test_threads_do_not_change_results():
    results = []
    for threads in (1, 3):
        envs = MiniGridVectorEnv(64, [{}, {"task": "dynamic obstacles"}], "symbols", threads=threads)
        envs.reset(seed=1)
        rng = np.random.default_rng(0)
        steps = [envs.step(rng.integers(7, size=64)) for _ in range(80)]
        results.append([(obs.copy(), rewards) for obs, rewards, *_ in steps])
        envs.close()
    assert all(np.array_equal(a, b) for one, two in zip(*results, strict=True) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("observation", ["symbols", "pixels"])
def test_a_restored_state_continues_exactly(observation):
    levels = [{}, {"task": "dynamic obstacles", "length": 20}, {"map": room(">.G")}]
    envs, copy = (MiniGridVectorEnv(9, levels, observation, threads=1) for _ in range(2))
    rng = np.random.default_rng(0)
    envs.reset(seed=3)
    for _ in range(30):
        envs.step(rng.integers(7, size=9))
    state = envs.get_state()
    copy.set_state(state)
    for _ in range(60):
        actions = rng.integers(7, size=9)
        expected, actual = envs.step(actions), copy.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(expected[:4], actual[:4], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(envs.get_state().values(), copy.get_state().values(), strict=True))


INVALID_VALUES = [
    ("level", 3), ("step", -1), ("step", 10_000), ("length", 7), ("task", 23), ("task", -1), ("task", 22),
    ("objective", 9), ("objective", 3), ("width", 52), ("height", 2), ("cell", 0), ("cell", -1), ("cell", 4000),
    ("direction", 4), ("carrying", 83), ("carrying", 2), ("carrying", 0), ("num_obstacles", 27), ("num_obstacles", 5),
    ("sees_through_walls", 0), ("mission", 99), ("grid", 83), ("grid", 0), ("rng", 2**64 - 1),
    ("episode_return", np.nan),
]  # fmt: skip


def test_every_field_used_by_kernels_is_checked():
    envs = MiniGridVectorEnv(2, {"task": "dynamic obstacles"}, "symbols", threads=1)
    envs.reset(seed=1)
    before = envs.get_state()
    for field, value in INVALID_VALUES:
        state = {key: values.copy() for key, values in before.items()}
        old_value = state["envs"].view(ENV)[field][1, 0]
        state["envs"].view(ENV)[field][1, 0] = np.full_like(old_value, value)
        with pytest.raises(ValueError, match="environment 1"):
            envs.set_state(state)
    after = envs.get_state()
    assert all(np.array_equal(after[key], before[key]) for key in before)


def test_seeds_of_restored_episodes_give_new_streams():
    envs = MiniGridVectorEnv(3, {"task": "dynamic obstacles", "size": 12}, "symbols", threads=1)
    envs.reset(seed=0)
    state = envs.get_env_state(np.array([0]))
    envs.check_env_state(state)
    for env_id, seeds in ((1, None), (2, [77])):
        envs.set_env_state(np.array([env_id]), state, seeds)
    for _ in range(10):
        envs.step(np.full(3, const.TURN_LEFT))
    obstacles = envs.engine.envs["obstacles"]
    assert np.array_equal(obstacles[0], obstacles[1])
    assert not np.array_equal(obstacles[0], obstacles[2])


def test_a_probe_names_the_causes_of_ends(world):
    rows = room(".~.", ".>.", ".G.")
    for actions, cause in (
        ([const.TURN_RIGHT, const.FORWARD], "solved"), ([const.TURN_LEFT, const.FORWARD], "lava"),
        ([const.FORWARD] * 4, "time limit"),
    ):  # fmt: skip
        envs = world.make([{"map": rows, "length": 4}], 1, 0, "symbols", threads=1)
        envs.reset()
        probe = world.make_probe(envs)
        for action in actions:
            assert probe.before_step(np.array([action])) == {}
            _, _, terminated, truncated, _ = envs.step(np.array([action]))
        assert (terminated | truncated).all()
        (end,) = probe.episode_ends(np.array([0]))
        assert (end.cause, end.circumstances) == (cause, {"task": "random walls"})


def test_pictures(world):
    image = world.render_levels({"door key": {"task": "door key"}, "dist shift": {"task": "dist shift"}}, columns=2)
    assert image.size[0] > 2 * world.map_image_size
    env = MiniGridEnv({"task": "dist shift"}, render_mode="rgb_array", render_size=(300, 200))
    env.reset(seed=0)
    assert env.render().shape == (200, 300, 3)
    obs, info = MiniGridEnv(None, "symbols").reset(seed=0)
    mission, *rows = world.ascii_map(obs).splitlines()
    assert mission == info["mission"]
    assert [len(row) for row in rows] == [7] * 7


def test_every_skill_has_a_level_that_the_expert_solves(world):
    assert list(world.skill_levels) == [skill.name for skill in world.skills]
    levels = [world.Level.parse(level) for level in world.skill_levels.values()]
    envs = world.make(levels, 2 * len(levels), 0, "symbols", threads=1)
    _, infos = envs.reset()
    assert np.array_equal(infos["task"], np.arange(len(levels)).tolist() * 2)
    solved = np.zeros(envs.num_envs, np.bool_)
    for _ in range(200):
        _, rewards, _, _, _ = envs.step(world.expert_actions(envs))
        solved |= rewards > 0
    assert solved.all(), np.array(const.TASKS)[np.flatnonzero(~solved) % len(levels)]
