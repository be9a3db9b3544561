"""What stands out in a map of symbols, seen from one of its cells: a few symbols in place of all cells.

    the cells around the eye, one by one
    what is ahead: the symbols of the cell that the agent faces, where a world says which that is
    for every symbol of every plane, where its nearest cell lies: columns right and rows down of the eye

A tree three cells to the left then is the same row of the first layer wherever else trees are, and "a cow is ahead" is
one row, not a conjunction to be learned for each direction. It adds nothing that the map does not show, and leaves out
all but the nearest of each symbol.
"""

import numpy as np
import torch
from torch import nn

from envgen.jit import jit
from envgen.worlds.world import SymbolMap

from .symbols import CPU, check_size


@jit
def _find_nearest(symbols, order, right, down, plane_cells, kinds, first, out):
    """out[b, first[plane] + 2 (s - 1)], and the next: where symbol s of a plane is nearest, counted from 1."""
    for b in range(out.shape[0]):
        out[b] = 0
        for plane in range(first.size):
            for cell in order:
                symbol = np.int64(symbols[b, plane * plane_cells + cell])
                if 0 < symbol <= kinds[plane]:
                    place = first[plane] + 2 * (symbol - 1)
                    if out[b, place] == 0:
                        out[b, place] = right[cell]
                        out[b, place + 1] = down[cell]


class Glance(nn.Module):
    """Observations (B, P) with a map in them to fewer symbols (B, Q); `highest` (Q,) are their highest values."""

    kept: torch.Tensor
    steps: torch.Tensor

    def __init__(self, layout: SymbolMap, highest: np.ndarray):
        super().__init__()
        self.layout, self.size = layout, len(highest)
        cells, eye = layout.rows * layout.columns, layout.center
        y, x = np.divmod(np.arange(cells), layout.columns)
        dx, dy = x - eye % layout.columns, y - eye // layout.columns
        far, ring = abs(dx) + abs(dy), np.maximum(abs(dx), abs(dy))
        self.order = np.lexsort((ring, far))[1:]  # by distance, without the eye itself
        self.right, self.down = (dx - dx.min() + 1).astype(np.uint8), (dy - dy.min() + 1).astype(np.uint8)
        around = np.flatnonzero(ring <= layout.near_radius)
        kept = [plane * cells + around for plane in range(layout.planes)]
        kept.append(np.arange(layout.planes * cells, len(highest)))
        self.kinds = highest[: layout.planes * cells].reshape(layout.planes, cells).max(1)
        self.first = 2 * (np.cumsum(self.kinds) - self.kinds)
        self.found = int(2 * self.kinds.sum())
        ahead = self.kinds[: 0 if layout.facing_index is None else None]
        farthest = np.tile([self.right.max(), self.down.max()], self.kinds.sum())
        self.highest = np.concatenate([highest[np.concatenate(kept)], ahead, farthest]).astype(np.int64)
        self.register_buffer("kept", torch.from_numpy(np.concatenate(kept)), persistent=False)
        steps = [0, *(step_x + step_y * layout.columns for step_x, step_y in layout.direction_offsets)]
        self.register_buffer("steps", eye + torch.tensor(steps), persistent=False)

    @torch.no_grad()
    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        check_size(symbols, self.size)
        return torch.cat([symbols[:, self.kept], *self._ahead(symbols), self._nearest(symbols)], 1)

    def _ahead(self, symbols: torch.Tensor) -> list[torch.Tensor]:
        """The symbols (B, planes) of the cell faced, if there is one."""
        if self.layout.facing_index is None:
            return []
        cell = self.steps[symbols[:, self.layout.facing_index].long()]  # (B,)
        planes = torch.arange(self.layout.planes, device=symbols.device) * self.layout.rows * self.layout.columns
        return [symbols.gather(1, cell[:, None] + planes)]

    def _nearest(self, symbols: torch.Tensor) -> torch.Tensor:
        cells = self.layout.rows * self.layout.columns
        if symbols.device.type == CPU:
            out = torch.empty((len(symbols), self.found), dtype=symbols.dtype)
            places = self.order, self.right, self.down
            _find_nearest(symbols.numpy(), *places, cells, self.kinds, self.first, out.numpy())  # pyright: ignore[reportCallIssue]
            return out
        order, parts = torch.from_numpy(self.order).to(symbols.device), []
        places = [torch.from_numpy(a[self.order]).to(symbols.device) for a in (self.right, self.down)]
        for plane, count in enumerate(self.kinds):
            kinds = torch.arange(1, count + 1, device=symbols.device)
            at = symbols[:, plane * cells + order, None] == kinds  # (B, cells, kinds)
            nearest, there = at.int().argmax(1), at.any(1)
            parts.append(torch.stack([place[nearest] * there for place in places], -1).flatten(1))
        return torch.cat(parts, 1).to(symbols.dtype)
