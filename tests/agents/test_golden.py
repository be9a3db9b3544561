"""Advantages, losses and a whole update equal those of Stable-Baselines3 on the same batch."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO as SB3PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import DummyVecEnv

from envgen.agents.ppo import PPO, gae
from envgen.agents.rollout import Rollout
from envgen.agents.settings import PpoSettings

STEPS, ENVS = 24, 4
OBSERVATION_SPACE = spaces.Box(-1, 1, (5,), np.float32)
ACTION_SPACES = {"discrete": spaces.Discrete(3), "continuous": spaces.Box(-2, 2, (2,), np.float32)}


class EncoderExtractor(BaseFeaturesExtractor):
    """One of our encoders as a Stable-Baselines3 features extractor."""

    def __init__(self, space, encoder):
        super().__init__(space, encoder.width)
        self.encoder = encoder

    def forward(self, observations):
        return self.encoder(observations)


class SpacesOnlyEnv(gymnasium.Env):
    """Just enough of an environment to construct Stable-Baselines3's PPO."""

    def __init__(self, action_space):
        self.observation_space, self.action_space = OBSERVATION_SPACE, action_space

    def reset(self, *, seed=None, options=None):
        return np.zeros(5, np.float32), {}


def make_pair(action_space: spaces.Space, **settings) -> tuple[PPO, SB3PPO]:
    """Our PPO and Stable-Baselines3's with the same weights and settings."""
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
    ppo = PPO(OBSERVATION_SPACE, action_space, settings=s, seed=3)
    sb3 = SB3PPO(
        ActorCriticPolicy,
        DummyVecEnv([lambda: SpacesOnlyEnv(action_space)] * ENVS),
        n_steps=STEPS, batch_size=STEPS * ENVS // s.num_minibatches, n_epochs=s.update_epochs,
        learning_rate=s.learning_rate,
        gamma=s.gamma, gae_lambda=s.gae_lambda, clip_range=s.clip_coef, ent_coef=s.ent_coef, vf_coef=s.vf_coef,
        max_grad_norm=s.max_grad_norm, normalize_advantage=False, device="cpu",
        policy_kwargs=dict(
            net_arch=[], features_extractor_class=EncoderExtractor,
            features_extractor_kwargs={"encoder": ppo.network.encoder},
            optimizer_kwargs={"eps": s.adam_eps}, ortho_init=False,
        ),
    )  # fmt: skip
    extractor = EncoderExtractor(OBSERVATION_SPACE, PPO(OBSERVATION_SPACE, action_space, settings=s).network.encoder)
    extractor.encoder.load_state_dict(ppo.network.encoder.state_dict())
    policy = sb3.policy
    policy.features_extractor = policy.pi_features_extractor = policy.vf_features_extractor = extractor
    policy.action_net.load_state_dict(ppo.network.policy_head.state_dict())
    policy.value_net.load_state_dict(ppo.network.value_head.state_dict())
    policy.optimizer = torch.optim.Adam(policy.parameters(), lr=s.learning_rate, eps=s.adam_eps)
    sb3._setup_learn(1)
    return ppo, sb3


def fill_rollouts(ppo: PPO, sb3: SB3PPO) -> Rollout:
    """Fill our rollout and Stable-Baselines3's buffer with the same random experience."""
    rng = np.random.default_rng(0)
    rollout = Rollout(STEPS, ENVS, ppo.network, torch.device("cpu"))
    rollout.obs = torch.from_numpy(rng.uniform(-1, 1, (STEPS, ENVS, 5)).astype(np.float32))
    rollout.rewards[:] = rng.normal(size=(STEPS, ENVS))
    rollout.dones[:] = rng.random((STEPS, ENVS)) < 0.1
    rollout.valid[:] = True
    dist = ppo.network.action_dist
    with torch.no_grad():
        for t in range(STEPS):
            dist_params, rollout.values[t] = ppo.network(rollout.obs[t])
            noise = torch.from_numpy(dist.noise(rng, ENVS))
            # the behavior policy differs from the current one, so that the ratios are not all 1
            rollout.actions[t] = dist.sample(dist_params + 0.3, noise)
            rollout.logprobs[t] = dist.log_prob_and_entropy(dist_params + 0.3, rollout.actions[t])[0]
    rollout.last_values[:] = rng.normal(size=ENVS)
    buffer = sb3.rollout_buffer
    buffer.reset()
    episode_starts = np.ones(ENVS)
    for t in range(STEPS):
        actions, values, logprobs = rollout.actions[t].numpy().reshape(ENVS, -1), rollout.values[t], rollout.logprobs[t]
        buffer.add(rollout.obs[t].numpy(), actions, rollout.rewards[t], episode_starts, values, logprobs)
        episode_starts = rollout.dones[t]
    buffer.compute_returns_and_advantage(torch.from_numpy(rollout.last_values), rollout.dones[-1])
    return rollout


def test_advantages_equal_those_of_stable_baselines3():
    ppo, sb3 = make_pair(ACTION_SPACES["discrete"])
    r = fill_rollouts(ppo, sb3)
    advantages = gae(r.rewards, r.values.numpy(), r.dones, r.last_values, 0.97, 0.8)
    np.testing.assert_allclose(advantages, sb3.rollout_buffer.advantages, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ACTION_SPACES)
def test_one_update_gives_the_weights_of_stable_baselines3(kind, monkeypatch):
    ppo, sb3 = make_pair(ACTION_SPACES[kind], update_epochs=3, num_minibatches=4, learning_rate=1e-2)
    rollout = fill_rollouts(ppo, sb3)
    buffer = sb3.rollout_buffer
    sb3_explained_variance = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
    before = [parameter.clone() for parameter in ppo.network.parameters()]
    shuffle_rng = np.random.default_rng([3, 1])

    def permutation(n):  # we flatten steps first, Stable-Baselines3 environments first
        step, env = np.divmod(shuffle_rng.permutation(n), ENVS)
        return env * STEPS + step

    monkeypatch.setattr(np.random, "permutation", permutation)
    sb3.train()
    metrics = ppo.update(rollout)

    max_change = max(
        float((parameter - old).detach().abs().max())
        for parameter, old in zip(ppo.network.parameters(), before, strict=True)
    )
    assert max_change > 0.01
    policy = sb3.policy
    for module, sb3_module in (
        (ppo.network.encoder, policy.features_extractor.encoder),
        (ppo.network.policy_head, policy.action_net),
        (ppo.network.value_head, policy.value_net),
    ):
        sb3_parameters = sb3_module.state_dict().values()
        for (name, parameter), expected in zip(module.state_dict().items(), sb3_parameters, strict=True):
            np.testing.assert_allclose(parameter, expected, rtol=2e-4, atol=2e-5, err_msg=name)
    if kind == "continuous":
        np.testing.assert_allclose(ppo.network.action_dist.log_std.detach(), policy.log_std.detach(), atol=2e-5)
    logged = sb3.logger.name_to_value
    for metric, sb3_metric in (
        ("policy_loss", "policy_gradient_loss"), ("value_loss", "value_loss"), ("clipfrac", "clip_fraction")
    ):  # fmt: skip
        assert metrics[metric] == pytest.approx(logged[f"train/{sb3_metric}"], rel=1e-3, abs=1e-5)
    assert metrics["clipfrac"] > 0.05  # clipping took effect
    assert metrics["explained_variance"] == pytest.approx(float(sb3_explained_variance), rel=1e-4, abs=1e-5)
