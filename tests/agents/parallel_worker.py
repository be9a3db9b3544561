"""One process of several: trains learners on its share of eight Crafter environments and writes their final weights.

`python parallel_worker.py FOLDER [CASE ...]`; a process alone, or started by torchrun.
"""

import sys
from typing import Any

import numpy as np
import torch

from envgen.agents.learner import learner_class
from envgen.agents.settings import NetworkSettings
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.world import Crafter

LEVEL = CrafterLevel(length=40, inventory={"wood": 9, "sapling": 3, "stone": 9})  # random actions achieve something
CASES: dict[str, tuple[str, dict[str, Any]]] = {  # the learner, and its settings
    "ppo": ("ppo", {}),
    "history": ("ppo", {"network": NetworkSettings(history=True)}),
    "gru": ("ppo", {"network": NetworkSettings(memory="gru", memory_size=16, history=True)}),
    "mingru": ("ppo", {"network": NetworkSettings(memory="mingru", memory_size=16)}),
    "distillation": ("distillation", {"buffer_rollouts": 3, "aux_epochs": 1, "aux_batch_size": 64, "sequence_length": 1,
                                      "network": NetworkSettings(history=True)}),
}  # fmt: skip
NUM_UPDATES = 4


def main(folder: str, case: str) -> None:
    name, changes = CASES[case]
    cls: Any = learner_class(name)
    levels = [LEVEL] if name == "distillation" else []
    envs = Crafter().make(levels, num_envs=1, observation="symbols")
    settings = {
        "num_envs": 8,
        "num_steps": 16,
        "sequence_length": 8,
        "num_minibatches": 4,
        "bfloat16": False,
        **changes,
    }
    learner = cls.for_envs(envs, settings=cls.settings_for(envs.single_observation_space, **settings), seed=2)
    if name == "distillation":  # Adam's first steps are as long for rounding errors as for large gradients
        for optimizer in learner.aux_optimizers.values():
            optimizer.param_groups[0]["eps"] = 1e-4
    group = learner.process_group
    num_envs = 8 // group.size
    envs = Crafter().make(levels, num_envs=num_envs, seed=100 + group.rank * num_envs, observation="symbols")
    initial = {f"initial.{name}": array for name, array in learner.state()[0].items() if name.startswith("network")}
    metrics: list[dict[str, float]] = []
    learner.train(envs, 8 * 16 * NUM_UPDATES, lambda result: metrics.append(result.metrics))
    arrays, _ = learner.state()
    prefixes = ("network", "optimizer", "matching_optimizer", "prediction_optimizer", "return_normalizer", "buffer")
    weights = {name: array for name, array in arrays.items() if name.startswith(prefixes)}
    names = ("explained_variance", "prediction_loss", "matching_loss")
    series = {name: [entry[name] for entry in metrics if name in entry] for name in names}
    np.savez(f"{folder}/{case}-{group.size}-{group.rank}.npz", steps=learner.steps, **series, **weights, **initial)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[2:] or CASES:
        main(sys.argv[1], chosen)
