"""Symbolic observations: integer vectors in which each entry ("slot") holds a category, for example a map of materials.

`NearestSymbolEncoder` reduces a map to its informative parts. `SymbolEmbedding` is the first layer: it sums one
embedding per (slot, symbol) pair, which equals a linear layer over one-hot symbols without building the one-hots.
On the CPU both run as numba kernels; on other devices they use PyTorch operations.
"""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from envgen.jit import jit, jit_fastmath
from envgen.worlds.world import SymbolMap

from .errors import SpaceError

CPU = "cpu"
MAX_CATEGORIES = 32  # a slot with more values than this is a scalar
MAX_MAP_SIZE = 255  # rows and columns are encoded as bytes, counted from 1
EPSILON = np.float32(1e-5)  # of both layer norms


def check_size(symbols: torch.Tensor, size: int) -> None:
    """Refuse observations of another length: the kernels index slots without bounds checks."""
    if symbols.shape[1:] != (size,):
        raise SpaceError(f"each observation must have {size} symbols, but its shape is {tuple(symbols.shape[1:])}")


def check_symbol_map(symbol_map: SymbolMap, max_values: np.ndarray) -> None:
    """Refuse a map that does not fit observations with these maximum values."""
    m = symbol_map
    offsets = [offset for direction in m.direction_offsets for offset in direction]
    numbers = [m.planes, m.rows, m.columns, m.center, m.near_radius, *offsets]
    numbers += [] if m.facing_index is None else [m.facing_index]
    if not all(isinstance(number, Integral) for number in numbers):
        problem = "all of its values must be integers"
    elif min(m.planes, m.rows, m.columns) < 1 or m.planes * m.rows * m.columns > len(max_values):
        problem = f"planes x rows x columns must be from 1 to {len(max_values)}, the length of an observation"
    elif max(m.rows, m.columns) > MAX_MAP_SIZE:
        problem = f"rows and columns must be at most {MAX_MAP_SIZE}"
    elif not 0 <= m.center < m.rows * m.columns:
        problem = f"center must be a cell from 0 to {m.rows * m.columns - 1}"
    elif m.facing_index is not None and not 0 <= m.facing_index < len(max_values):
        problem = f"facing_index must be from 0 to {len(max_values) - 1}"
    elif m.facing_index is not None and len(m.direction_offsets) < max_values[m.facing_index]:
        problem = f"direction_offsets must have {max_values[m.facing_index]} entries, one for each direction"
    elif not all(0 <= m.center + x + y * m.columns < m.rows * m.columns for x, y in m.direction_offsets):
        problem = "direction_offsets must lead to cells on the map"
    else:
        return
    raise SpaceError(f"invalid symbol map {m}: {problem}")


# ------------------------------------------------------------------------------------- from a map to informative parts


@jit
def _find_nearest(symbols, order, column_codes, row_codes, num_cells, num_symbols, first_slot, out):
    """out[b, first_slot[plane] + 2 (s - 1)] and the entry after it: the codes of the nearest cell with symbol s."""
    for b in range(out.shape[0]):
        out[b] = 0
        for plane in range(first_slot.size):
            for cell in order:
                symbol = np.int64(symbols[b, plane * num_cells + cell])
                if 0 < symbol <= num_symbols[plane]:
                    slot = first_slot[plane] + 2 * (symbol - 1)
                    if out[b, slot] == 0:
                        out[b, slot] = column_codes[cell]
                        out[b, slot + 1] = row_codes[cell]


class NearestSymbolEncoder(nn.Module):
    """Reduces observations (B, P) that hold a map to fewer symbols (B, Q). It has no learned parameters.

    It keeps, in this order:

    - every cell near the center of the map, and all entries outside the map;
    - the symbols of the cell that the agent faces, if the world says which one that is;
    - for each symbol of each plane, the column and row offset of its nearest cell (counted from 1; 0 if absent).

    "A tree three cells to the left" is then one input wherever else trees are, and "a cow ahead" is one input rather
    than a conjunction to be learned for each direction. `max_values` (Q,) holds the highest value of each output.
    """

    kept_slots: torch.Tensor
    facing_cells: torch.Tensor

    def __init__(self, symbol_map: SymbolMap, max_values: np.ndarray):
        super().__init__()
        check_symbol_map(symbol_map, max_values)
        self.symbol_map, self.size = symbol_map, len(max_values)
        num_cells, center = symbol_map.rows * symbol_map.columns, symbol_map.center
        y, x = np.divmod(np.arange(num_cells), symbol_map.columns)
        dx, dy = x - center % symbol_map.columns, y - center // symbol_map.columns
        manhattan, chebyshev = abs(dx) + abs(dy), np.maximum(abs(dx), abs(dy))
        self.order = np.lexsort((chebyshev, manhattan))[1:]  # by distance, without the center itself
        self.column_codes = (dx - dx.min() + 1).astype(np.uint8)
        self.row_codes = (dy - dy.min() + 1).astype(np.uint8)
        near_cells = np.flatnonzero(chebyshev <= symbol_map.near_radius)
        kept_slots = [plane * num_cells + near_cells for plane in range(symbol_map.planes)]
        kept_slots.append(np.arange(symbol_map.planes * num_cells, len(max_values)))
        kept_indices = np.concatenate(kept_slots)
        self.num_symbols = symbol_map.num_symbols(max_values)
        self.first_slot = 2 * (np.cumsum(self.num_symbols) - self.num_symbols)
        self.num_nearest = int(2 * self.num_symbols.sum())
        facing_max = self.num_symbols[: 0 if symbol_map.facing_index is None else None]
        nearest_max = np.tile([self.column_codes.max(), self.row_codes.max()], self.num_symbols.sum())
        self.max_values = np.concatenate([max_values[kept_indices], facing_max, nearest_max]).astype(np.int64)
        self.register_buffer("kept_slots", torch.from_numpy(kept_indices), persistent=False)
        self.register_buffer("facing_cells", torch.from_numpy(symbol_map.facing_cells()), persistent=False)

    @torch.no_grad()
    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        check_size(symbols, self.size)
        return torch.cat([symbols[:, self.kept_slots], *self._facing(symbols), self._nearest(symbols)], 1)

    def _facing(self, symbols: torch.Tensor) -> list[torch.Tensor]:
        """The symbols (B, planes) of the cell that the agent faces, if the map defines one."""
        if self.symbol_map.facing_index is None:
            return []
        cell = self.facing_cells[symbols[:, self.symbol_map.facing_index].long()]  # (B,)
        num_cells = self.symbol_map.rows * self.symbol_map.columns
        plane_starts = torch.arange(self.symbol_map.planes, device=symbols.device) * num_cells
        return [symbols.gather(1, cell[:, None] + plane_starts)]

    def _nearest(self, symbols: torch.Tensor) -> torch.Tensor:
        num_cells = self.symbol_map.rows * self.symbol_map.columns
        if symbols.device.type == CPU:
            out = torch.empty((len(symbols), self.num_nearest), dtype=symbols.dtype)
            tables = self.order, self.column_codes, self.row_codes, num_cells, self.num_symbols, self.first_slot
            _find_nearest(symbols.numpy(), *tables, out.numpy())  # pyright: ignore[reportCallIssue]
            return out
        order, parts = torch.from_numpy(self.order).to(symbols.device), []
        codes = [torch.from_numpy(a[self.order]).to(symbols.device) for a in (self.column_codes, self.row_codes)]
        for plane, count in enumerate(self.num_symbols):
            plane_symbols = torch.arange(1, count + 1, device=symbols.device)
            matches = symbols[:, plane * num_cells + order, None] == plane_symbols  # (B, cells, symbols)
            nearest, present = matches.int().argmax(1), matches.any(1)
            parts.append(torch.stack([code[nearest] * present for code in codes], -1).flatten(1))
        return torch.cat(parts, 1).to(symbols.dtype)


# --------------------------------------------------------------------------------------------------- the first layer


class SlotLayout(NamedTuple):
    """Which slots of an observation hold symbols, and which rows of the embedding belong to them."""

    slots: np.ndarray  # (Q,)
    num_symbols: np.ndarray  # (Q,) of each slot, not counting 0
    first_row: np.ndarray  # (Q,) the row of symbol 1


class LayerParams(NamedTuple):
    """The parameters of `SymbolEmbedding`, or their gradients."""

    embedding: Any  # (rows, width)
    scalar_weight: Any  # (scalars, width)
    bias: Any  # (width,), as all below
    norm1_weight: Any
    norm1_bias: Any
    norm2_weight: Any
    norm2_bias: Any


class SymbolEmbedding(nn.Module):
    """Symbols (B, P), each from 0 to its entry in `max_values`, and then `num_bits` bits, to features (B, width).

    Sums one embedding per slot and applies LayerNorm, ReLU and LayerNorm. Symbol 0 means "nothing" and has no
    embedding, so empty slots cost nothing. Entries with too many values for a category (such as daylight, 0 to 255)
    enter as scalars in [0, 1] through a linear layer.
    """

    slots: torch.Tensor
    num_symbols: torch.Tensor
    first_row: torch.Tensor
    scalar_slots: torch.Tensor
    scalar_max: torch.Tensor

    def __init__(self, max_values: np.ndarray, width: int, num_bits: int = 0):
        super().__init__()
        fan_in = len(max_values)
        max_values = np.concatenate([max_values, np.ones(num_bits, np.int64)])
        is_symbol = max_values < MAX_CATEGORIES
        num_symbols = max_values[is_symbol].astype(np.int64)
        self.layout = SlotLayout(np.flatnonzero(is_symbol), num_symbols, np.cumsum(num_symbols) - num_symbols)
        scalar_slots = np.flatnonzero(~is_symbol)
        self.size = len(max_values)
        # initialized like two linear layers: one over all slots but the bits, one over the scalars
        self.embedding = nn.Parameter(torch.empty(int(num_symbols.sum()), width).normal_(std=fan_in**-0.5))
        bound = max(1, len(scalar_slots)) ** -0.5
        self.scalar_weight = nn.Parameter(torch.empty(len(scalar_slots), width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(width))
        self.norms = nn.ModuleList([nn.LayerNorm(width, float(EPSILON)) for _ in range(2)])
        for name, array in zip(SlotLayout._fields, self.layout, strict=True):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)
        scalar_max = max_values[scalar_slots].astype(np.float32)
        self.register_buffer("scalar_slots", torch.from_numpy(scalar_slots), persistent=False)
        self.register_buffer("scalar_max", torch.from_numpy(scalar_max), persistent=False)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        check_size(symbols, self.size)
        scalars = symbols[:, self.scalar_slots].float() / self.scalar_max
        norm1, norm2 = self.norms
        if symbols.device.type == CPU:
            norm_params = norm1.weight, norm1.bias, norm2.weight, norm2.bias
            params = LayerParams(self.embedding, self.scalar_weight, self.bias, *norm_params)
            return FusedEmbeddingBag.apply(symbols, scalars, self.layout, *params)  # pyright: ignore[reportReturnType]
        values = symbols[:, self.slots].long()
        padding, has_row = len(self.embedding), (values > 0) & (values <= self.num_symbols)
        rows = torch.where(has_row, self.first_row + values - 1, padding)
        embedding = F.pad(self.embedding, (0, 0, 0, 1))
        summed = F.embedding_bag(rows, embedding, mode="sum", padding_idx=padding)
        return norm2(F.relu(norm1(summed + scalars @ self.scalar_weight + self.bias)))


# ------------------------------------------------------------------------------------- the same layer as one CPU kernel
#
# As separate operations, each step reads and writes all of (B, width) in memory. Here the features of one observation
# stay in the L1 cache throughout, and the gradient does not sort indices as `embedding_bag`'s does.


@jit_fastmath
def _add(x, out):
    for h in range(out.size):
        out[h] += x[h]


@jit_fastmath
def _standardize(x, out):
    """out = (x - mean) * inverse_std; returns inverse_std."""
    mean = np.float32(0)
    for h in range(x.size):
        mean += x[h]
    mean /= np.float32(x.size)
    square_sum = np.float32(0)
    for h in range(x.size):
        square_sum += (x[h] - mean) * (x[h] - mean)
    inverse_std = np.float32(1) / np.sqrt(square_sum / np.float32(x.size) + EPSILON)
    for h in range(x.size):
        out[h] = (x[h] - mean) * inverse_std
    return inverse_std


@jit_fastmath
def _standardize_backward(standardized, inverse_std, grad):
    """Turn the gradient of `standardized` into the gradient of the input of `_standardize`, in place."""
    mean, projection = np.float32(0), np.float32(0)
    for h in range(grad.size):
        mean += grad[h]
        projection += grad[h] * standardized[h]
    mean /= np.float32(grad.size)
    projection /= np.float32(grad.size)
    for h in range(grad.size):
        grad[h] = (grad[h] - mean - standardized[h] * projection) * inverse_std


@jit_fastmath
def _scale_relu(standardized, params, out):
    for h in range(out.size):
        out[h] = max(standardized[h] * params.norm1_weight[h] + params.norm1_bias[h], np.float32(0))


@jit_fastmath
def _forward(symbols, scalars, layout, params, standardized, inverse_std, out):
    """out (B, width). `standardized` (B, width) and `inverse_std` (B,) are saved for `_backward`."""
    x = np.empty(params.bias.size, np.float32)
    for b in range(out.shape[0]):
        for h in range(x.size):
            x[h] = params.bias[h]
        for n in range(params.scalar_weight.shape[0]):
            for h in range(x.size):
                x[h] += scalars[b, n] * params.scalar_weight[n, h]
        for q in range(layout.slots.size):
            symbol = np.int64(symbols[b, layout.slots[q]])
            if 0 < symbol <= layout.num_symbols[q]:  # never read beyond the embedding
                _add(params.embedding[layout.first_row[q] + symbol - 1], x)
        inverse_std[b] = _standardize(x, standardized[b])
        _scale_relu(standardized[b], params, x)
        _standardize(x, x)
        for h in range(x.size):
            out[b, h] = x[h] * params.norm2_weight[h] + params.norm2_bias[h]


@jit_fastmath
def _backward(symbols, scalars, layout, params, standardized, inverse_std, grad_out, grads):
    """Add the gradients of all parameters to `grads` (LayerParams), given the gradient (B, width) of the output."""
    width = params.bias.size
    hidden, hidden_standardized = np.empty(width, np.float32), np.empty(width, np.float32)
    grad = np.empty(width, np.float32)
    for b in range(grad_out.shape[0]):
        _scale_relu(standardized[b], params, hidden)
        hidden_inverse_std = _standardize(hidden, hidden_standardized)
        for h in range(width):
            grads.norm2_weight[h] += grad_out[b, h] * hidden_standardized[h]
            grads.norm2_bias[h] += grad_out[b, h]
            grad[h] = grad_out[b, h] * params.norm2_weight[h]
        _standardize_backward(hidden_standardized, hidden_inverse_std, grad)
        for h in range(width):
            grad[h] = grad[h] if hidden[h] > 0 else np.float32(0)
            grads.norm1_weight[h] += grad[h] * standardized[b, h]
            grads.norm1_bias[h] += grad[h]
            grad[h] *= params.norm1_weight[h]
        _standardize_backward(standardized[b], inverse_std[b], grad)
        _add(grad, grads.bias)
        for n in range(params.scalar_weight.shape[0]):
            for h in range(width):
                grads.scalar_weight[n, h] += scalars[b, n] * grad[h]
        for q in range(layout.slots.size):
            symbol = np.int64(symbols[b, layout.slots[q]])
            if 0 < symbol <= layout.num_symbols[q]:
                _add(grad, grads.embedding[layout.first_row[q] + symbol - 1])


class FusedEmbeddingBag(torch.autograd.Function):
    """`SymbolEmbedding` as one pass over each observation and one pass back. Contiguous CPU tensors only."""

    @staticmethod
    def forward(ctx, symbols, scalars, layout, *params):
        batch_size, width = len(symbols), len(params[2])
        standardized, inverse_std = torch.empty(batch_size, width), torch.empty(batch_size)
        out = torch.empty(batch_size, width)
        ctx.save_for_backward(symbols, scalars, standardized, inverse_std, *params)
        ctx.layout = layout
        arrays = LayerParams(*(param.detach().numpy() for param in params))
        _forward(
            symbols.numpy(), scalars.numpy(), layout, arrays, standardized.numpy(), inverse_std.numpy(), out.numpy()
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        symbols, scalars, standardized, inverse_std, *params = (tensor.detach() for tensor in ctx.saved_tensors)
        grads = [torch.zeros_like(param) for param in params]
        param_arrays, grad_arrays = (LayerParams(*(t.numpy() for t in tensors)) for tensors in (params, grads))
        saved = standardized.numpy(), inverse_std.numpy(), grad_out.contiguous().numpy()
        _backward(symbols.numpy(), scalars.numpy(), ctx.layout, param_arrays, *saved, grad_arrays)
        return None, None, None, *grads
