"""One process of several: trains on its share of eight Crafter environments and writes its final weights."""

import sys

import numpy as np
import torch

from envgen.agents.ppo import PPO
from envgen.agents.settings import NetworkSettings, PpoSettings
from envgen.worlds.crafter.world import Crafter

torch.set_num_threads(1)
envs = Crafter().make(num_envs=1, observation="symbols")
network = NetworkSettings(memory=sys.argv[2], memory_size=16, history=sys.argv[2] != "none")
settings = PpoSettings(num_envs=8, num_steps=16, sequence_length=8, num_minibatches=4, bfloat16=False, network=network)
learner = PPO.for_envs(envs, settings=settings, seed=2)
num_envs = 8 // learner.process_group.size
envs = Crafter().make(num_envs=num_envs, seed=100 + learner.process_group.rank * num_envs, observation="symbols")
explained_variances = []
learner.train(envs, 8 * 16 * 4, lambda result: explained_variances.append(result.metrics["explained_variance"]))
arrays, _ = learner.state()
weights = {
    name: array for name, array in arrays.items() if name.startswith(("network", "optimizer", "return_normalizer"))
}
file = f"{sys.argv[1]}/{learner.process_group.size}-{learner.process_group.rank}.npz"
np.savez(file, steps=learner.steps, explained_variances=explained_variances, **weights)
