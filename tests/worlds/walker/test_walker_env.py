"""The walker equals Gymnasium's bit for bit, and its states are exact."""

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest

pytest.importorskip("Box2D")
from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics
from gymnasium.utils.env_checker import check_env

from envgen.worlds.check_episodes import are_equal, copy_values
from envgen.worlds.check_world import check_world
from envgen.worlds.walker import level as walker_level
from envgen.worlds.walker.env import Box2dMissingError, load_physics
from envgen.worlds.walker.reference import REFERENCE_LEVELS
from envgen.worlds.walker.terrain import END_X, START_X
from envgen.worlds.walker.world import Walker

MIXED = {"roughness": 2.0, "pit_gap_high": 2.0, "stump_height_high": 1.0, "stair_height_high": 1.0, "stair_steps": 3}


@pytest.fixture(scope="module")
def world():
    return Walker(num_workers=1)


@pytest.mark.parametrize("seed", [0, 1, 2, 9])
@pytest.mark.parametrize("env_id", REFERENCE_LEVELS)
def test_episodes_equal_gymnasiums(world, env_id, seed):
    """Episodes to their ends: with even seeds of random actions, with odd ones of Gymnasium's scripted walker."""
    ours, theirs = world.single(REFERENCE_LEVELS[env_id]), gymnasium.make(env_id)
    heuristic, rng = BipedalWalkerHeuristics(), np.random.default_rng(seed)
    obs, _ = theirs.reset(seed=seed)
    assert np.array_equal(ours.reset(seed=seed)[0], obs)
    ended = False
    while not ended:
        action = heuristic.step_heuristic(obs) if seed % 2 else rng.uniform(-0.3, 0.3, 4)
        action = action.astype(np.float32)
        obs, reward, terminated, truncated, _ = theirs.step(action)
        our_obs, *results, _ = ours.step(action)
        assert np.array_equal(our_obs, obs)
        assert results == [reward, terminated, truncated]
        ended = terminated or truncated
    ours.close()
    theirs.close()


def test_a_fall_in_the_last_step_also_truncates(world):
    """Gymnasium's time limit truncates then as well."""

    def play(max_episode_steps):
        ours, theirs = world.single(), gymnasium.make("BipedalWalker-v3", max_episode_steps=max_episode_steps)
        ours.reset(seed=0)
        theirs.reset(seed=0)
        ours.max_episode_steps = max_episode_steps
        flags = []
        while not flags or not any(flags[-1]):
            action = rng.uniform(-1, 1, 4).astype(np.float32)
            _, reward, *flags_of_ours, _ = ours.step(action)
            assert theirs.step(action)[1:4] == (reward, *flags_of_ours)
            flags.append(flags_of_ours)
        return flags

    rng = np.random.default_rng(0)
    until_fall = play(1600)
    assert until_fall[-1] == [True, False]
    rng = np.random.default_rng(0)
    assert play(len(until_fall)) == [*until_fall[:-1], [True, True]]


def test_ctrl_c_is_not_lost_while_box2d_is_imported():
    """The interrupt arrives during the import, and is raised after it."""
    code = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "Box2D":
            os.kill(os.getpid(), signal.SIGINT)
        return None

from envgen.worlds.walker.env import load_physics
sys.meta_path.insert(0, Interrupting())
try:
    load_physics()
except KeyboardInterrupt:
    assert "envgen.worlds.walker.physics" in sys.modules, "the import was not finished"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print("interrupted")
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout == "interrupted\n", process.stderr


def test_later_episodes_equal_gymnasiums_in_a_new_environment(world):
    ours = world.single()
    ours.reset(seed=5)
    for _ in range(3):
        rng = np.random.Generator(np.random.PCG64())
        rng.bit_generator.state = ours.np_random.bit_generator.state
        theirs = gymnasium.make("BipedalWalker-v3").unwrapped
        theirs.np_random = rng
        assert np.array_equal(ours.reset()[0], theirs.reset()[0])
        for action in np.random.default_rng(0).uniform(-1, 1, (30, 4)).astype(np.float32):
            obs, reward, terminated, _, _ = theirs.step(action)
            result = ours.step(action)
            assert np.array_equal(result[0], obs)
            assert result[1:3] == (reward, terminated)
            if terminated:
                break


def test_time_limits_are_the_registered_ones(world):
    for env_id, level in REFERENCE_LEVELS.items():
        env = world.single(level)
        env.reset(seed=0)
        assert env.max_episode_steps == gymnasium.spec(env_id).max_episode_steps
    assert world.Level(roughness=2.0).max_episode_steps == 2000


def test_the_contract(world):
    check_world(world, MIXED, steps=150)


def test_prepared_episodes_are_those_that_follow(world):
    plain, prepared = (world.make([MIXED, {}], 4, seed=3) for _ in range(2))
    actions = np.random.default_rng(3).uniform(-1, 1, (200, 4, 4)).astype(np.float32)
    for envs in (plain, prepared):
        envs.set_levels([MIXED, {"hardcore": True}], sample_levels=True)
        envs.reset()
    num_episodes = 0
    for k, row in enumerate(actions):
        if k % 3 == 0:
            for env in prepared.envs:
                env.prepare_next()
        if k == 90:
            plain.set_levels([{}])
            prepared.set_levels([{}])
        first, second = copy_values(plain.step(row)), copy_values(prepared.step(row))
        assert are_equal(first, second)
        num_episodes += int((first[2] | first[3]).sum())
    assert num_episodes >= 2
    assert are_equal(plain.get_state(), prepared.get_state())


def test_long_episodes_of_levels_are_restored(world, monkeypatch):
    monkeypatch.setattr(walker_level, "ORIGINAL_STEPS", 5)  # an episode in the original ends before those in levels
    envs = world.make([MIXED], 2, seed=0)
    envs.reset()
    for _ in range(8):
        *_, infos = envs.step(np.full((2, 4), 0.1, np.float32))
    assert infos["episode_length"].tolist() == [8, 8]
    other = world.make([{}], 2, seed=1)
    other.set_state(envs.get_state())
    for _ in range(20):
        row = np.full((2, 4), -0.1, np.float32)
        assert are_equal(copy_values(envs.step(row)), copy_values(other.step(row)))


def test_a_damaged_state_is_refused(world):
    envs = world.make([MIXED], 2, seed=0)
    envs.reset()
    for _ in range(10):
        envs.step(np.full((2, 4), 0.1, np.float32))
    state = envs.get_state()
    for name, index, value in (("state.actions", (1, 4, 2), 0.5), ("state.actions", (0, 3, 0), np.nan),
                               ("state.actions", (0, 15, 0), 0.5), ("state.rng", (0, 1), 7)):  # fmt: skip
        damaged = {key: array.copy() for key, array in state.items()}
        damaged[name][index] = value
        with pytest.raises(ValueError, match="does not fit 2 environments of walker"):
            envs.set_state(damaged)
    assert are_equal(envs.get_state(), state)


def test_skills_need_distance_and_an_obstacle(world):
    env = world.single({"roughness": 0.0, "stump_height_high": 0.4})
    _, info = env.reset(seed=0)
    assert [name for name, possible in info["possible"].items() if possible] == [
        f"{terrain}_{percent}" for terrain in ("walk", "stumps") for percent in (25, 50, 100)
    ]
    physics = env._physics
    easy, arrived = {"walk_25", "stumps_25"}, {name for name, possible in info["possible"].items() if possible}
    for fraction, expected in ((0.26, easy), (1.01, arrived)):
        shift = fraction * (END_X - START_X) + START_X - physics.x
        for body in (physics.hull, *physics.legs):
            body.position = (body.position[0] + shift, body.position[1] + 3)
        *_, info = env.step(np.zeros(4, np.float32))
        assert {name for name, count in info["achievements"].items() if count} == expected
    assert env.last_end.cause == "arrived"


def test_probe_says_why_episodes_ended(world):
    envs = world.make([MIXED], 3, seed=1)
    envs.reset()
    probe, rng, causes = world.make_probe(envs), np.random.default_rng(0), []
    for _ in range(200):
        _, _, terminated, truncated, _ = envs.step(rng.uniform(-1, 1, (3, 4)).astype(np.float32))
        causes += [
            (end.cause, *end.circumstances) for end in probe.episode_ends(np.flatnonzero(terminated | truncated))
        ]
    assert ("fell", "near") in causes


def test_the_scripted_walker_gets_ahead(world):
    envs = world.make([{"roughness": 0.0}], 4, seed=0)
    _, infos = envs.reset()
    start = infos["distance"].copy()
    for _ in range(150):
        _, _, terminated, _, infos = envs.step(world.expert_actions(envs))
        assert not terminated.any()
    assert (infos["distance"] > start + 3).all()


def test_pictures_and_statistics(world):
    image = np.asarray(world.render_levels({"original": {}, "hardcore": {"hardcore": True}}, columns=2))
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 5
    env = world.single(render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (600, 600, 3)
    stats = world.level_stats({"pit_gap_low": 9, "pit_gap_high": 10}, range(4))
    assert stats.as_dict()["obstacles larger than published agents pass, %"] == 100
    assert stats.as_dict()["stumps per world"] == 0
    assert world.reachable_skills({}, world.level_stats({}, range(2))) == {"walk_25", "walk_50", "walk_100"}


@pytest.mark.parametrize("num_workers", [1, 2])
def test_vector_environments_render(num_workers):
    envs = Walker(num_workers).make([{}, {"roughness": 3}], render_mode="rgb_array")
    envs.reset(seed=0)
    first, second = envs.render()
    assert first.shape == second.shape == (600, 600, 3)
    assert (first != second).any()
    envs.close()


def test_gymnasium_collects_the_frames_of_an_episode():
    env = gymnasium.make("envgen/Walker-v0", render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step(np.zeros(4))
    assert [frame.shape for frame in env.render()] == [(600, 600, 3)] * 2
    env.close()


def test_without_box2d_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "envgen.worlds.walker.physics", None)
    monkeypatch.delattr("envgen.worlds.walker.physics", raising=False)
    with pytest.raises(Box2dMissingError, match=r'pip install "envgen\[box2d\]"'):
        load_physics()


def test_gymnasium_makes_environments_with_levels():
    env = gymnasium.make("envgen/Walker-v0", level={"roughness": 3.0}, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.reset(seed=0)
    assert env.render().ndim == 3
    env.close()
    levels, modes = [{}, {"roughness": 3.0}], {"render_mode": "rgb_array", "autoreset_mode": "SameStep"}
    envs = gymnasium.make_vec("envgen/Walker-v0", num_envs=2, levels=levels, num_workers=1, **modes)
    obs, infos = envs.reset(seed=0)
    assert [frame.ndim for frame in envs.render()] == [3, 3]
    assert infos["level"].tolist() == [0, 1]
    assert np.array_equal(obs[1], Walker().single(levels[1]).reset(seed=1)[0])
    envs.close()
