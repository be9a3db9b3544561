"""A run that a test kills: `python killed.py FOLDER OBSERVATION`. Saves after every update, so that kills hit saves."""

import sys
from pathlib import Path

import torch

from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.curriculum.trainer import PhaseTrainer
from envgen.runs.store import Run
from envgen.worlds.crafter.world import Crafter

UPDATES = {"symbols": 40, "pixels": 8}


def main(folder: Path, observation: str) -> None:
    torch.set_num_threads(1)
    settings = PpoSettings(num_envs=2, num_steps=12, update_epochs=1, num_minibatches=1)
    with Run(folder, {"observation": observation}) as run:
        agent = PPO.for_envs(Crafter().make(num_envs=1, observation=observation), settings=settings)
        course = PhaseTrainer(run, Crafter(), observation, agent, seed=3, save_every=0.0)
        half = 2 * 12 * UPDATES[observation] // 2
        course.run_phase("in a level", [{"length": 30}], half)
        course.run_phase("in the original", [], half)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
