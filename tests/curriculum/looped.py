"""A whole run in miniature, which tests also start as a program of its own to kill it: `python looped.py FOLDER [URL]`.

With a URL, a language model there designs the levels; else the expert. It saves after every update.
"""

import sys
from pathlib import Path

import torch

from envgen.curriculum.loop import Summary, train
from envgen.curriculum.plan import TrainingPlan
from envgen.designers.registry import build_designer
from envgen.worlds.crafter.world import Crafter

PLAN = TrainingPlan(
    cycles=2, levels=2, cycle_steps=128, final_steps=64, feedback_seeds=2, feedback_episodes=2, episodes=4,
    ranking_steps=32, audit_steps=20,
)  # fmt: skip
PPO = {"num_envs": 4, "rollout": 8, "epochs": 1, "minibatches": 1}


def main(folder: Path, url: str | None = None, designer: str = "expert", plan: TrainingPlan = PLAN, **kw) -> Summary:
    torch.set_num_threads(1)
    model = {"llm": "openai:model", "base_url": url, "timeout": 60} if url else None
    made = build_designer("llm" if url else designer, folder, model)
    return train(folder, Crafter(), made, plan, seed=5, ppo=PPO, save_every=0.0, **kw)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
