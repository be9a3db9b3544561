"""A run that a test kills. It saves after every update."""

from pathlib import Path

import torch

from envgen.curriculum.plan import PracticeSettings
from envgen.curriculum.trainer import PhaseTrainer, make_learner
from envgen.runs.store import Run
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.world import Crafter

NUM_UPDATES = {"symbols": 40, "pixels": 8}
SETTINGS = {"num_envs": 2, "num_steps": 12, "update_epochs": 1, "num_minibatches": 1}


def main(folder: Path, observation: str, share: float) -> None:
    torch.set_num_threads(1)
    world = Crafter()
    with Run(folder, {"observation": observation}) as run:
        learner = make_learner(world, observation, settings=SETTINGS)
        practice = PracticeSettings(share=share, max_steps=9, snapshot_interval=3, buffer_size=3)
        trainer = PhaseTrainer(run, world, observation, learner, seed=3, save_every=0.0, practice=practice)
        phase_steps = 2 * 12 * NUM_UPDATES[observation] // 2
        trainer.run_phase("in a level", [CrafterLevel(length=30)], phase_steps)
        trainer.run_phase("in the original", [], phase_steps)
