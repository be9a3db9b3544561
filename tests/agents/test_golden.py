"""Advantages, losses and a whole update are those of Stable-Baselines3 on the same batch."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO as SB3PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from envgen.agents.ppo import PPO
from envgen.agents.rollout import Rollout
from envgen.agents.settings import PpoSettings
from envgen.agents.targets import advantages

STEPS, ENVS = 24, 4
SEES = spaces.Box(-1, 1, (5,), np.float32)
ACTIONS = {"discrete": spaces.Discrete(3), "continuous": spaces.Box(-2, 2, (2,), np.float32)}


class Body(BaseFeaturesExtractor):
    """Our body where Stable-Baselines3 wants a features extractor."""

    def __init__(self, space, body):
        super().__init__(space, body.width)
        self.body = body

    def forward(self, observations):
        return self.body(observations)


class Env(gymnasium.Env):
    """Just enough of an environment for Stable-Baselines3 to be built around."""

    def __init__(self, actions):
        self.observation_space, self.action_space = SEES, actions

    def reset(self, *, seed=None, options=None):
        return np.zeros(5, np.float32), {}


def pair(actions: spaces.Space, **settings):
    """An agent of ours and one of theirs with the same weights and settings."""
    s = PpoSettings(
        num_envs=ENVS,
        num_steps=STEPS,
        return_norm_decay=None,
        norm_adv=False,
        gamma=0.97,
        gae_lambda=0.8,
        bfloat16=False,
        **settings,
    )
    ours = PPO(SEES, actions, settings=s, seed=3)
    theirs = SB3PPO(
        ActorCriticPolicy,
        DummyVecEnv([lambda: Env(actions)] * ENVS),
        n_steps=STEPS, batch_size=STEPS * ENVS // s.num_minibatches, n_epochs=s.update_epochs,
        learning_rate=s.learning_rate,
        gamma=s.gamma, gae_lambda=s.gae_lambda, clip_range=s.clip_coef, ent_coef=s.ent_coef, vf_coef=s.vf_coef,
        max_grad_norm=s.max_grad_norm, normalize_advantage=False, device="cpu",
        policy_kwargs=dict(
            net_arch=[], features_extractor_class=Body, features_extractor_kwargs={"body": ours.network.body},
            optimizer_kwargs={"eps": s.adam_eps}, ortho_init=False,
        ),
    )  # fmt: skip
    body = Body(SEES, PPO(SEES, actions, settings=s).network.body)  # one of its own, with our weights
    body.body.load_state_dict(ours.network.body.state_dict())
    policy = theirs.policy
    policy.features_extractor = policy.pi_features_extractor = policy.vf_features_extractor = body
    policy.action_net.load_state_dict(ours.network.choice.state_dict())
    policy.value_net.load_state_dict(ours.network.value.state_dict())
    policy.optimizer = torch.optim.Adam(policy.parameters(), lr=s.learning_rate, eps=s.adam_eps)
    theirs._setup_learn(1)
    return ours, theirs


def same_rollout(ours: PPO, theirs: SB3PPO) -> Rollout:
    """The same random experience in the rollout of both."""
    rng = np.random.default_rng(0)

    class Stream:
        count = ENVS
        envs = type("Envs", (), {"single_observation_space": SEES})

    rollout = Rollout(STEPS, Stream(), ours.network, torch.device("cpu"))
    rollout.seen = torch.from_numpy(rng.uniform(-1, 1, (STEPS, ENVS, 5)).astype(np.float32))
    rollout.rewards[:] = rng.normal(size=(STEPS, ENVS))
    rollout.ends[:] = rng.random((STEPS, ENVS)) < 0.1
    rollout.valid[:] = True
    with torch.no_grad():
        for t in range(STEPS):
            numbers, rollout.values[t] = ours.network(rollout.seen[t])
            noise = torch.from_numpy(ours.network.head.noise(rng, ENVS))
            # from an older policy than the one that learns: the ratios are then not all 1
            rollout.actions[t] = ours.network.head.draw(numbers + 0.3, noise)
            rollout.log_probs[t] = ours.network.head.judge(numbers + 0.3, rollout.actions[t])[0]
    rollout.last_values[:] = rng.normal(size=ENVS)
    buffer = theirs.rollout_buffer
    buffer.reset()
    began = np.ones(ENVS)
    for t in range(STEPS):
        actions = rollout.actions[t].numpy().reshape(ENVS, -1)
        buffer.add(rollout.seen[t].numpy(), actions, rollout.rewards[t], began, rollout.values[t], rollout.log_probs[t])
        began = rollout.ends[t]
    buffer.compute_returns_and_advantage(torch.from_numpy(rollout.last_values), rollout.ends[-1])
    return rollout


def test_advantages_are_theirs():
    ours, theirs = pair(ACTIONS["discrete"])
    r = same_rollout(ours, theirs)
    mine = advantages(r.rewards, r.values.numpy(), r.ends, r.last_values, 0.97, 0.8)
    np.testing.assert_allclose(mine, theirs.rollout_buffer.advantages, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ACTIONS)
def test_one_whole_update_leaves_the_same_weights_as_theirs(kind, monkeypatch):
    ours, theirs = pair(ACTIONS[kind], update_epochs=3, num_minibatches=4, learning_rate=1e-2)
    rollout = same_rollout(ours, theirs)
    before = [w.clone() for w in ours.network.parameters()]
    shuffling = np.random.default_rng([3, 1])

    def permutation(n):  # ours counts steps first, theirs environments first
        step, env = np.divmod(shuffling.permutation(n), ENVS)
        return env * STEPS + step

    monkeypatch.setattr(np.random, "permutation", permutation)
    theirs.train()
    losses = ours.update(rollout)

    moved = max(float((w - b).detach().abs().max()) for w, b in zip(ours.network.parameters(), before, strict=True))
    assert moved > 0.01
    policy = theirs.policy
    for mine, its in (
        (ours.network.body, policy.features_extractor.body),
        (ours.network.choice, policy.action_net),
        (ours.network.value, policy.value_net),
    ):
        for (name, weights), other in zip(mine.state_dict().items(), its.state_dict().values(), strict=True):
            np.testing.assert_allclose(weights, other, rtol=2e-4, atol=2e-5, err_msg=name)
    if kind == "continuous":
        np.testing.assert_allclose(ours.network.head.log_spread.detach(), policy.log_std.detach(), atol=2e-5)
    said = theirs.logger.name_to_value
    for mine, its in (
        ("policy_loss", "policy_gradient_loss"), ("value_loss", "value_loss"), ("clip_fraction", "clip_fraction")
    ):  # fmt: skip
        assert losses[mine] == pytest.approx(said[f"train/{its}"], rel=1e-3, abs=1e-5)
    assert losses["clip_fraction"] > 0.05  # the clip was at work
