"""Stable-Baselines3 on Crafter, in the original and in levels at once.

pip install stable-baselines3
python examples/sb3_crafter.py 1000000         # steps; a few hundred by default
"""

import sys

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import envgen.sb3

LEVELS = [{}, {"trees": "very common"}, {"near": {"table": True}}, {"inventory": {"wood_pickaxe": 1}}]


def main(steps: int) -> None:
    # One compiled batch of environments, not one process each; environment i plays LEVELS[i % 4].
    envs = envgen.sb3.make_vec_env("crafter", n_envs=8, levels=LEVELS, observation="symbols", seed=0)
    model = PPO("MlpPolicy", envs, n_steps=32, batch_size=64, n_epochs=2, gamma=0.97, ent_coef=0.01, seed=0)
    model.learn(steps)

    original = envgen.sb3.make_vec_env("crafter", n_envs=4, observation="symbols", seed=1000)
    mean, std = evaluate_policy(model, original, n_eval_episodes=4, warn=False)
    print(f"After {model.num_timesteps:,} steps: reward {mean:.2f} ± {std:.2f} per episode of the original Crafter")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 512)
