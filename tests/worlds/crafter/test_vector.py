"""The vector environment: equality with single environments, autoreset, levels, snapshots and errors."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode

import envgen  # noqa: F401  registers the environments
from envgen.worlds.crafter.env import CrafterEnv, CrafterVectorEnv
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.world import Crafter

LEVELS = [CrafterLevel(length=9), CrafterLevel(biome="beach", length=7), CrafterLevel(trees="rare", length=12)]


def sample_actions(n: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 17, (steps, n))


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
@pytest.mark.parametrize("threads", [1, 3])
def test_vector_env_equals_single_envs(observation, threads):
    envs = CrafterVectorEnv(5, LEVELS, observation, threads=threads)
    single_envs = [CrafterEnv(LEVELS[i % 3], observation) for i in range(5)]
    obs, infos = envs.reset(seed=40)
    for i, env in enumerate(single_envs):
        single_obs, info = env.reset(seed=40 + i)
        assert np.array_equal(obs[i], single_obs)
        assert infos["seed"][i] == info["seed"]
    for actions in sample_actions(5, 40):
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        for i, env in enumerate(single_envs):
            single_obs, reward, dead, timed_out, info = env.step(actions[i])
            assert (rewards[i], terminated[i], truncated[i]) == (reward, dead, timed_out)
            if dead or timed_out:
                assert np.array_equal(infos["final_obs"][i], single_obs)
                final_info = infos["final_info"]
                assert final_info["achievements"][i].tolist() == list(info["achievements"].values())
                assert final_info["seed"][i] == info["seed"]
                assert final_info["episode_length"][i] == LEVELS[i % 3].length or dead
                single_obs, info = env.reset()
            assert np.array_equal(obs[i], single_obs)
            assert infos["seed"][i] == info["seed"]
            assert envs.levels[infos["level"][i]] == LEVELS[i % 3]
    envs.close()


def test_final_obs_and_final_info_are_masked():
    envs = CrafterVectorEnv(3, LEVELS, "symbols")
    envs.reset(seed=1)
    for step in range(1, 8):
        *_, infos = envs.step(np.zeros(3, int))
        assert ("final_obs" in infos) == (step == 7)
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [False, True, False]
    assert infos["final_obs"][0] is None
    assert infos["final_info"]["episode_length"].tolist() == [0, 7, 0]
    assert infos["final_info"]["_episode_length"].tolist() == [False, True, False]
    assert infos["episode_length"].tolist() == [7, 0, 7]


def test_next_step_autoreset():
    envs = CrafterVectorEnv(2, {"length": 3}, "symbols", autoreset_mode=AutoresetMode.NEXT_STEP)
    _, infos = envs.reset(seed=1)
    seed = infos["seed"].copy()
    for _ in range(3):
        _, _, _, truncated, infos = envs.step([0, 0])
    assert truncated.all()
    assert infos["seed"].tolist() == seed.tolist()
    _, rewards, _, truncated, infos = envs.step([5, 5])
    assert not truncated.any()
    assert not rewards.any()
    assert (infos["seed"] != seed).all()
    assert infos["episode_length"].tolist() == [0, 0]


def test_disabled_autoreset_resets_only_masked_environments():
    envs = CrafterVectorEnv(2, [{"length": 2}, {"length": 5}], "symbols", autoreset_mode="Disabled")
    envs.reset(seed=1)
    envs.step([0, 0])
    assert envs.step([0, 0])[3].tolist() == [True, False]
    with pytest.raises(ResetNeeded, match="environment 0 has ended"):
        envs.step([0, 0])
    _, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    assert infos["episode_number"].tolist() == [2, 1]
    assert infos["episode_length"].tolist() == [0, 2]


def test_make_vec_declares_the_autoreset_mode():
    envs = gymnasium.make_vec("envgen/Crafter-v0", num_envs=2, observation="symbols", levels={"water": "rare"})
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.observation_space.shape == (2, 145)
    obs, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(obs)


def test_set_levels_takes_effect_at_the_next_episode():
    envs = CrafterVectorEnv(2, {"length": 3}, "symbols")
    envs.reset(seed=1)
    envs.step([0, 0])
    envs.set_levels([{"length": 2}, {"length": 3}])
    *_, infos = envs.step([0, 0])
    assert [envs.levels[k].length for k in infos["level"]] == [3, 3]  # the current episodes keep their level
    *_, infos = envs.step([0, 0])
    assert [envs.levels[k].length for k in infos["final_info"]["level"]] == [3, 3]
    assert [envs.levels[k].length for k in infos["level"]] == [2, 3]


def test_sampled_levels_are_all_used_and_repeatable():
    def sample_level_ids():
        envs = CrafterVectorEnv(4, LEVELS, "symbols", sample_levels=True)
        _, infos = envs.reset(seed=9)
        level_ids = [infos["level"].tolist()]
        for actions in sample_actions(4, 300):
            *_, infos = envs.step(actions)
            level_ids.append(infos["level"].tolist())
        return level_ids

    first = sample_level_ids()
    assert first == sample_level_ids()
    assert all(set(row) == {0, 1, 2} for row in zip(*first, strict=True))


@pytest.mark.parametrize("observation", ["pixels", "symbols"])
def test_state_continues_exactly_in_another_environment(observation):
    envs = CrafterVectorEnv(3, LEVELS, observation, sample_levels=True)
    envs.reset(seed=3)
    all_actions = sample_actions(3, 60)
    for actions in all_actions[:25]:
        envs.step(actions)
    state = envs.get_state()
    other = CrafterVectorEnv(3, None, observation)
    assert np.array_equal(other.set_state(state), envs.set_state(state))
    for actions in all_actions[25:]:
        result, other_result = envs.step(actions), other.step(actions)
        for array, other_array in zip(result[:4], other_result[:4], strict=True):
            assert np.array_equal(array, other_array)
        assert np.array_equal(result[4]["seed"], other_result[4]["seed"])


@pytest.mark.parametrize("kwargs", [{"num_envs": 3}, {"size": 84}, {"observation": "pixels"}])
def test_state_of_another_shape_is_rejected(kwargs):
    state = CrafterVectorEnv(2, None, "symbols").get_state()
    with pytest.raises(
        ValueError, match=r"snapshot has 2 environments .* 64 x 64 and observations of 145 bytes; expected"
    ):
        CrafterVectorEnv(**{"num_envs": 2, "observation": "symbols", **kwargs}).set_state(state)


def test_state_continues_with_partial_resets():
    envs = CrafterVectorEnv(2, None, "symbols", autoreset_mode="Disabled")
    envs.reset(seed=5)
    envs.step([1, 2])
    other = CrafterVectorEnv(2, None, "symbols", autoreset_mode="Disabled")
    other.set_state(envs.get_state())
    mask = {"reset_mask": np.array([True, False])}
    infos, other_infos = envs.reset(options=mask)[1], other.reset(options=mask)[1]
    assert all(np.array_equal(infos[key], other_infos[key]) for key in infos)


def test_more_levels_than_environments_raises():
    with pytest.raises(ValueError, match="3 levels for 2 environments: some levels would never be played"):
        CrafterVectorEnv(2, LEVELS, "symbols")
    CrafterVectorEnv(2, LEVELS, "symbols", sample_levels=True)


def test_step_before_the_first_reset_raises():
    envs = CrafterVectorEnv(2, None, "symbols")
    envs.reset(seed=7, options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match="environment 1 has not started"):
        envs.step([0, 0])


def test_pickled_copy_is_independent():
    envs = CrafterVectorEnv(4, None, "symbols", threads=2)
    envs.reset(seed=0)
    copy = pickle.loads(pickle.dumps(envs))
    for actions in sample_actions(4, 20):
        assert np.array_equal(envs.step(actions)[0], copy.step(actions)[0])


def test_full_entity_array_grows_without_side_effects():
    crowded = {"cows": "very common", "biome": "grassland", "trees": "none", "water": "none", "near": {"cows": 4}}
    big, small = (CrafterVectorEnv(2, crowded, "symbols") for _ in range(2))
    small.engine.state = small.engine.state._replace(entities=small.engine.state.entities[:, :16].copy())
    assert np.array_equal(big.reset(seed=2)[0], small.reset(seed=2)[0])
    for _ in range(40):
        action = expert_actions(big.engine)
        assert np.array_equal(big.step(action)[0], small.step(action)[0])
    count = big.engine.state.envs["num_entities"]
    assert np.array_equal(count, small.engine.state.envs["num_entities"])
    assert small.engine.state.entities.shape[1] > count.max() > 200
    assert np.array_equal(big.engine.state.entities[0, : count[0]], small.engine.state.entities[0, : count[0]])


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0], r"must be 2 integers, not int64 of shape \(1,\)"),
        ([0, 17], "action 17 of environment 1"),
        ([-1, 0], "action -1 of environment 0"),
        ([0.0, 1.0], "not float64"),
    ],
)
def test_invalid_actions_raise_and_change_nothing(actions, message):
    envs = CrafterVectorEnv(2, None, "symbols")
    envs.reset(seed=0)
    before = envs.engine.state.envs.copy()
    with pytest.raises(ValueError, match=message):
        envs.step(actions)
    assert np.array_equal(envs.engine.state.envs, before)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [({"num_envs": 0}, "num_envs"), ({"threads": 0}, "threads"), ({"autoreset_mode": "same_step"}, "SameStep")],
)
def test_invalid_arguments_raise(kwargs, message):
    with pytest.raises(ValueError, match=message):
        CrafterVectorEnv(**{"num_envs": 2, **kwargs})


def test_invalid_seeds_raise():
    envs = CrafterVectorEnv(2, None, "symbols")
    with pytest.raises(ValueError, match="3 seeds for 2 environments"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ResetNeeded):
        envs.step([0, 0])


def test_close_is_idempotent_and_final():
    envs = CrafterVectorEnv(64, None, "symbols", threads=2, render_mode="rgb_array")
    envs.reset(seed=0)
    assert len(envs.render()) == 64
    envs.close()
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(np.zeros(64, int))


def test_memory_per_environment_is_below_40_kb():
    from envgen.worlds.crafter.engine import Engine

    engine = Engine(4, [CrafterLevel()], False, threads=1)
    assert engine.bytes_per_environment() < 40_000


@pytest.mark.parametrize("levels", [None, (), {"trees": "none"}, CrafterLevel(trees="none"), '{"trees": "none"}'])
def test_make_accepts_a_single_level(levels):
    envs = Crafter().make(levels, observation="symbols")
    assert envs.num_envs == 1
    assert envs.levels[0].trees == ("none" if levels else CrafterLevel().trees)
    assert Crafter().make(levels, num_envs=20).num_envs == 20


def test_infos_of_environments_without_an_episode_are_masked():
    envs = Crafter().make([], num_envs=3, observation="symbols")
    _, infos = envs.reset(seed=0, options={"reset_mask": np.array([True, False, True])})
    assert infos["_level"].tolist() == infos["_seed"].tolist() == [True, False, True]
