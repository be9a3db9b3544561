"""The learner contract: state and load continue training bit for bit, environments in mid-episode included."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import envgen
from envgen.agents.learner import LEARNERS, learner_class
from envgen.agents.parallel import ProcessGroup
from envgen.agents.policy import Policy
from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats, UpdateResult, VecEnvRunner
from envgen.agents.settings import HyperparameterError, LearnerSettings, NetworkSettings, PpoSettings
from envgen.curriculum.loop import train
from envgen.curriculum.plan import TrainingPlan
from envgen.curriculum.trainer import make_learner
from envgen.designers.baselines import NoDesigner
from envgen.errors import EnvgenError
from envgen.runs.store import read_progress
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.crafter.world import Crafter

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


NETWORKS = {
    "plain": NetworkSettings(),
    "memory": NetworkSettings(memory="gru", memory_size=8, history=True),
    "minimal memory": NetworkSettings(memory="mingru", memory_size=8),
}
SYMBOL_CASES = [("symbols", name) for name in NETWORKS]


@pytest.mark.parametrize(
    ("observation", "network", "async_collect"),
    [
        *((*case, is_async) for case in SYMBOL_CASES for is_async in (False, True)),
        ("pixels", "plain", False),
        pytest.param("pixels", "plain", True, marks=pytest.mark.slow),
    ],
)
def test_resuming_after_any_update_gives_the_same_result(observation, network, async_collect):
    changes = {"async_collect": async_collect, "network": NETWORKS[network], "sequence_length": 4,
               "final_learning_rate": 1e-5, "final_ent_coef": 0.0, "final_gamma": 0.99, "final_gae_lambda": 0.9,
               "anneal_steps": 80}  # fmt: skip
    settings = SMALL.model_copy(update=changes)
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
    with pytest.raises(ValueError, match=r"settings that this state was saved with: gamma was 0.95 and is now 0.9$"):
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


class RandomSettings(LearnerSettings):
    """Settings of the learner below."""


class RandomLearner:
    """The smallest learner: it acts at random and learns nothing."""

    def __init__(self, action_space: spaces.Discrete, settings: RandomSettings, seed: int):
        self.action_space, self.settings, self.seed = action_space, settings, seed
        self.process_group = ProcessGroup()
        self.steps = self.updates = 0
        self.runner: VecEnvRunner | None = None

    @property
    def policy(self) -> Policy:
        raise NotImplementedError

    @classmethod
    def settings_for(cls, observation_space, **overrides):
        return RandomSettings(**overrides)

    @classmethod
    def for_envs(cls, envs, settings=None, seed=0, device: Any = "cpu", compile=False, distributed=True):
        return cls(envs.single_action_space, settings or RandomSettings(), seed)

    def untrained_copy(self, seed):
        return type(self)(self.action_space, self.settings, seed)

    def act(self, obs, rng=None):
        return (rng or np.random.default_rng(self.seed)).integers(0, self.action_space.n, len(obs))

    def train(self, envs, steps, on_update=lambda result: None, seed=None, resume=False):
        runner = self.runner if resume and self.runner else VecEnvRunner(envs, seed)
        while self.steps < steps:
            episodes = EpisodeStats()
            for _ in range(50):
                runner.step(self.act(runner.obs, np.random.default_rng([self.seed, self.steps])), episodes)
                self.steps += envs.num_envs
            self.updates += 1
            on_update(UpdateResult(self.steps, {"policy_loss": 0.0}, episodes))

    def state(self):
        return {"weights": np.zeros(1)}, {"steps": self.steps, "updates": self.updates}

    def load(self, arrays, values, envs=None):
        self.steps, self.updates = values["steps"], values["updates"]


class LearnerOfAnOlderVersion(RandomLearner):
    """It knows nothing of the argument `distributed`, which training does not pass."""

    @classmethod
    def for_envs(cls, envs, settings=None, seed=0, device: Any = "cpu", compile=False):  # pyright: ignore
        return cls(envs.single_action_space, settings or RandomSettings(), seed)


@pytest.mark.parametrize("is_alone", [False, True])
def test_learners_are_made_without_the_argument_distributed(is_alone):
    learner: Any = LearnerOfAnOlderVersion
    assert make_learner(Crafter(), "symbols", learner, {"num_envs": 2}, alone=is_alone).settings.num_envs == 2


def test_another_learner_needs_its_class_and_an_entry_in_learners(tmp_path, monkeypatch):
    """The training loop runs, saves and evaluates it knowing only the contract."""
    monkeypatch.setitem(LEARNERS, "random", RandomLearner)
    plan = TrainingPlan(cycles=0, final_steps=400, episodes=2)
    summary = train(tmp_path, Crafter(), NoDesigner(), plan, learner="random", learner_settings={"num_envs": 2})
    assert summary.final.episodes == 2
    lines = list(read_progress(tmp_path))
    assert [line["steps"] for line in lines] == [100, 200, 300, 400]
    assert train(  # finished: nothing is trained again
        tmp_path, Crafter(), NoDesigner(), plan, learner="random", learner_settings={"num_envs": 2}
    ) == summary  # fmt: skip


def test_wrong_settings_of_another_learner_are_explained():
    with pytest.raises(HyperparameterError, match=r"^num_envs: Input should be greater than or equal to 1 \(got -1\)"):
        make_learner(Crafter(), "symbols", RandomLearner, {"num_envs": -1})
    with pytest.raises(EnvgenError, match=r"learner_preset far has settings of PPO, which .*RandomLearner.* does not"):
        envgen.train("crafter", "none", learner=RandomLearner, learner_preset="far", folder="unused", verbose=False)


def test_learner_class_accepts_names_and_classes():
    assert learner_class("ppo") is LEARNERS["ppo"] is PPO
    assert learner_class(RandomLearner) is RandomLearner


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("math:sqrt", "math:sqrt is not a learner: it is not a class"),
        ("json:JSONDecoder", "json:JSONDecoder is not a learner: it lacks act, for_envs, load, settings_class"),
        (Policy, "Policy is not a learner: it lacks for_envs, load, settings_for, state, train, untrained_copy"),
        (RandomLearner(spaces.Discrete(2), RandomSettings(), 0), "RandomLearner object.* is not a class"),
    ],
)
def test_objects_that_are_no_learners_are_refused(learner, message):
    with pytest.raises(HyperparameterError, match=message):
        learner_class(learner)


def test_unknown_learner_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="learner 'ppp' is not one of ppo, distillation; did you mean 'ppo'"):
        learner_class("ppp")
