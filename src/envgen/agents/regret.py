"""Estimates of regret for each episode, from the values and advantages of the rollouts that it was played in.

Designers that replay levels use them: how much better could the agent have done in a level? An episode usually spans
several rollouts, so sums over the episodes in progress are kept from one rollout to the next.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class SelectsEpisodes(Protocol):
    """Vector environments with levels that are replayed. Learners report estimates of regret for their episodes, and
    do not learn from all of them."""

    @property
    def learns(self) -> np.ndarray:
        """(num_envs,) bool, whether the agent learns from the episode in progress."""
        ...


class RegretEstimator:
    """Sums advantages and values over the episodes in progress in `num_envs` environments.

    Args:
        state: What the method `state` returned, to continue from there.
    """

    def __init__(self, num_envs: int, state: Mapping[str, np.ndarray] | None = None):
        self.num_steps = np.zeros(num_envs, np.int64)
        self.positive_advantages = np.zeros(num_envs)
        self.values = np.zeros(num_envs)
        for name, array in (state or {}).items():
            getattr(self, name)[:] = array

    def update(self, advantages: np.ndarray, values: np.ndarray, dones: np.ndarray) -> tuple[list[float], list[float]]:
        """Add a rollout, (T, B) each. Returns an entry for each episode that ended in it, step by step.

        Returns:
            Positive value losses and mean values. The positive value loss is 1/T sum_t max(A_t, 0), where A_t is the
            generalized advantage estimate sum_k (gamma lambda)^(k-t) delta_k (robust PLR, Jiang et al. 2021b). The mean
            value 1/T sum_t V(s_t) is what MaxMC subtracts from the highest return.
        """
        losses: list[float] = []
        mean_values: list[float] = []
        for t in range(len(dones)):
            self.num_steps += 1
            self.positive_advantages += np.maximum(advantages[t], 0)
            self.values += values[t]
            ended = np.flatnonzero(dones[t])
            if ended.size:
                losses += (self.positive_advantages[ended] / self.num_steps[ended]).tolist()
                mean_values += (self.values[ended] / self.num_steps[ended]).tolist()
                for array in (self.num_steps, self.positive_advantages, self.values):
                    array[ended] = 0
        return losses, mean_values

    def state(self) -> dict[str, np.ndarray]:
        return {name: array.copy() for name, array in vars(self).items()}
