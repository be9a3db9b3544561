"""The first layer for symbolic observations: one row of a table for each (place, symbol), summed over places.

It is a linear layer over one-hot symbols, without the one-hots. Symbol 0 ("nothing here") owns no row, the bias stands
for it, so what is empty costs nothing. Numbers too many to be symbols (daylight 0 to 255) enter as their fraction of
the range. On the CPU the sum and its gradient are compiled loops, which need not sort as `embedding_bag`'s gradient
does; elsewhere it is `embedding_bag`.

Not here: which places there are. `glance.py` chooses them where an observation holds a map.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from envgen.worlds.kernels.jit import jit

from .errors import SpaceError

CPU = "cpu"
MOST_SYMBOLS = 32  # an integer with more values than this is a number


@jit
def _add_rows(symbols, places, counts, first_row, table, sums, to_table):
    """sums[b] += table[first_row[p] + symbols[b, p] - 1] for every place p, or the transpose: the row += sums[b].

    Symbol 0 is left out, and so is a symbol that its place does not have: nothing may reach beyond the table.
    """
    for b in range(sums.shape[0]):
        row = sums[b]
        for p in range(places.size):
            symbol = np.int64(symbols[b, places[p]])
            if 0 < symbol <= counts[p]:
                entry = table[first_row[p] + symbol - 1]
                if to_table:
                    for h in range(row.size):
                        entry[h] += row[h]
                else:
                    for h in range(row.size):
                        row[h] += entry[h]


class _SumOfRows(torch.autograd.Function):
    """The compiled sum, with its gradient. Everything it touches is on the CPU and contiguous."""

    @staticmethod
    def forward(ctx, symbols, table, start, where):
        ctx.save_for_backward(symbols, table)
        ctx.where = where
        out = start.detach().clone()
        places, counts, first_row = where
        _add_rows(symbols.numpy(), places, counts, first_row, table.detach().numpy(), out.numpy(), False)
        return out

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        symbols, table = ctx.saved_tensors
        places, counts, first_row = ctx.where
        out = torch.zeros_like(table)
        _add_rows(symbols.numpy(), places, counts, first_row, out.numpy(), gradient.contiguous().numpy(), True)
        return None, out, gradient, None


def check_size(symbols: torch.Tensor, size: int) -> None:
    """Compiled loops look at places by number; an observation must have them."""
    if symbols.shape[1:] != (size,):
        raise SpaceError(f"each observation must have {size} symbols, not shape {tuple(symbols.shape[1:])}")


class SymbolSum(nn.Module):
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
        self.where = np.flatnonzero(few), counts, np.cumsum(counts) - counts  # places, symbols of each, first rows
        numbers = np.flatnonzero(~few)
        self.table = nn.Parameter(torch.empty(int(counts.sum()), width))
        self.scales = nn.Linear(len(numbers), width)
        self.size = len(highest)
        # as the weights of a linear layer with as many inputs as there are places
        nn.init.normal_(self.table, std=len(highest) ** -0.5)
        nn.init.zeros_(self.scales.bias)
        for name, array in zip(("columns", "counts", "rows"), self.where, strict=True):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)
        self.register_buffer("number_columns", torch.from_numpy(numbers), persistent=False)
        self.register_buffer("reach", torch.from_numpy(highest[numbers].astype(np.float32)), persistent=False)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        check_size(symbols, self.size)
        start = self.scales(symbols[:, self.number_columns].float() / self.reach)  # (B, width)
        if symbols.device.type == CPU:
            return _SumOfRows.apply(symbols, self.table, start, self.where)  # pyright: ignore[reportReturnType]
        seen = symbols[:, self.columns].long()
        rows, there = (self.rows + seen - 1).clamp(0, len(self.table) - 1), (seen > 0) & (seen <= self.counts)
        return start + F.embedding_bag(rows, self.table, mode="sum", per_sample_weights=there.to(self.table.dtype))
