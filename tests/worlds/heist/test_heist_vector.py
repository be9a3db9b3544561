"""The vector environment: equality with single environments, autoreset, levels, seeds and state."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode

import envgen  # noqa: F401  registers the environments
from envgen.worlds.heist.env import HeistEnv, HeistVectorEnv
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.level import HeistLevel

LEVELS = [
    HeistLevel(length=9),
    HeistLevel(mode="easy", keys="none", start="gem", length=12),
    HeistLevel(mode="memory", length=7),
]
NOOP = 4


def random_actions(num_envs: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 15, (steps, num_envs))


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
@pytest.mark.parametrize("threads", [1, 3])
def test_vector_env_equals_single_envs(observation, threads):
    envs = HeistVectorEnv(5, LEVELS, observation, threads=threads)
    singles = [HeistEnv(LEVELS[i % 3], observation) for i in range(5)]
    obs, infos = envs.reset(seed=40)
    for i, env in enumerate(singles):
        single_obs, info = env.reset(seed=40 + i)
        assert np.array_equal(obs[i], single_obs)
        assert infos["seed"][i] == info["seed"]
    for actions in random_actions(5, 40):
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        for i, env in enumerate(singles):
            single_obs, reward, is_terminated, is_truncated, info = env.step(actions[i])
            assert (rewards[i], terminated[i], truncated[i]) == (reward, is_terminated, is_truncated)
            if is_terminated or is_truncated:
                assert np.array_equal(infos["final_obs"][i], single_obs)
                final_info = infos["final_info"]
                assert final_info["achievements"][i].tolist() == list(info["achievements"].values())
                assert final_info["possible"][i].tolist() == list(info["possible"].values())
                assert final_info["seed"][i] == info["seed"]
                single_obs, info = env.reset()
            assert np.array_equal(obs[i], single_obs)
            assert infos["seed"][i] == info["seed"]
            assert infos["shortest_path"][i] == info["shortest_path"]
            assert infos["held_keys"][i].tolist() == list(info["held_keys"].values())
            assert envs.levels[infos["level"][i]] == LEVELS[i % 3]
    envs.close()


def test_stealing_the_gem_ends_the_episode_and_autoresets():
    envs = HeistVectorEnv(3, {"mode": "easy"}, "symbols")
    _, infos = envs.reset(seed=0)
    expected_number = infos["episode_number"].copy()
    for _ in range(300):
        _, reward, terminated, _, infos = envs.step(expert_actions(envs.engine))
        assert (reward == 10 * terminated).all()
        expected_number += terminated
        assert (infos["episode_number"] == expected_number).all()
        assert (infos["episode_length"][terminated] == 0).all()
        if terminated.any():
            final_info = infos["final_info"]
            assert (final_info["episode_return"][terminated] == 10).all()
            assert (final_info["achievements"][terminated, -1] == 1).all()
    assert (expected_number > 3).all()


def test_seeds_match_the_reference():
    envs = HeistVectorEnv(4, None, "symbols")
    stream_seeds = np.random.RandomState(5).randint(0, 2**32, 4, dtype=np.uint32)  # one per environment
    _, infos = envs.reset(options={"rand_seed": 5})
    level_seeds = [
        np.random.RandomState(seed).randint(0, 2**32, dtype=np.uint32) % (2**31 - 1) for seed in stream_seeds
    ]
    assert infos["seed"].tolist() == level_seeds
    assert envs.reset(seed=[5, 6, 7, 8])[1]["seed"][0] == level_seeds[0]
    restricted = HeistVectorEnv(40, None, "symbols", num_levels=3, start_level=70)
    seeds = restricted.reset(seed=0)[1]["seed"]
    assert set(seeds.tolist()) == {70, 71, 72}
    env = HeistEnv(observation="symbols", num_levels=1, start_level=876640971)
    assert env.reset(seed=1)[1]["seed"] == env.reset()[1]["seed"] == 876640971


def test_a_refused_reset_changes_nothing():
    envs, other = HeistVectorEnv(4, None, "symbols"), HeistVectorEnv(4, None, "symbols")
    for each in (envs, other):
        each.reset(options={"rand_seed": 5})
    with pytest.raises(ValueError, match="'x'"):
        envs.reset(options={"rand_seed": 6, "x": 1})
    assert np.array_equal(envs.reset()[1]["seed"], other.reset()[1]["seed"])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_levels": -1}, "num_levels must be an integer of at least 0, not -1"),
        ({"start_level": 2.5}, "start_level must be"),
        ({"num_levels": 2**31}, "must not exceed 2147483647"),
        ({"num_envs": 0}, "num_envs"),
        ({"threads": 0}, "threads"),
        ({"autoreset_mode": "same_step"}, "SameStep"),
        ({"actions": "move"}, "did you mean 'moves'"),
        ({"skin": "procgem"}, "did you mean 'procgen'"),
        ({"observation": "pixel"}, "did you mean 'pixels'"),
        ({"render_mode": "humann"}, "did you mean 'human'"),
        ({"render_size": 0}, "not an image size"),
        ({"levels": [{}, {}, {}]}, "3 levels for 2 environments: some levels would never be played"),
    ],
)
def test_invalid_arguments_are_rejected_by_name(kwargs, message):
    with pytest.raises(ValueError, match=message):
        HeistVectorEnv(**{"num_envs": 2, **kwargs})


def test_seed_and_rand_seed_are_mutually_exclusive():
    with pytest.raises(ValueError, match="rand_seed seeds all"):
        HeistVectorEnv(2, None, "symbols").reset(seed=1, options={"rand_seed": 1})


def test_next_step_autoreset_resets_one_step_later():
    envs = HeistVectorEnv(2, {"length": 3}, "symbols", autoreset_mode=AutoresetMode.NEXT_STEP)
    _, infos = envs.reset(seed=1)
    seed = infos["seed"].copy()
    for _ in range(3):
        _, _, _, truncated, infos = envs.step([NOOP] * 2)
    assert truncated.all()
    assert infos["seed"].tolist() == seed.tolist()
    _, rewards, _, truncated, infos = envs.step([7, 7])
    assert not truncated.any()
    assert not rewards.any()
    assert (infos["seed"] != seed).all()


def test_disabled_autoreset_resets_only_masked_environments():
    envs = HeistVectorEnv(2, [{"length": 2}, {"length": 5}], "symbols", autoreset_mode="Disabled")
    envs.reset(seed=1)
    envs.step([0, 0])
    assert envs.step([0, 0])[3].tolist() == [True, False]
    with pytest.raises(ResetNeeded, match="environment 0 has ended"):
        envs.step([0, 0])
    _, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    assert infos["episode_number"].tolist() == [2, 1]
    assert infos["episode_length"].tolist() == [0, 2]


def test_set_levels_applies_from_the_next_episode():
    envs = HeistVectorEnv(2, {"length": 3}, "symbols")
    envs.reset(seed=1)
    envs.step([0, 0])
    envs.set_levels([{"length": 2}, {"length": 3}])
    envs.step([0, 0])
    *_, infos = envs.step([0, 0])
    assert [envs.levels[k].length for k in infos["final_info"]["level"]] == [3, 3]
    assert [envs.levels[k].length for k in infos["level"]] == [2, 3]


def test_random_levels_are_reproducible_and_all_played():
    def collect_levels():
        envs = HeistVectorEnv(4, LEVELS, "symbols", sample_levels=True)
        _, infos = envs.reset(seed=9)
        played_levels = [infos["level"].tolist()]
        for actions in random_actions(4, 200):
            *_, infos = envs.step(actions)
            played_levels.append(infos["level"].tolist())
        return played_levels

    first = collect_levels()
    assert first == collect_levels()
    assert all(set(row) == {0, 1, 2} for row in zip(*first, strict=True))


@pytest.mark.parametrize("observation", ["pixels", "symbols"])
def test_state_round_trip_continues_exactly(observation):
    envs = HeistVectorEnv(3, [{"mode": "easy"}, {}, {"mode": "memory"}], observation, sample_levels=True)
    envs.reset(seed=3)
    for _ in range(25):
        envs.step(expert_actions(envs.engine))
    state = envs.get_state()
    other = HeistVectorEnv(3, None, observation)
    assert np.array_equal(other.set_state(state), envs.set_state(state))
    for k in range(60):
        actions = expert_actions(envs.engine)
        assert np.array_equal(actions, expert_actions(other.engine))
        a, b = envs.step(actions), other.step(actions)
        for result, other_result in zip(a[:4], b[:4], strict=True):
            assert np.array_equal(result, other_result), k
        assert np.array_equal(a[4]["seed"], b[4]["seed"])


def test_set_state_rejects_another_number_of_environments():
    state = HeistVectorEnv(2, None, "symbols").get_state()
    with pytest.raises(ValueError, match="snapshot has 2 environments"):
        HeistVectorEnv(3, None, "symbols").set_state(state)


def test_moves_only_action_space():
    envs = HeistVectorEnv(2, None, "symbols", actions="moves")
    assert envs.single_action_space.n == 9
    all_actions = HeistVectorEnv(2, None, "symbols")
    a, b = envs.reset(seed=2)[0], all_actions.reset(seed=2)[0]
    for actions in np.random.default_rng(1).integers(0, 9, (50, 2)):
        a, b = envs.step(actions)[0], all_actions.step(actions)[0]
        assert np.array_equal(a, b)
    with pytest.raises(ValueError, match="action 9 of environment 0 is not an integer from 0 to 8"):
        envs.step([9, 0])


def test_the_six_special_actions_do_nothing():
    envs = HeistVectorEnv(7, None, "symbols")
    envs.reset(seed=[3] * 7)
    for k in range(40):
        obs = envs.step([7, *[7] * 6] if k < 5 else [NOOP, *range(9, 15)])[0]
        assert (obs == obs[0]).all()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0], r"must be 2 integers, not int64 of shape \(1,\)"),
        ([0, 15], "action 15 of environment 1"),
        ([-1, 0], "action -1 of environment 0"),
        ([0.0, 1.0], "not float64"),
    ],
)
def test_invalid_actions_never_reach_the_kernel(actions, message):
    envs = HeistVectorEnv(2, None, "symbols")
    envs.reset(seed=0)
    before = envs.engine.envs.copy()
    with pytest.raises(ValueError, match=message):
        envs.step(actions)
    assert np.array_equal(envs.engine.envs, before)


def test_step_requires_all_environments_to_be_reset():
    envs = HeistVectorEnv(2, None, "symbols")
    envs.reset(seed=7, options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match="environment 1 has not started"):
        envs.step([0, 0])


def test_pickled_copy_continues_identically():
    envs = HeistVectorEnv(4, None, "pixels", threads=2)
    envs.reset(seed=0)
    copy = pickle.loads(pickle.dumps(envs))
    for actions in random_actions(4, 20):
        assert np.array_equal(envs.step(actions)[0], copy.step(actions)[0])


def test_env_is_registered_with_same_step_autoreset():
    envs = gymnasium.make_vec("envgen/Heist-v0", num_envs=2, observation="symbols", levels={"mode": "easy"})
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.single_action_space.n == 15
    obs, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(obs)


def test_close_is_idempotent_and_final():
    envs = HeistVectorEnv(8, None, "symbols", threads=2, render_mode="rgb_array", render_size=64)
    envs.reset(seed=0)
    assert len(envs.render()) == 8
    envs.close()
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(np.zeros(8, int))


def test_memory_per_environment_is_below_40_kilobytes():
    assert HeistVectorEnv(4, None, "pixels").engine.bytes_per_environment() < 40_000
