"""The single environment follows Gymnasium's API."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import envgen  # noqa: F401  registers the environments
from envgen.worlds.crafter.constants import ACTIONS
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import LevelError


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
def test_passes_gymnasium_check_env(observation):
    env = gymnasium.make("envgen/Crafter-v0", observation=observation, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_reset_without_seed_starts_the_next_episode():
    env = CrafterEnv(observation="symbols")
    seeds = [env.reset(seed=5)[1]["seed"]] + [env.reset()[1]["seed"] for _ in range(3)]
    assert seeds == [hash((5, episode)) % (2**31 - 1) for episode in (1, 2, 3, 4)]


def test_environments_without_seed_differ():
    assert CrafterEnv().reset()[1]["seed"] != CrafterEnv().reset()[1]["seed"]


@pytest.mark.parametrize("action", [-1, 17, 1.5, "noop", None, True, np.array([1])])
def test_invalid_action_raises_and_changes_nothing(action):
    env = CrafterEnv(observation="symbols")
    env.reset(seed=0)
    before = env.engine.state.envs.copy()
    with pytest.raises(ValueError, match="not an integer from 0 to 16"):
        env.step(action)
    assert np.array_equal(env.engine.state.envs, before)


@pytest.mark.parametrize("action", [3, np.int64(3), np.array(3)])
def test_integer_types_are_accepted_as_actions(action):
    env = CrafterEnv(observation="symbols")
    env.reset(seed=0)
    env.step(action)


def test_step_before_reset_or_after_the_end_raises():
    env = CrafterEnv({"length": 1}, observation="symbols")
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    assert env.step(0)[3]
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"observation": "pixel"}, ValueError, "did you mean 'pixels'"),
        ({"size": 0}, ValueError, "size 0 is not an image size"),
        ({"size": (64, 64, 3)}, ValueError, "not an image size"),
        ({"size": 64.0}, ValueError, "not an image size"),
        ({"size": None}, ValueError, "not an image size"),
        ({"render_mode": "humann"}, ValueError, "did you mean 'human'"),
        ({"level": {"bioem": "beach"}}, LevelError, "did you mean 'biome'"),
        ({"level": 3}, TypeError, "not 3"),
        ({"level": []}, ValueError, "list of levels is empty"),
    ],
)
def test_invalid_arguments_raise(kwargs, error, message):
    with pytest.raises(error, match=message):
        CrafterEnv(**kwargs)


@pytest.mark.parametrize("seed", [-1, 1.5, "zero"])
def test_invalid_seed_raises(seed):
    with pytest.raises(ValueError, match="seed"):
        CrafterEnv(observation="symbols").reset(seed=seed)


def test_closing_a_window_twice_is_harmless():
    env = gymnasium.make("envgen/Crafter-v0", render_mode="human", render_size=99)
    env.reset(seed=0)
    env.step(0)
    env.close()
    env.close()


def test_set_level_takes_effect_at_the_next_reset():
    env = CrafterEnv(observation="symbols")
    env.reset(seed=0)
    env.set_level({"length": 2})
    assert env.level == CrafterLevel()
    _, info = env.reset()
    assert env.level == CrafterLevel(length=2)
    assert info["level"] == 1


def test_world_offers_what_a_designer_needs():
    world = Crafter()
    assert world.original == CrafterLevel()
    assert world.actions == ACTIONS
    assert len(world.skills) == 22
    assert "table" in world.rules
    schema = world.Level.model_json_schema()
    assert schema["properties"]["biome"]["enum"] == ["natural", "grassland", "mountain", "beach"]
    assert all("description" in field for field in schema["properties"].values())
    assert world.single(seed=1).reset()[1]["seed"] == hash((1, 1)) % (2**31 - 1)
    envs = world.make([{"trees": "rare"}, {}], seed=1)
    assert envs.reset()[1]["seed"].tolist() == [hash((seed, 1)) % (2**31 - 1) for seed in (1, 2)]
    assert world.level_stats({"trees": "none"}, range(2)).cells["tree"] == 0
