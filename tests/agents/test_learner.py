"""The learner contract: state and load continue training bit for bit, environments in mid-episode included."""

import numpy as np
import pytest
import torch

from envgen.agents.learner import LEARNERS, learner_class, make_learner
from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.worlds.crafter.env import CrafterVectorEnv

SMALL = PpoSettings(num_envs=2, num_steps=10, update_epochs=2, num_minibatches=2)
NUM_UPDATES = 5
STEPS = 2 * 10 * NUM_UPDATES


def make_envs(observation: str = "symbols") -> CrafterVectorEnv:
    return CrafterVectorEnv(2, {"length": 17}, observation)


def assert_same_state(learner: PPO, other: PPO) -> None:
    (arrays, values), (other_arrays, other_values) = learner.state(), other.state()
    assert values == other_values
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)


@pytest.mark.parametrize("observation", ["symbols", "pixels"])
@pytest.mark.parametrize("async_collect", [False, True])
def test_resuming_after_any_update_gives_the_same_result(observation, async_collect):
    settings = SMALL.model_copy(update={"async_collect": async_collect})
    envs = make_envs(observation)
    uninterrupted, states, episodes = PPO.for_envs(envs, settings=settings, seed=1), [], []

    def on_update(result):
        states.append(uninterrupted.state())
        episodes.append(result.episodes.state())

    uninterrupted.train(envs, STEPS, on_update, seed=4)
    assert len(states) == NUM_UPDATES
    for k in (0, 2, NUM_UPDATES - 1) if observation == "symbols" else (1,):
        envs, resumed_episodes = make_envs(observation), []
        resumed = PPO.for_envs(envs, settings=settings, seed=99)  # load must restore everything the seed sets
        resumed.load(*states[k], envs)
        resumed.train(envs, STEPS, lambda result, e=resumed_episodes: e.append(result.episodes.state()), resume=True)
        assert_same_state(uninterrupted, resumed)
        for actual, expected in zip(resumed_episodes, episodes[k + 1 :], strict=True):
            assert all(np.array_equal(actual[name], expected[name]) for name in expected)


def test_state_between_phases_needs_no_environments():
    envs = make_envs()
    learner = PPO.for_envs(envs, settings=SMALL)
    learner.train(envs, 40, seed=0)
    restored = PPO.for_envs(envs, settings=SMALL, seed=7)
    restored.load(*learner.state())
    for each in (learner, restored):
        each.train(make_envs(), 40, seed=3)
    assert_same_state(learner, restored)


def test_state_is_a_copy():
    envs = make_envs()
    learner = PPO.for_envs(envs, settings=SMALL)
    learner.train(envs, 20, seed=0)
    arrays, _ = learner.state()
    before = {name: array.copy() for name, array in arrays.items()}
    learner.train(envs, 40, seed=0)
    assert all(np.array_equal(array, before[name]) for name, array in arrays.items())


def test_state_with_other_settings_is_refused():
    envs = make_envs()
    state = PPO.for_envs(envs, settings=SMALL).state()
    with pytest.raises(ValueError, match=r"saved with other settings: gamma was 0.95 and is now 0.9$"):
        PPO.for_envs(envs, settings=SMALL.model_copy(update={"gamma": 0.9})).load(*state)


def test_resume_without_a_loaded_state_is_refused():
    envs = make_envs()
    with pytest.raises(ValueError, match="no training to resume"):
        PPO.for_envs(envs, settings=SMALL).train(envs, 40, resume=True)


def test_seed_determines_the_learner_whatever_the_global_rng():
    torch.manual_seed(123)
    learner = PPO.for_envs(make_envs(), settings=SMALL, seed=5)
    torch.manual_seed(456)
    assert_same_state(learner, PPO.for_envs(make_envs(), settings=SMALL, seed=5))


def test_make_learner_applies_overrides_to_the_defaults_of_the_observation():
    learner = make_learner("ppo", make_envs(), {"gamma": 0.9}, seed=3)
    assert isinstance(learner, PPO)
    assert learner.settings == PPO.settings_for(make_envs().single_observation_space, gamma=0.9)
    assert learner.settings.num_envs == 128
    assert_same_state(learner, PPO.for_envs(make_envs(), settings=learner.settings, seed=3))


def test_make_learner_accepts_a_class():
    class MyLearner(PPO):
        pass

    assert type(make_learner(MyLearner, make_envs())) is MyLearner
    assert learner_class("ppo") is LEARNERS["ppo"] is PPO


def test_unknown_learner_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="learner 'ppp' is not one of ppo; did you mean 'ppo'"):
        make_learner("ppp", make_envs())
