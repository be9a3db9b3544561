"""A complete small run, which saves after every update. `python loop_worker.py FOLDER DESIGNER...` runs several."""

import sys
from pathlib import Path
from typing import Any

import torch

from envgen.curriculum.loop import TrainingSummary, train
from envgen.curriculum.plan import TrainingPlan
from envgen.designers.registry import build_designer
from envgen.worlds.crafter.world import Crafter

PLAN = TrainingPlan(
    cycles=2, levels=2, cycle_steps=128, final_steps=64, feedback_groups=2, feedback_episodes=2, episodes=4,
    ranking_steps=32, audit_steps=20,
)  # fmt: skip
SETTINGS = {"num_envs": 4, "num_steps": 8, "update_epochs": 1, "num_minibatches": 1}
DESIGNER_SETTINGS = {  # of designers that choose the level of every episode
    "plr": {"min_levels": 4, "buffer_size": 6, "score": "max_mc"},
    "accel": {"min_levels": 4, "buffer_size": 6},
    "sfl": {"interval": 4, "num_candidates": 6, "candidate_episodes": 2, "candidate_steps": 9, "buffer_size": 3},
}


def main(
    folder: Path, url: str | None = None, designer: str = "expert", plan: TrainingPlan = PLAN, **kw: Any
) -> TrainingSummary:
    """With a URL, the language model of a test server designs the levels."""
    torch.set_num_threads(1)
    model = {"llm": "openai:model", "base_url": url, "timeout": 60} if url else None
    built = build_designer("llm" if url else designer, folder, model)
    return train(folder, Crafter(), built, plan, seed=5, learner_settings=SETTINGS, save_every=0.0, **kw)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        main(Path(sys.argv[1]) / name, designer=name)
