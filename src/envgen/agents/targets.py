"""What the value head learns: advantages and returns (GAE), and the running normaliser of returns."""

import numpy as np
import torch
from torch import nn


def advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    ends: np.ndarray,
    last_values: np.ndarray,
    gamma: float,
    gae_lambda: float,
) -> np.ndarray:
    """Generalised advantage estimates (T, B), float32. `ends` marks steps after which the episode was over.

    Schulman et al. 2016, eq. 16: A_t = delta_t + gamma lambda A_{t+1}, delta_t = r_t + gamma V(s_{t+1}) - V(s_t).
    """
    out = np.empty(rewards.shape, np.float32)
    ahead, after = np.zeros(rewards.shape[1], np.float32), last_values
    for t in reversed(range(len(rewards))):
        goes_on = 1.0 - ends[t].astype(np.float32)
        delta = rewards[t] + gamma * after * goes_on - values[t]
        out[t] = ahead = delta + gamma * gae_lambda * goes_on * ahead
        after = values[t]
    return out


class Normaliser(nn.Module):
    """Exponentially weighted mean and variance of returns, without the bias of its start at zero.

    With `decay=None` it does nothing.
    """

    mean_: torch.Tensor
    square_: torch.Tensor
    weight_: torch.Tensor
    LEAST_VARIANCE = 1e-2

    def __init__(self, decay: float | None):
        super().__init__()
        self.decay = decay
        for name in ("mean_", "square_", "weight_"):
            self.register_buffer(name, torch.zeros(()))

    def update(self, mean: torch.Tensor, square: torch.Tensor) -> None:
        """Take in the mean and the mean square of some returns."""
        if self.decay is not None:
            for kept, new in ((self.mean_, mean), (self.square_, square), (self.weight_, 1.0)):
                kept.mul_(self.decay).add_(new * (1 - self.decay))

    def _moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.decay is None or self.weight_ == 0:
            return torch.zeros_like(self.mean_), torch.ones_like(self.mean_)
        mean = self.mean_ / self.weight_
        variance = self.square_ / self.weight_ - mean.square()
        return mean, variance.clamp(min=self.LEAST_VARIANCE).sqrt()

    def normalise(self, returns: torch.Tensor) -> torch.Tensor:
        mean, spread = self._moments()
        return (returns - mean) / spread

    def restore(self, values: torch.Tensor) -> torch.Tensor:
        """Returns from what the value head says."""
        mean, spread = self._moments()
        return values * spread + mean
