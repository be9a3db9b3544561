"""Many Heists at once do what each of them would do alone, in the original's order."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode

import envgen  # noqa: F401  registers the environments
from envgen.worlds.heist.env import HeistEnv
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.heist.vector import HeistVectorEnv

LEVELS = [
    HeistLevel(length=9),
    HeistLevel(mode="easy", keys="none", start="gem", length=12),
    HeistLevel(mode="memory", length=7),
]
NOTHING = 4


def actions_of(n: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 15, (steps, n))


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
@pytest.mark.parametrize("threads", [1, 3])
def test_each_environment_equals_one_alone(observation, threads):
    envs = HeistVectorEnv(5, LEVELS, observation, threads=threads)
    alone = [HeistEnv(LEVELS[i % 3], observation) for i in range(5)]
    seen, infos = envs.reset(seed=40)
    for i, env in enumerate(alone):
        mine, info = env.reset(seed=40 + i)
        assert np.array_equal(seen[i], mine)
        assert infos["seed"][i] == info["seed"]
    for actions in actions_of(5, 40):
        seen, rewards, terminated, truncated, infos = envs.step(actions)
        for i, env in enumerate(alone):
            mine, reward, stolen, over, info = env.step(actions[i])
            assert (rewards[i], terminated[i], truncated[i]) == (reward, stolen, over)
            if stolen or over:
                assert np.array_equal(infos["final_obs"][i], mine)
                last = infos["final_info"]
                assert last["achievements"][i].tolist() == list(info["achievements"].values())
                assert last["possible"][i].tolist() == list(info["possible"].values())
                assert last["seed"][i] == info["seed"]
                mine, info = env.reset()
            assert np.array_equal(seen[i], mine)
            assert infos["seed"][i] == info["seed"]
            assert infos["shortest_path"][i] == info["shortest_path"]
            assert infos["keys"][i].tolist() == list(info["keys"].values())
            assert envs.levels[infos["level"][i]] == LEVELS[i % 3]
    envs.close()


def test_the_gem_ends_an_episode_with_its_reward_and_the_next_one_is_seen_at_once():
    envs = HeistVectorEnv(3, {"mode": "easy"}, "symbols")
    _, infos = envs.reset(seed=0)
    number = infos["episode_number"].copy()
    for _ in range(300):
        _, reward, terminated, _, infos = envs.step(expert_actions(envs.engine))
        assert (reward == 10 * terminated).all()
        number += terminated
        assert (infos["episode_number"] == number).all()
        assert (infos["episode_length"][terminated] == 0).all()
        if terminated.any():
            last = infos["final_info"]
            assert (last["episode_return"][terminated] == 10).all()
            assert (last["achievements"][terminated, -1] == 1).all()
    assert (number > 3).all()


def test_a_seed_is_the_originals_and_so_are_its_ranges_of_levels():
    envs = HeistVectorEnv(4, None, "symbols")
    theirs = np.random.RandomState(5).randint(0, 2**32, 4, dtype=np.uint32)  # each seeds an environment's stream
    _, infos = envs.reset(options={"rand_seed": 5})
    first = [np.random.RandomState(seed).randint(0, 2**32, dtype=np.uint32) % (2**31 - 1) for seed in theirs]
    assert infos["seed"].tolist() == first
    assert envs.reset(seed=[5, 6, 7, 8])[1]["seed"][0] == first[0]
    few = HeistVectorEnv(40, None, "symbols", num_levels=3, start_level=70)
    seeds = few.reset(seed=0)[1]["seed"]
    assert set(seeds.tolist()) == {70, 71, 72}
    only = HeistEnv(observation="symbols", num_levels=1, start_level=876640971)
    assert only.reset(seed=1)[1]["seed"] == only.reset()[1]["seed"] == 876640971


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"num_levels": -1}, "num_levels must be a whole number from 0, not -1"),
        ({"start_level": 2.5}, "start_level must be"),
        ({"num_levels": 2**31}, "is more than 2147483647"),
        ({"num_envs": 0}, "num_envs"),
        ({"threads": 0}, "threads"),
        ({"autoreset_mode": "same_step"}, "SameStep"),
        ({"actions": "move"}, "did you mean 'moves'"),
        ({"skin": "procgem"}, "did you mean 'procgen'"),
        ({"observation": "pixel"}, "did you mean 'pixels'"),
        ({"render_mode": "humann"}, "did you mean 'human'"),
        ({"render_size": 0}, "not a picture size"),
        ({"level": [{}, {}, {}]}, "3 levels for 2 environments: some would never be played"),
    ],
)
def test_wrong_arguments_are_named(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        HeistVectorEnv(**{"num_envs": 2, **wrong})


def test_seeding_in_two_ways_at_once_is_refused():
    with pytest.raises(ValueError, match="rand_seed seeds all"):
        HeistVectorEnv(2, None, "symbols").reset(seed=1, options={"rand_seed": 1})


def test_next_step_autoreset_begins_anew_one_step_later():
    envs = HeistVectorEnv(2, {"length": 3}, "symbols", autoreset_mode=AutoresetMode.NEXT_STEP)
    _, infos = envs.reset(seed=1)
    seed = infos["seed"].copy()
    for _ in range(3):
        _, _, _, truncated, infos = envs.step([NOTHING] * 2)
    assert truncated.all()
    assert infos["seed"].tolist() == seed.tolist()
    _, rewards, _, truncated, infos = envs.step([7, 7])
    assert not truncated.any()
    assert not rewards.any()
    assert (infos["seed"] != seed).all()


def test_without_autoreset_only_marked_environments_begin_anew():
    envs = HeistVectorEnv(2, [{"length": 2}, {"length": 5}], "symbols", autoreset_mode="Disabled")
    envs.reset(seed=1)
    envs.step([0, 0])
    assert envs.step([0, 0])[3].tolist() == [True, False]
    with pytest.raises(ResetNeeded, match="environment 0 has ended"):
        envs.step([0, 0])
    _, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    assert infos["episode_number"].tolist() == [2, 1]
    assert infos["episode_length"].tolist() == [0, 2]


def test_levels_are_replaced_between_episodes_and_stay_named():
    envs = HeistVectorEnv(2, {"length": 3}, "symbols")
    envs.reset(seed=1)
    envs.step([0, 0])
    envs.set_levels([{"length": 2}, {"length": 3}])
    envs.step([0, 0])
    *_, infos = envs.step([0, 0])
    assert [envs.levels[k].length for k in infos["final_info"]["level"]] == [3, 3]
    assert [envs.levels[k].length for k in infos["level"]] == [2, 3]


def test_drawn_levels_are_all_played_and_repeatable():
    def drawn():
        envs = HeistVectorEnv(4, LEVELS, "symbols", draw_levels=True)
        _, infos = envs.reset(seed=9)
        played = [infos["level"].tolist()]
        for actions in actions_of(4, 200):
            *_, infos = envs.step(actions)
            played.append(infos["level"].tolist())
        return played

    first = drawn()
    assert first == drawn()
    assert all(set(row) == {0, 1, 2} for row in zip(*first, strict=True))


@pytest.mark.parametrize("observation", ["pixels", "symbols"])
def test_a_state_continues_exactly_in_another_environment(observation):
    envs = HeistVectorEnv(3, [{"mode": "easy"}, {}, {"mode": "memory"}], observation, draw_levels=True)
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
        for mine, theirs in zip(a[:4], b[:4], strict=True):
            assert np.array_equal(mine, theirs), k
        assert np.array_equal(a[4]["seed"], b[4]["seed"])


def test_a_state_of_another_shape_is_refused():
    state = HeistVectorEnv(2, None, "symbols").get_state()
    with pytest.raises(ValueError, match="snapshot is of 2 environments"):
        HeistVectorEnv(3, None, "symbols").set_state(state)


def test_the_moves_alone_can_be_had():
    envs = HeistVectorEnv(2, None, "symbols", actions="moves")
    assert envs.single_action_space.n == 9
    whole = HeistVectorEnv(2, None, "symbols")
    a, b = envs.reset(seed=2)[0], whole.reset(seed=2)[0]
    for actions in np.random.default_rng(1).integers(0, 9, (50, 2)):
        a, b = envs.step(actions)[0], whole.step(actions)[0]
        assert np.array_equal(a, b)
    with pytest.raises(ValueError, match="action 9 of environment 0 is not one of 0 to 8"):
        envs.step([9, 0])


def test_the_six_special_actions_do_nothing():
    envs = HeistVectorEnv(7, None, "symbols")
    envs.reset(seed=[3] * 7)
    for k in range(40):
        seen = envs.step([7, *[7] * 6] if k < 5 else [NOTHING, *range(9, 15)])[0]
        assert (seen == seen[0]).all()


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        ([0], r"must be 2 whole numbers, not int64 of shape \(1,\)"),
        ([0, 15], "action 15 of environment 1"),
        ([-1, 0], "action -1 of environment 0"),
        ([0.0, 1.0], "not float64"),
    ],
)
def test_wrong_actions_never_reach_the_kernel(actions, sentence):
    envs = HeistVectorEnv(2, None, "symbols")
    envs.reset(seed=0)
    before = envs.engine.envs.copy()
    with pytest.raises(ValueError, match=sentence):
        envs.step(actions)
    assert np.array_equal(envs.engine.envs, before)


def test_an_environment_that_has_not_begun_is_not_stepped():
    envs = HeistVectorEnv(2, None, "symbols")
    envs.reset(seed=7, options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match="environment 1 has not begun"):
        envs.step([0, 0])


def test_a_copy_goes_its_own_way():
    envs = HeistVectorEnv(4, None, "pixels", threads=2)
    envs.reset(seed=0)
    copy = pickle.loads(pickle.dumps(envs))
    for actions in actions_of(4, 20):
        assert np.array_equal(envs.step(actions)[0], copy.step(actions)[0])


def test_it_is_registered_and_says_how_it_begins_anew():
    envs = gymnasium.make_vec("envgen/Heist-v0", num_envs=2, observation="symbols", level={"mode": "easy"})
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.single_action_space.n == 15
    seen, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(seen)


def test_closing_twice_is_harmless_and_final():
    envs = HeistVectorEnv(8, None, "symbols", threads=2, render_mode="rgb_array", render_size=64)
    envs.reset(seed=0)
    assert len(envs.render()) == 8
    envs.close()
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(np.zeros(8, int))


def test_an_environment_takes_at_most_forty_kilobytes():
    assert HeistVectorEnv(4, None, "pixels").engine.bytes_per_environment() < 40_000
