"""The first layer for symbolic observations: one row of a table for each (place, symbol), summed over places.

It is a linear layer over one-hot symbols, without the one-hots. Symbol 0 ("nothing here") owns no row, the bias stands
for it, so what is empty costs nothing. Numbers too many to be symbols (daylight 0 to 255) enter as their fraction of
the range. The sum is normalised, then ReLU, then normalised again for the next layer. On the CPU all of this is one
compiled pass (`fused.py`); elsewhere it is `embedding_bag` and PyTorch's norms.

Not here: which places there are. `glance.py` chooses them where an observation holds a map.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .errors import SpaceError
from .fused import EPSILON, FirstLayer, Weights, Where

CPU = "cpu"
MOST_SYMBOLS = 32  # an integer with more values than this is a number


def check_size(symbols: torch.Tensor, size: int) -> None:
    """Compiled loops look at places by number; an observation must have them."""
    if symbols.shape[1:] != (size,):
        raise SpaceError(f"each observation must have {size} symbols, not shape {tuple(symbols.shape[1:])}")


class SymbolLayer(nn.Module):
    """Symbols (B, P), each from 0 to its `highest`, to features (B, width)."""

    columns: torch.Tensor
    counts: torch.Tensor
    rows: torch.Tensor
    number_columns: torch.Tensor
    reach: torch.Tensor

    def __init__(self, highest: np.ndarray, width: int):
        super().__init__()
        few = highest < MOST_SYMBOLS
        counts = highest[few].astype(np.int64)
        self.where = Where(np.flatnonzero(few), counts, np.cumsum(counts) - counts)
        numbers = np.flatnonzero(~few)
        self.size = len(highest)
        # as the weights of linear layers with as many inputs as there are places, and numbers
        self.table = nn.Parameter(torch.empty(int(counts.sum()), width).normal_(std=len(highest) ** -0.5))
        steepest = max(1, len(numbers)) ** -0.5
        self.slopes = nn.Parameter(torch.empty(len(numbers), width).uniform_(-steepest, steepest))
        self.bias = nn.Parameter(torch.zeros(width))
        self.norms = nn.ModuleList([nn.LayerNorm(width, float(EPSILON)) for _ in range(2)])
        for name, array in zip(("columns", "counts", "rows"), self.where, strict=True):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)
        self.register_buffer("number_columns", torch.from_numpy(numbers), persistent=False)
        self.register_buffer("reach", torch.from_numpy(highest[numbers].astype(np.float32)), persistent=False)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        check_size(symbols, self.size)
        numbers = symbols[:, self.number_columns].float() / self.reach
        first, second = self.norms
        if symbols.device.type == CPU:
            norms = first.weight, first.bias, second.weight, second.bias
            weights = Weights(self.table, self.slopes, self.bias, *norms)
            return FirstLayer.apply(symbols, numbers, self.where, *weights)  # pyright: ignore[reportReturnType]
        seen = symbols[:, self.columns].long()
        nothing, there = len(self.table), (seen > 0) & (seen <= self.counts)
        rows, table = torch.where(there, self.rows + seen - 1, nothing), F.pad(self.table, (0, 0, 0, 1))
        summed = F.embedding_bag(rows, table, mode="sum", padding_idx=nothing)
        return second(F.relu(first(summed + numbers @ self.slopes + self.bias)))
