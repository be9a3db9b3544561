"""Encoders: observations, together with the bits of a history if there are any, to features."""

import math

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional as F

from envgen.worlds.world import SymbolMap

from .errors import SpaceError
from .symbols import NearestSymbolEncoder, SymbolEmbedding


class Encoder(nn.Module):
    """Observations (B, ...) and the bits of a history, if any, to features (B, width)."""

    width: int

    def forward(self, obs: torch.Tensor, bits: torch.Tensor | None = None) -> torch.Tensor:
        return self.encode(self.prepare(obs, bits))

    def prepare(self, obs: torch.Tensor, bits: torch.Tensor | None = None) -> torch.Tensor:
        """The part without learned parameters, done once for all epochs."""
        return obs if bits is None else torch.cat([obs.flatten(1), bits], 1)

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class NormedLayer(nn.Module):
    """Normalization, a linear or convolutional layer, ReLU. Each output's weights start with the norm `scale`."""

    def __init__(self, norm: nn.Module | None, layer: nn.Conv2d | nn.Linear, scale: float = 1.0):
        super().__init__()
        self.norm, self.layer = norm or nn.Identity(), layer
        with torch.no_grad():
            fan_in = tuple(range(1, layer.weight.ndim))
            layer.weight *= scale / torch.linalg.vector_norm(layer.weight, dim=fan_in, keepdim=True)
            if layer.bias is not None:
                layer.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layer(self.norm(x)))


def _conv(in_channels: int, out_channels: int, norm: bool = True, scale: float = 1.0) -> NormedLayer:
    layer = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=not norm)
    return NormedLayer(nn.GroupNorm(1, in_channels) if norm else None, layer, scale)


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, scale: float):
        super().__init__()
        self.layers = nn.Sequential(*(_conv(channels, channels, scale=math.sqrt(scale)) for _ in range(2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class ImpalaEncoder(Encoder):
    """The encoder of EnvGen's agent (Moon et al. 2023, table 9): three IMPALA stacks and two dense layers."""

    CHANNELS = (64, 128, 128)
    BLOCKS = 2
    width = 1024

    def __init__(self, space: spaces.Box, num_bits: int = 0):
        super().__init__()
        self.shape = height, width, in_channels = space.shape
        scale = math.sqrt(len(self.CHANNELS)) / math.sqrt(self.BLOCKS)
        layers: list[nn.Module] = []
        for channels in self.CHANNELS:
            layers += [_conv(in_channels, channels, norm=bool(layers)), nn.MaxPool2d(3, 2, padding=1)]
            layers += [nn.GroupNorm(1, channels), *(ResidualBlock(channels, scale) for _ in range(self.BLOCKS))]
            in_channels, height, width = channels, (height + 1) // 2, (width + 1) // 2
        flat_size = in_channels * height * width
        self.stacks = nn.Sequential(*layers, nn.Flatten())
        self.dense = nn.Sequential(
            NormedLayer(nn.LayerNorm(flat_size), nn.Linear(flat_size, 256, bias=False), 1.4),
            NormedLayer(nn.LayerNorm(256), nn.Linear(256, self.width, bias=False)),
        )
        self.history = nn.Linear(num_bits, 256) if num_bits else None

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        size = math.prod(self.shape)
        images = prepared.flatten(1)[:, :size].unflatten(1, self.shape)
        x = images.permute(0, 3, 1, 2).float() / 255  # (B, C, H, W)
        x = self.stacks(x)
        if self.history is None:
            return self.dense(x)
        first, second = self.dense
        return second(first(x) + self.history(prepared[:, size:].float()))


class SymbolEncoder(Encoder):
    """The informative parts of the map (if there is one), their embeddings summed and normalized, dense layers."""

    def __init__(
        self,
        space: spaces.Box,
        symbol_map: SymbolMap | None = None,
        width: int = 256,
        depth: int = 1,
        num_bits: int = 0,
    ):
        super().__init__()
        if space.low.any():
            raise SpaceError(f"symbols must start at 0, but the lowest of this observation space is {space.low.min()}")
        max_values = space.high.astype(np.int64)
        nearest = NearestSymbolEncoder(symbol_map, max_values) if symbol_map else None
        self.nearest = nearest or nn.Identity()
        max_values = nearest.max_values if nearest else max_values
        self.width, hidden = width, 2 * width
        self.embedding = SymbolEmbedding(max_values, hidden, num_bits)
        self.dense = nn.Linear(hidden, width)
        self.more_dense = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 1))
        for layer in (self.dense, *self.more_dense):
            assert isinstance(layer, nn.Linear)
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            nn.init.zeros_(layer.bias)

    def prepare(self, obs: torch.Tensor, bits: torch.Tensor | None = None) -> torch.Tensor:
        symbols = self.nearest(obs)
        if bits is None:
            return symbols
        if symbols.dtype in (torch.uint16, torch.uint32, torch.uint64):  # these cannot be concatenated with bytes
            symbols = symbols.long()
        return torch.cat([symbols, bits], 1)

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        features = F.relu(self.dense(self.embedding(prepared)))
        for layer in self.more_dense:
            features = F.relu(layer(features))
        return features


class MlpEncoder(Encoder):
    """Two towers side by side, so that policy and value need not share features."""

    width = 128

    def __init__(self, space: spaces.Box, num_bits: int = 0):
        super().__init__()
        tower_width = self.width // 2
        self.towers = nn.ModuleList()
        for _ in range(2):
            fc1, fc2 = nn.Linear(space.shape[0] + num_bits, tower_width), nn.Linear(tower_width, tower_width)
            for layer in (fc1, fc2):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)
            self.towers.append(nn.Sequential(fc1, nn.Tanh(), fc2, nn.Tanh()))

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        return torch.cat([tower(prepared.float()) for tower in self.towers], -1)
