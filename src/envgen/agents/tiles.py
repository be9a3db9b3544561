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
from .parallel import padded_size

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
        size = self.num_tiles * self.padded_size
        tiles = prepared.flatten(1)[:, :size].unflatten(1, (self.num_tiles, self.padded_size))
        hidden = self.dense1(self._pool(tiles))
        if self.history is not None:
            hidden = hidden + self.history(prepared[:, size:].float())
        features = F.relu(self.norm1(hidden))
        return F.relu(self.norm2(self.dense2(features)))

    def _pool(self, tiles: torch.Tensor) -> torch.Tensor:
        """Bytes of tiles (B, tiles, padded_size) to the inputs of the first dense layer."""
        grid_size = self.tile_grid.rows, self.tile_grid.columns
        if tiles.device.type == CPU:
            flat = tiles.flatten(0, 1)
            first, index = find_distinct_tiles(flat)
            if torch.is_autocast_enabled(CPU):
                first = F.pad(first, (0, padded_size(len(first)) - len(first)))  # with the first tile
            features, index = self.tiles(flat.index_select(0, first)), index.view(tiles.shape[:2])
            attended = features.new_empty((len(tiles), 0))
            if self.attention is not None:
                around = repeat_rows(features, index.index_select(1, self.attention.indices).flatten())
                attended = self.attention(around.unflatten(0, (len(tiles), len(self.attention.indices))))
            return pool_distinct_tiles(features, index.unflatten(1, grid_size), attended, self.unpooled_width)
        features = self.tiles(tiles)
        pooled = pool_tiles(features.unflatten(1, grid_size), self.unpooled_width)
        if self.attention is None:
            return pooled
        return torch.cat([pooled, self.attention(features.index_select(1, self.attention.indices))], 1)


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
        """Features of the tiles at `indices`, (B, 1 + neighbors, width), to (B, size)."""
        agent, neighbors = features.split([1, self.num_neighbors], 1)
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
        # converted directly to the dtype of the matrix product: bytes are exact in bfloat16
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        weight1 = F.pad(self.linear1.weight / MAX_BYTE, (0, tiles.shape[-1] - self.linear1.in_features))
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


def repeat_rows(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """`rows[index]`. The gradients of copies of a row are added up in float32, in order."""
    return RepeatRows.apply(rows, index)  # pyright: ignore[reportReturnType]


class RepeatRows(torch.autograd.Function):
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
    """Features (B, rows, columns, W) to (B, rows * columns * unpooled_width + (columns + rows) * W).

    The first `unpooled_width` features of each tile, then the maximum of each feature over each column and each row.
    """
    unpooled = features[..., :unpooled_width].flatten(1)
    return torch.cat([unpooled, features.amax(1).flatten(1), features.amax(2).flatten(1)], 1)


def pool_distinct_tiles(
    features: torch.Tensor, index: torch.Tensor, attended: torch.Tensor, unpooled_width: int
) -> torch.Tensor:
    """`pool_tiles` of `features[index]` followed by `attended`, in one pass on the CPU.

    The gradient of a maximum goes to the first of equal features; those of equal tiles are added up in float32.

    Args:
        features: (U, W), none negative.
        index: (B, rows, columns), a row of `features` for each tile.
        attended: (B, A), of the dtype of `features`.
        unpooled_width: How many features of each tile are in the result.
    """
    return PoolDistinctTiles.apply(features, index, attended, unpooled_width)  # pyright: ignore[reportReturnType]


class PoolDistinctTiles(torch.autograd.Function):
    """Non-negative floats are ordered like the integers with the same bits, so the kernel compares integers. This
    covers bfloat16, which numpy does not have."""

    @staticmethod
    def forward(ctx, features, index, attended, unpooled_width):
        (batch_size, rows, columns), width = index.shape, features.shape[1]
        num_unpooled, num_maxima = rows * columns * unpooled_width, (columns + rows) * width
        out = torch.empty((batch_size, num_unpooled + num_maxima + attended.shape[1]), dtype=features.dtype)
        out[:, num_unpooled + num_maxima :] = attended
        integer = torch.int16 if features.dtype == torch.bfloat16 else torch.int32
        origins = torch.empty((batch_size, columns + rows, width), dtype=torch.int32)  # the tile of each maximum
        feature_bits, out_bits = (tensor.view(integer).numpy() for tensor in (features.detach(), out))
        _pool(feature_bits, index.numpy(), unpooled_width, out_bits, origins.numpy())
        ctx.save_for_backward(index, origins)
        ctx.feature_shape, ctx.unpooled_width = features.shape, unpooled_width
        ctx.num_pooled = num_unpooled + num_maxima
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        (index, origins), grad = ctx.saved_tensors, torch.zeros(ctx.feature_shape)
        grad_rows = grad_out.float().contiguous().numpy()
        _pool_backward(grad_rows, index.numpy(), ctx.unpooled_width, origins.numpy(), grad.numpy())
        return grad.to(grad_out.dtype), None, grad_out[:, ctx.num_pooled :], None


@jit
def _pool(features, index, unpooled_width, out, origins):
    """Maxima are those of keys: the bits of a feature, followed by how many tiles come after its tile."""
    (num_rows, num_columns), width = index.shape[1:], features.shape[1]
    num_tiles, num_lines = num_rows * num_columns, num_columns + num_rows
    keys = np.empty((num_lines, width), np.int64)
    for b in range(index.shape[0]):
        keys[:] = 0
        for row in range(num_rows):
            for column in range(num_columns):
                t, tile = row * num_columns + column, features[index[b, row, column]]
                for w in range(unpooled_width):
                    out[b, t * unpooled_width + w] = tile[w]
                for w in range(width):
                    key = (np.int64(tile[w]) << 32) | (num_tiles - 1 - t)
                    keys[column, w] = max(keys[column, w], key)
                    keys[num_columns + row, w] = max(keys[num_columns + row, w], key)
        for line in range(num_lines):
            first = num_tiles * unpooled_width + line * width
            for w in range(width):
                out[b, first + w] = keys[line, w] >> 32
                origins[b, line, w] = num_tiles - 1 - (keys[line, w] & 0xFFFFFFFF)


@jit
def _pool_backward(grad_out, index, unpooled_width, origins, grad):
    """Add the gradients of unpooled features and of maxima to those of the features that they come from."""
    (num_rows, num_columns), width = index.shape[1:], grad.shape[1]
    first_maximum = num_rows * num_columns * unpooled_width
    for b in range(index.shape[0]):
        rows = index[b].ravel()
        for t in range(rows.shape[0]):
            first, out = t * unpooled_width, grad[rows[t]]
            for w in range(unpooled_width):
                out[w] += grad_out[b, first + w]
        for line in range(num_columns + num_rows):
            first = first_maximum + line * width
            for w in range(width):
                grad[rows[origins[b, line, w]], w] += grad_out[b, first + w]
