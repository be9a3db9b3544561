"""Images made of tiles: an encoder that makes learning from pixels fast enough on a CPU.

Where a world's image is a grid of equal tiles (`TileGrid`), one small network, shared by all tiles, replaces the
convolutions. The dense layers see the features of each tile in its place and the maxima of the features over each row
and each column of tiles, so that "a tree three columns to the left" is one input whatever its row. The encoder sees the
pixels and nothing else, night and noise included. Where the world says which tile shows the agent, the tiles around it
are attended to, with weights computed from the agent's tile: its sprite shows which of them it faces.

Pixels are stored as bytes, already cut into tiles. On the CPU, each distinct tile of a batch is computed once, and
cutting, comparing and pooling tiles are kernels; on other devices they are PyTorch operations.
"""

import math
from functools import cache

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from envgen.jit import jit
from envgen.worlds.validation import find_tile_grid_problem
from envgen.worlds.world import TileGrid

from .encoders import Encoder
from .errors import SpaceError

CPU = "cpu"
ALIGNMENT = 32  # bytes: matrix products are twice as fast if tiles begin at multiples of this
MAX_BYTE = 255
PIXEL_GAIN = 3.0  # initial scale of the first layer: pixels from 0 to 1 have a root mean square of about a third


class TileEncoder(Encoder):
    """Images (B, H, W, C) of bytes to features (B, width): shared layers per tile, pooling, then two dense layers.

    Args:
        space: The observation space.
        tile_grid: Where the image has its tiles (`envs.metadata["tile_grid"]`).
        tile_hidden: Width of the first layer of each tile.
        tile_width: Features of each tile.
        unpooled_width: How many of these features the dense layers see for each tile; all by default. Fewer are
            faster, and the maxima over rows and columns still cover all features, but with 8, agents learn Crafter more
            slowly.
        hidden: Width of the first dense layer.
        width: Features of the image.
        num_heads: Heads of the attention to the tiles around the agent.
        num_bits: How many bits of the history enter the first dense layer.
    """

    def __init__(
        self,
        space: spaces.Space,
        tile_grid: TileGrid | None,
        tile_hidden: int = 64,
        tile_width: int = 32,
        unpooled_width: int | None = None,
        hidden: int = 512,
        width: int = 256,
        num_heads: int = 4,
        num_bits: int = 0,
    ):
        super().__init__()
        if tile_grid is None:
            raise SpaceError(
                "the encoder 'tiles' requires images made of tiles (a world whose environments have "
                "metadata[\"tile_grid\"]); use the encoder 'impala' for other images"
            )
        if problem := find_tile_grid_problem(tile_grid, space):
            raise SpaceError(f"invalid tile grid: {problem}")
        assert isinstance(space, spaces.Box)
        self.tile_grid, self.image_shape, self.width = tile_grid, space.shape, width
        self.num_tiles = tile_grid.rows * tile_grid.columns
        self.tile_size = tile_grid.height * tile_grid.width * space.shape[2]
        self.padded_size = -(-self.tile_size // ALIGNMENT) * ALIGNMENT
        self.tiles = TileLayers(self.tile_size, tile_hidden, tile_width)
        self.unpooled_width = tile_width if unpooled_width is None else unpooled_width
        if not 0 <= self.unpooled_width <= tile_width:
            raise ValueError(f"unpooled_width must be from 0 to tile_width={tile_width}, not {unpooled_width}")
        num_pooled = self.num_tiles * self.unpooled_width + (tile_grid.rows + tile_grid.columns) * tile_width
        self.attention: NeighborAttention | None = None
        if tile_grid.agent is not None:
            self.attention = NeighborAttention(tile_grid, tile_width, num_heads)
            num_pooled += self.attention.size
        self.dense1, self.dense2 = nn.Linear(num_pooled, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(width)
        for layer in (self.dense1, self.dense2):
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            nn.init.zeros_(layer.bias)
        self.history = nn.Linear(num_bits, hidden, bias=False) if num_bits else None

    @torch.no_grad()
    def prepare(self, obs: torch.Tensor, bits: torch.Tensor | None = None) -> torch.Tensor:
        """The bytes of each tile, row by row, followed by zeros: (B, tiles, padded_size) uint8.

        With bits, the tiles are flat and the bits follow.
        """
        tiles = self._cut(obs)
        return tiles if bits is None else torch.cat([tiles.flatten(1), bits], 1)

    def _cut(self, obs: torch.Tensor) -> torch.Tensor:
        if obs.shape[1:] != self.image_shape or obs.dtype != torch.uint8:
            raise SpaceError(
                f"images must be uint8 of shape {self.image_shape}, not {obs.dtype} of shape {tuple(obs.shape[1:])}"
            )
        grid = self.tile_grid
        if obs.device.type == CPU:
            tiles = torch.empty((len(obs), self.num_tiles, self.padded_size), dtype=torch.uint8)
            _cut_tiles(obs.contiguous().flatten(2).numpy(), *grid[:-1], self.image_shape[2], tiles.numpy())
            return tiles
        cut = obs[:, grid.top : grid.top + grid.rows * grid.height, grid.left : grid.left + grid.columns * grid.width]
        cut = cut.reshape(len(obs), grid.rows, grid.height, grid.columns, grid.width * self.image_shape[2])
        cut = cut.transpose(2, 3).reshape(len(obs), self.num_tiles, self.tile_size)
        return F.pad(cut, (0, self.padded_size - self.tile_size))

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        grid, size = self.tile_grid, self.num_tiles * self.padded_size
        tiles = prepared.flatten(1)[:, :size].reshape(-1, self.padded_size)
        features = self.tiles(tiles).unflatten(0, (len(prepared), grid.rows, grid.columns))  # (B, rows, columns, width)
        pooled = pool_tiles(features, self.unpooled_width)
        if self.attention is not None:
            pooled = torch.cat([pooled, self.attention(features.flatten(1, 2))], 1)
        hidden = self.dense1(pooled)
        if self.history is not None:
            hidden = hidden + self.history(prepared[:, size:].float())
        features = F.relu(self.norm1(hidden))
        return F.relu(self.norm2(self.dense2(features)))


class NeighborAttention(nn.Module):
    """Attention to the tiles left and right of the agent, above and below it.

    The features of the agent's tile give each head a softmax over these tiles. The outputs of a head are the weighted
    sums of their features.

    Args:
        grid: With the agent's tile.
        width: Features of a tile.
        num_heads: Number of heads.
    """

    indices: torch.Tensor

    def __init__(self, grid: TileGrid, width: int, num_heads: int):
        super().__init__()
        assert grid.agent is not None
        row, column = divmod(grid.agent, grid.columns)
        cells = [(row, column - 1), (row, column + 1), (row - 1, column), (row + 1, column)]
        neighbors = [y * grid.columns + x for y, x in cells if 0 <= y < grid.rows and 0 <= x < grid.columns]
        self.num_heads, self.num_neighbors = num_heads, len(neighbors)
        self.size = num_heads * width
        self.logits = nn.Linear(width, num_heads * self.num_neighbors)
        self.register_buffer("indices", torch.tensor([grid.agent, *neighbors]), persistent=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features (B, tiles, width) to (B, size)."""
        agent, neighbors = features.index_select(1, self.indices).split([1, self.num_neighbors], 1)
        logits = self.logits(agent[:, 0]).unflatten(1, (self.num_heads, self.num_neighbors))
        weights = logits.float().softmax(-1).to(features.dtype)  # (B, heads, neighbors)
        return (weights[..., None] * neighbors[:, None]).sum(2).flatten(1)


@jit
def _cut_tiles(images, height, width, top, left, rows, columns, channels, out):
    """out (B, rows * columns, padded) from images (B, H, W * C)."""
    row_bytes = np.uint64(width * channels)
    for b in range(out.shape[0]):
        for row in range(rows):
            for column in range(columns):
                tile, first = out[b, row * columns + column], np.uint64((left + column * width) * channels)
                tile[height * width * channels :] = 0
                for y in range(height):
                    # Unsigned indices need no wrap-around check, so the compiler copies many bytes at once.
                    source, target = images[b, top + row * height + y], np.uint64(y) * row_bytes
                    for k in range(row_bytes):
                        tile[target + np.uint64(k)] = source[first + np.uint64(k)]


class TileLayers(nn.Module):
    """Bytes of tiles (R, P) to features (R, width): linear layer, ReLU, linear layer, ReLU.

    P is `size` rounded up to a multiple of ALIGNMENT; what follows the first `size` bytes of a tile has no effect.
    """

    def __init__(self, size: int, hidden: int, width: int):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(size, hidden), nn.Linear(hidden, width)
        nn.init.normal_(self.linear1.weight, std=PIXEL_GAIN * size**-0.5)
        nn.init.orthogonal_(self.linear2.weight, math.sqrt(2))
        for layer in (self.linear1, self.linear2):
            nn.init.zeros_(layer.bias)

    def forward(self, tiles: torch.Tensor) -> torch.Tensor:
        device = tiles.device.type
        if device != CPU:
            return self._features(tiles, device)
        first, index = find_distinct_tiles(tiles)
        features = self._features(tiles.index_select(0, first), device)
        return RepeatRows.apply(features, index)  # pyright: ignore[reportReturnType]

    def _features(self, tiles: torch.Tensor, device: str) -> torch.Tensor:
        # converted directly to the dtype of the matrix product: bytes are exact in bfloat16
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        weight1 = F.pad(self.linear1.weight / MAX_BYTE, (0, tiles.shape[1] - self.linear1.in_features))
        return F.relu(self.linear2(F.relu(F.linear(tiles.to(dtype), weight1, self.linear1.bias))))


# ------------------------------------------------------------------------------------------------------- equal tiles
#
# Much of an image repeats: meadows, water, the empty part of an inventory. Equal tiles have equal features, so the CPU
# computes each distinct tile of a batch once and adds up the gradients of its copies.


def find_distinct_tiles(tiles: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each distinct tile of `tiles` (R, P) first occurs, (U,), and which of them each row is, (R,)."""
    first, index = torch.empty(len(tiles), dtype=torch.int64), torch.empty(len(tiles), dtype=torch.int64)
    table = np.full(1 << max(1, 2 * len(tiles) - 1).bit_length(), -1, np.int32)  # at most half full
    words = tiles.contiguous().view(torch.int64).numpy().view(np.uint64)
    count = _find_distinct(words, _hash_factors(words.shape[1]), table, first.numpy(), index.numpy())
    return first[:count], index


@cache
def _hash_factors(num_words: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 1 << 64, num_words, np.uint64) | np.uint64(1)


@jit
def _find_distinct(words, factors, table, first, index):
    """Look up each row in a hash table with linear probing; `table` holds distinct rows by hash, -1 where empty."""
    count = 0
    for r in range(words.shape[0]):
        hashed = np.uint64(0)
        for k in range(words.shape[1]):
            hashed += words[r, k] * factors[k]
        slot = np.int64(hashed >> np.uint64(32)) & (table.size - 1)
        while table[slot] >= 0:
            is_equal, other = True, first[table[slot]]
            for k in range(words.shape[1]):
                is_equal &= words[r, k] == words[other, k]
            if is_equal:
                break
            slot = (slot + 1) & (table.size - 1)
        if table[slot] < 0:
            table[slot], first[count] = count, r
            count += 1
        index[r] = table[slot]
    return count


class RepeatRows(torch.autograd.Function):
    """`rows[index]`. The gradients of copies of a row are added up in float32, in order."""

    @staticmethod
    def forward(ctx, rows, index):
        ctx.save_for_backward(index)
        ctx.shape = rows.shape
        return rows.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        (index,), grad = ctx.saved_tensors, torch.zeros(ctx.shape)
        _add_rows(grad_out.float().contiguous().numpy(), index.numpy(), grad.numpy())
        return grad.to(grad_out.dtype), None


@jit
def _add_rows(rows, index, out):
    for r in range(rows.shape[0]):
        for w in range(rows.shape[1]):
            out[index[r], w] += rows[r, w]


# ------------------------------------------------------------------------------------------------------------ pooling


def pool_tiles(features: torch.Tensor, unpooled_width: int) -> torch.Tensor:
    """Features (B, rows, columns, W), none negative, to (B, rows * columns * unpooled_width + (columns + rows) * W).

    The first `unpooled_width` features of each tile, then the maximum of each feature over each column and each row.
    """
    unpooled = features[..., :unpooled_width].flatten(1)
    if features.device.type == CPU:
        return torch.cat([unpooled, GridMaxima.apply(features)], 1)  # pyright: ignore[reportArgumentType]
    return torch.cat([unpooled, features.amax(1).flatten(1), features.amax(2).flatten(1)], 1)


class GridMaxima(torch.autograd.Function):
    """Maxima over each column and each row, (B, (columns + rows) * W). The gradient goes to the first of equal maxima.

    Non-negative floats are ordered like the integers with the same bits, so the kernels compare integers. This covers
    bfloat16, which numpy does not have.
    """

    @staticmethod
    def forward(ctx, features):
        batch_size, rows, columns, width = features.shape
        integer = torch.int16 if features.dtype == torch.bfloat16 else torch.int32
        maxima = torch.empty((batch_size, columns + rows, width), dtype=features.dtype)
        _find_maxima(features.detach().view(integer).numpy(), maxima.view(integer).numpy())
        ctx.save_for_backward(features, maxima)
        ctx.integer = integer
        return maxima.flatten(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        features, maxima = (tensor.detach() for tensor in ctx.saved_tensors)
        grad = torch.zeros(features.shape)
        grad_maxima = torch.empty(maxima.shape).copy_(grad_out.view(maxima.shape))  # the kernel changes it
        feature_bits, maxima_bits = (tensor.view(ctx.integer).numpy() for tensor in (features, maxima))
        _find_maxima_backward(feature_bits, maxima_bits, grad_maxima.numpy(), grad.numpy())
        return grad.to(features.dtype)


@jit
def _find_maxima(features, out):
    num_rows, num_columns, width = features.shape[1:]
    for b in range(features.shape[0]):
        out[b] = 0
        for row in range(num_rows):
            for column in range(num_columns):
                tile, column_max, row_max = features[b, row, column], out[b, column], out[b, num_columns + row]
                for w in range(width):
                    column_max[w] = max(column_max[w], tile[w])
                    row_max[w] = max(row_max[w], tile[w])


@jit
def _find_maxima_backward(features, maxima, grad_maxima, grad):
    """Add the gradients of the maxima to the features that they come from; `grad_maxima` is overwritten."""
    num_rows, num_columns, width = features.shape[1:]
    for b in range(features.shape[0]):
        for row in range(num_rows):
            for column in range(num_columns):
                tile, out = features[b, row, column], grad[b, row, column]
                for line in (column, num_columns + row):
                    line_maxima, line_grad = maxima[b, line], grad_maxima[b, line]
                    for w in range(width):
                        is_first = tile[w] == line_maxima[w]
                        out[w] += line_grad[w] if is_first else np.float32(0)
                        line_grad[w] = np.float32(0) if is_first else line_grad[w]
