"""Many environments at once do what each of them would do alone."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode

import envgen  # noqa: F401  registers the environments
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.vector import CrafterVectorEnv

LEVELS = [CrafterLevel(length=9), CrafterLevel(biome="beach", length=7), CrafterLevel(trees="rare", length=12)]


def actions_of(n: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 17, (steps, n))


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
@pytest.mark.parametrize("threads", [1, 3])
def test_each_environment_equals_one_alone(observation, threads):
    envs = CrafterVectorEnv(5, LEVELS, observation, threads=threads)
    alone = [CrafterEnv(LEVELS[i % 3], observation) for i in range(5)]
    seen, infos = envs.reset(seed=40)
    for i, env in enumerate(alone):
        mine, info = env.reset(seed=40 + i)
        assert np.array_equal(seen[i], mine)
        assert infos["seed"][i] == info["seed"]
    for actions in actions_of(5, 40):
        seen, rewards, terminated, truncated, infos = envs.step(actions)
        for i, env in enumerate(alone):
            mine, reward, dead, over, info = env.step(actions[i])
            assert (rewards[i], terminated[i], truncated[i]) == (reward, dead, over)
            if dead or over:
                assert np.array_equal(infos["final_obs"][i], mine)
                last = infos["final_info"]
                assert last["achievements"][i].tolist() == list(info["achievements"].values())
                assert last["seed"][i] == info["seed"]
                assert last["episode_length"][i] == LEVELS[i % 3].length or dead
                mine, info = env.reset()
            assert np.array_equal(seen[i], mine)
            assert infos["seed"][i] == info["seed"]
            assert envs.levels[infos["level"][i]] == LEVELS[i % 3]
    envs.close()


def test_final_observations_are_masked_to_the_episodes_that_ended():
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


def test_next_step_autoreset_begins_anew_one_step_later():
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


def test_without_autoreset_only_marked_environments_begin_anew():
    envs = CrafterVectorEnv(2, [{"length": 2}, {"length": 5}], "symbols", autoreset_mode="Disabled")
    envs.reset(seed=1)
    envs.step([0, 0])
    assert envs.step([0, 0])[3].tolist() == [True, False]
    with pytest.raises(ResetNeeded, match="environment 0 has ended"):
        envs.step([0, 0])
    _, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    assert infos["episode_number"].tolist() == [2, 1]
    assert infos["episode_length"].tolist() == [0, 2]


def test_the_mode_of_autoreset_is_declared():
    envs = gymnasium.make_vec("envgen/Crafter-v0", num_envs=2, observation="symbols", level={"water": "rare"})
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.observation_space.shape == (2, 145)
    seen, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(seen)


def test_levels_are_replaced_between_episodes_and_stay_named():
    envs = CrafterVectorEnv(2, {"length": 3}, "symbols")
    envs.reset(seed=1)
    envs.step([0, 0])
    envs.set_levels([{"length": 2}, {"length": 3}])
    *_, infos = envs.step([0, 0])
    assert [envs.levels[k].length for k in infos["level"]] == [3, 3]  # these episodes go on as they began
    *_, infos = envs.step([0, 0])
    assert [envs.levels[k].length for k in infos["final_info"]["level"]] == [3, 3]
    assert [envs.levels[k].length for k in infos["level"]] == [2, 3]


def test_drawn_levels_are_all_played_and_repeatable():
    def drawn():
        envs = CrafterVectorEnv(4, LEVELS, "symbols", draw_levels=True)
        _, infos = envs.reset(seed=9)
        played = [infos["level"].tolist()]
        for actions in actions_of(4, 300):
            *_, infos = envs.step(actions)
            played.append(infos["level"].tolist())
        return played

    first = drawn()
    assert first == drawn()
    assert all(set(row) == {0, 1, 2} for row in zip(*first, strict=True))


@pytest.mark.parametrize("observation", ["pixels", "symbols"])
def test_a_state_continues_exactly_in_another_environment(observation):
    envs = CrafterVectorEnv(3, LEVELS, observation, draw_levels=True)
    envs.reset(seed=3)
    plan = actions_of(3, 60)
    for actions in plan[:25]:
        envs.step(actions)
    state = envs.get_state()
    other = CrafterVectorEnv(3, None, observation)
    assert np.array_equal(other.set_state(state), envs.set_state(state))
    for actions in plan[25:]:
        a, b = envs.step(actions), other.step(actions)
        for mine, theirs in zip(a[:4], b[:4], strict=True):
            assert np.array_equal(mine, theirs)
        assert np.array_equal(a[4]["seed"], b[4]["seed"])


@pytest.mark.parametrize("other", [{"num_envs": 3}, {"size": 84}, {"observation": "pixels"}])
def test_a_state_of_another_shape_is_refused(other):
    state = CrafterVectorEnv(2, None, "symbols").get_state()
    with pytest.raises(ValueError, match=r"snapshot is of 2 environments .* 64 x 64 that observe 145 bytes; here are"):
        CrafterVectorEnv(**{"num_envs": 2, "observation": "symbols", **other}).set_state(state)


def test_a_state_continues_also_where_only_some_begin_anew():
    envs = CrafterVectorEnv(2, None, "symbols", autoreset_mode="Disabled")
    envs.reset(seed=5)
    envs.step([1, 2])
    other = CrafterVectorEnv(2, None, "symbols", autoreset_mode="Disabled")
    other.set_state(envs.get_state())
    mask = {"reset_mask": np.array([True, False])}
    a, b = envs.reset(options=mask)[1], other.reset(options=mask)[1]
    assert all(np.array_equal(a[key], b[key]) for key in a)


def test_every_level_is_played_or_refused():
    with pytest.raises(ValueError, match="3 levels for 2 environments: some would never be played"):
        CrafterVectorEnv(2, LEVELS, "symbols")
    CrafterVectorEnv(2, LEVELS, "symbols", draw_levels=True)


def test_an_environment_that_has_not_begun_is_not_stepped():
    envs = CrafterVectorEnv(2, None, "symbols")
    envs.reset(seed=7, options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match="environment 1 has not begun"):
        envs.step([0, 0])


def test_a_copy_goes_its_own_way():
    envs = CrafterVectorEnv(4, None, "symbols", threads=2)
    envs.reset(seed=0)
    copy = pickle.loads(pickle.dumps(envs))
    for actions in actions_of(4, 20):
        assert np.array_equal(envs.step(actions)[0], copy.step(actions)[0])


def test_a_list_of_things_that_gets_full_grows_and_nothing_changes():
    crowded = {"cows": "very common", "biome": "grassland", "trees": "none", "water": "none", "near": {"cows": 4}}
    big, small = (CrafterVectorEnv(2, crowded, "symbols") for _ in range(2))
    small.engine.state = small.engine.state._replace(entities=small.engine.state.entities[:, :16].copy())
    a, b = big.reset(seed=2), small.reset(seed=2)
    assert np.array_equal(a[0], b[0])
    for _ in range(40):
        action = expert_actions(big.engine)
        assert np.array_equal(big.step(action)[0], small.step(action)[0])
    count = big.engine.state.envs["num_entities"]
    assert np.array_equal(count, small.engine.state.envs["num_entities"])
    assert small.engine.state.entities.shape[1] > count.max() > 200
    assert np.array_equal(big.engine.state.entities[0, : count[0]], small.engine.state.entities[0, : count[0]])


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        ([0], r"must be 2 whole numbers, not int64 of shape \(1,\)"),
        ([0, 17], "action 17 of environment 1"),
        ([-1, 0], "action -1 of environment 0"),
        ([0.0, 1.0], "not float64"),
    ],
)
def test_wrong_actions_never_reach_the_kernel(actions, sentence):
    envs = CrafterVectorEnv(2, None, "symbols")
    envs.reset(seed=0)
    before = envs.engine.state.envs.copy()
    with pytest.raises(ValueError, match=sentence):
        envs.step(actions)
    assert np.array_equal(envs.engine.state.envs, before)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"num_envs": 0}, "num_envs"), ({"threads": 0}, "threads"), ({"autoreset_mode": "same_step"}, "SameStep")],
)
def test_wrong_counts_are_named(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        CrafterVectorEnv(**{"num_envs": 2, **wrong})


def test_wrong_seeds_are_refused():
    envs = CrafterVectorEnv(2, None, "symbols")
    with pytest.raises(ValueError, match="3 seeds for 2 environments"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ResetNeeded):
        envs.step([0, 0])


def test_closing_twice_is_harmless_and_final():
    envs = CrafterVectorEnv(64, None, "symbols", threads=2, render_mode="rgb_array")
    envs.reset(seed=0)
    assert len(envs.render()) == 64
    envs.close()
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(np.zeros(64, int))


def test_an_environment_takes_at_most_forty_kilobytes():
    from envgen.worlds.crafter.engine import Engine
    from envgen.worlds.crafter.observations import NO_OBSERVATION

    engine = Engine(4, [CrafterLevel()], False, NO_OBSERVATION, (64, 64), threads=1)
    assert engine.bytes_per_environment() < 40_000
