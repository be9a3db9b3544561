"""One process of a team: trains on its share of eight Crafters and writes the weights it ends with."""

import sys

import numpy as np
import torch

from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.worlds.crafter.world import Crafter

torch.set_num_threads(1)
probe = Crafter().make(num_envs=1, observation="symbols")
agent = PPO.for_envs(probe, settings=PpoSettings(num_envs=8, num_steps=16, num_minibatches=4, bfloat16=False), seed=2)
count = 8 // agent.process_group.size
envs = Crafter().make(num_envs=count, seed=100 + agent.process_group.rank * count, observation="symbols")
losses = []
agent.train(envs, 8 * 16 * 4, lambda update: losses.append(update.losses))
arrays, _ = agent.state()
weights = {name: array for name, array in arrays.items() if name.startswith(("network", "adam", "normaliser"))}
np.savez(f"{sys.argv[1]}/{agent.process_group.size}-{agent.process_group.rank}.npz", steps=agent.steps, **weights)
