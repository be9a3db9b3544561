"""Estimates of regret, and learners that do not learn from every episode."""

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from envgen.agents import ppo
from envgen.agents.distillation import AchievementDistillation
from envgen.agents.ppo import PPO, gae
from envgen.agents.regret import RegretEstimator
from envgen.worlds.crafter.env import CrafterVectorEnv

GAMMA, LAMBDA = 0.9, 0.7


def test_positive_value_loss_and_mean_value_follow_their_definition():
    """1/T sum_t max(sum_k (gamma lambda)^(k-t) delta_k, 0), for each episode that lies in one rollout."""
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 12, 2)).astype(np.float32)
    dones = np.zeros((12, 2), np.bool_)
    dones[[4, 9], 0] = dones[[9], 1] = True
    advantages = gae(rewards, values, dones, np.zeros(2, np.float32), GAMMA, LAMBDA)
    losses, mean_values = RegretEstimator(2).update(advantages, values, dones)

    expected = []
    for start, end, env in ((0, 5, 0), (5, 10, 0), (0, 10, 1)):
        r, v = rewards[start:end, env].astype(float), values[start:end, env].astype(float)
        delta = r + GAMMA * np.append(v[1:], 0) - v
        length = end - start
        sums = [sum((GAMMA * LAMBDA) ** (k - t) * delta[k] for k in range(t, length)) for t in range(length)]
        expected.append((np.maximum(sums, 0).mean(), v.mean()))
    np.testing.assert_allclose(np.stack([losses, mean_values], 1), expected, rtol=1e-5)


def test_episodes_that_span_rollouts_are_summed_exactly():
    rng = np.random.default_rng(1)
    advantages, values = rng.normal(size=(2, 30, 3))
    dones = rng.random((30, 3)) < 0.1
    whole = RegretEstimator(3).update(advantages, values, dones)
    parts, losses, mean_values = RegretEstimator(3), [], []
    for rows in np.split(np.arange(30), [7, 19]):
        parts = RegretEstimator(3, parts.state())  # as after a resume
        result = parts.update(advantages[rows], values[rows], dones[rows])
        losses, mean_values = losses + result[0], mean_values + result[1]
    assert (losses, mean_values) == whole
    assert len(losses) == dones.sum() > 3


class SelectingEnvs(CrafterVectorEnv):
    """The agent learns only from the environments in `learners`."""

    learners: tuple[int, ...] = ()

    @property
    def learns(self) -> np.ndarray:
        return np.isin(np.arange(self.num_envs), self.learners)


def make_envs(learners) -> SelectingEnvs:
    envs = SelectingEnvs(4, {"length": 20}, "symbols", autoreset_mode=AutoresetMode.SAME_STEP)
    envs.learners = learners
    envs.engine.start(range(4))
    return envs


def make_learner(cls, envs):
    more = {"buffer_rollouts": 1} if cls is AchievementDistillation else {}
    settings = cls.settings_for(
        envs.single_observation_space, num_envs=4, num_steps=32, update_epochs=1, num_minibatches=1, **more
    )
    return cls.for_envs(envs, settings, seed=0)


def weights_of(learner) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in learner.network.parameters()]).numpy().copy()


@pytest.mark.parametrize("cls", [PPO, AchievementDistillation])
def test_agent_does_not_learn_from_episodes_that_are_left_out(cls):
    results = []
    envs = make_envs(())
    learner = make_learner(cls, envs)
    before = weights_of(learner)
    learner.train(envs, 256, results.append, seed=0)
    np.testing.assert_array_equal(weights_of(learner), before)
    for result in results:
        episodes = result.episodes
        assert len(episodes) == len(episodes.positive_value_losses) == len(episodes.mean_values) > 0
        assert min(episodes.positive_value_losses) >= 0


def test_regret_is_estimated_from_advantages_that_are_not_normalized(monkeypatch):
    computed, used = [], []
    gae, update = ppo.gae, RegretEstimator.update

    def record_computed(*args):
        computed.append(gae(*args))
        return computed[-1].copy()

    def record_used(self, advantages, *args):
        used.append(advantages.copy())
        return update(self, advantages, *args)

    monkeypatch.setattr(ppo, "gae", record_computed)
    monkeypatch.setattr(RegretEstimator, "update", record_used)
    envs = make_envs(range(4))
    learner = make_learner(PPO, envs)
    assert learner.settings.norm_adv
    learner.train(envs, 256, seed=0)
    assert len(used) == len(computed) == 2
    np.testing.assert_array_equal(used, computed)


def test_agent_learns_from_selected_episodes_alone():
    """Rewards of other environments make no difference."""

    class Bribed(SelectingEnvs):
        bribe = 0.0

        def step(self, actions):
            obs, rewards, *rest = super().step(actions)
            return obs, rewards + self.bribe * ~self.learns, *rest

    weights = []
    for bribe in (0.0, 7.0):
        envs = Bribed(4, {"length": 20}, "symbols", autoreset_mode=AutoresetMode.SAME_STEP)
        envs.learners, envs.bribe = (0, 2), bribe
        learner = make_learner(PPO, envs)
        before = weights_of(learner)
        learner.train(envs, 128, seed=0)
        weights.append(weights_of(learner))
        assert (weights[-1] != before).any()
    np.testing.assert_array_equal(*weights)


def test_other_environments_report_no_regret():
    envs = CrafterVectorEnv(4, {"length": 20}, "symbols")
    results = []
    make_learner(PPO, envs).train(envs, 128, results.append, seed=0)
    assert len(results[0].episodes) > 0
    assert results[0].episodes.positive_value_losses == []
