"""All worlds refuse the same wrong arguments, and images of episodes that have not begun."""

from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from python_worlds import Walk

from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.minigrid.world import MiniGrid
from envgen.worlds.walker.world import Walker

ENGINE_WORLDS = [Crafter(), Heist(), MiniGrid()]
WORLDS = [*ENGINE_WORLDS, Walk()]


def by_name(world: Any) -> str:
    return world.name


def make_envs(world: Any, **kw) -> Any:
    return world.make(observation=world.default_observation, **kw)


@pytest.mark.parametrize("world", WORLDS, ids=by_name)
@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_seeds_are_integers_of_at_least_0(world, seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        make_envs(world, num_envs=2, seed=seed)
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        world.single(seed=seed, observation=world.default_observation)
    envs = make_envs(world, num_envs=2)
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        envs.reset(seed=seed)


@pytest.mark.parametrize("world", [*ENGINE_WORLDS, Walker(num_workers=1)], ids=by_name)
@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_seeds_of_maps_are_integers_of_at_least_0(world, seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        world.render_map(None, seed)
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        world.render_levels({"original": None}, seed=seed)


@pytest.mark.parametrize("world", WORLDS, ids=by_name)
@pytest.mark.parametrize("num_envs", [0, -1, 1.0])
def test_there_is_at_least_one_environment(world, num_envs):
    with pytest.raises(ValueError, match="num_envs must be an integer of at least 1"):
        make_envs(world, num_envs=num_envs)


@pytest.mark.parametrize("world", WORLDS, ids=by_name)
@pytest.mark.parametrize("mask", [[0, 1], np.array([1.0, 0.0]), ["False", "True"], [True], [False, False]])
def test_a_reset_mask_is_boolean(world, mask):
    envs = make_envs(world, num_envs=2, seed=0)
    envs.reset()
    with pytest.raises(ValueError, match=r"reset_mask must (be a boolean array of shape \(2,\)|select at least one)"):
        envs.reset(options={"reset_mask": mask})
    _, infos = envs.reset(options={"reset_mask": [False, True]})
    assert infos["episode_number"].tolist() == [1, 2]


@pytest.mark.parametrize("world", WORLDS, ids=by_name)
def test_the_first_reset_may_be_that_of_some_environments(world):
    envs, complete = (make_envs(world, num_envs=3, seed=5) for _ in range(2))
    obs, infos = envs.reset(options={"reset_mask": [True, False, False]})
    assert infos["episode_number"].tolist() == [1, 0, 0]
    assert infos["level"].tolist() == [0, 0, 0]
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(envs.action_space.shape, envs.action_space.dtype))
    expected, _ = complete.reset()
    np.testing.assert_array_equal(obs[0], expected[0])
    obs, infos = envs.reset(options={"reset_mask": [False, True, True]})
    np.testing.assert_array_equal(obs, expected)
    assert infos["episode_number"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("world", WORLDS, ids=by_name)
def test_single_environments_have_images_from_the_first_reset_on(world):
    env = world.single(seed=0, observation=world.default_observation, render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match="call reset"):
        env.render()
    env.reset()
    assert env.render().ndim == 3


@pytest.mark.parametrize("world", ENGINE_WORLDS, ids=by_name)
def test_vector_environments_have_images_from_the_first_reset_on(world):
    envs = make_envs(world, num_envs=2, seed=0, render_mode="rgb_array")
    envs.reset(options={"reset_mask": [True, False]})
    with pytest.raises(ResetNeeded, match="environment 1 has not started"):
        envs.render()
    envs.reset()
    assert len(envs.render()) == 2
