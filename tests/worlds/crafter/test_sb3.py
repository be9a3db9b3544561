"""Stable-Baselines3 trains on Crafter without wrappers."""

import gymnasium
import pytest
from stable_baselines3 import PPO

import envgen  # noqa: F401  registers the environments


@pytest.mark.parametrize(("observation", "policy"), [("pixels", "CnnPolicy"), ("symbols", "MlpPolicy")])
def test_ppo_trains(observation, policy):
    env = gymnasium.make("envgen/Crafter-v0", observation=observation, level={"length": 50, "near": {"table": True}})
    model = PPO(policy, env, n_steps=128, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(256)
    assert model.num_timesteps == 256
    assert len(model.ep_info_buffer) >= 4
    assert all(episode["l"] <= 50 for episode in model.ep_info_buffer)
