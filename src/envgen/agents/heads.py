"""What a network's numbers mean as a choice: `Categorical` for discrete actions, `Gaussian` for continuous ones.

Both draw with noise that is handed in, so that the caller owns every random number.
"""

import math

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from .errors import SpaceError

LOG_SQRT_2PI = math.log(2 * math.pi) / 2


class Categorical(nn.Module):
    """One of `n` actions, numbered from 0, from n logits."""

    def __init__(self, space: spaces.Discrete):
        super().__init__()
        self.outputs = int(space.n)
        self.first = int(space.start)
        self.shape: tuple[int, ...] = ()
        self.dtype = torch.int64

    def noise(self, random: np.random.Generator, count: int) -> np.ndarray:
        return random.random(count, np.float32)

    def draw(self, logits: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Where the noise falls among the cumulated probabilities. (B, n), (B,) -> (B,)"""
        reached = logits.softmax(-1).cumsum(-1)
        return (reached[:, :-1] <= noise[:, None] * reached[:, -1:]).sum(-1)

    def best(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.argmax(-1)

    def judge(self, logits: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-probability of actions, and the entropy of the choice, both (B,)."""
        log_p = logits.log_softmax(-1)
        return log_p.gather(-1, actions[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)

    def to_env(self, actions: torch.Tensor) -> np.ndarray:
        return actions.cpu().numpy() + self.first


class Gaussian(nn.Module):
    """A vector of numbers, each normal around its mean; one spread each, learned, the same in every state."""

    def __init__(self, space: spaces.Box):
        super().__init__()
        self.outputs = int(np.prod(space.shape))
        self.shape = (self.outputs,)
        self.dtype = torch.float32
        self.space = space
        self.log_spread = nn.Parameter(torch.zeros(self.outputs))

    def noise(self, random: np.random.Generator, count: int) -> np.ndarray:
        return random.standard_normal((count, self.outputs), np.float32)

    def draw(self, means: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return means + self.log_spread.exp() * noise

    def best(self, means: torch.Tensor) -> torch.Tensor:
        return means

    def judge(self, means: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        deviations = (actions - means) / self.log_spread.exp()
        log_p = (-deviations.square() / 2 - self.log_spread - LOG_SQRT_2PI).sum(-1)
        entropy = (self.log_spread + LOG_SQRT_2PI + 0.5).sum()
        return log_p, entropy.expand(len(means))

    def to_env(self, actions: torch.Tensor) -> np.ndarray:
        """Clipped into the space; the learner keeps what was drawn."""
        shaped = actions.cpu().numpy().reshape(-1, *self.space.shape)
        return np.clip(shaped, self.space.low, self.space.high).astype(self.space.dtype)


def head_for(space: spaces.Space) -> Categorical | Gaussian:
    if isinstance(space, spaces.Discrete):
        return Categorical(space)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.is_bounded():
        return Gaussian(space)
    raise SpaceError(f"actions must be Discrete or a bounded Box of floats, not {space}")
