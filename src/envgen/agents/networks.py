"""Networks: observations (B, ...) to a choice of actions and a value. The kind of observation space chooses the body.

pictures (H, W, C) of bytes      Impala      3,948,306 parameters on 64x64x3 with 17 actions, as published
symbols (P,) of bytes            Symbols     under 1M, made for speed on a CPU
vectors (P,) of floats           Vector      two small towers
"""

import math

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional as F

from envgen.worlds.world import SymbolMap

from .errors import SpaceError
from .glance import Glance
from .heads import Categorical, Gaussian, head_for
from .symbols import SymbolLayer


class ActorCritic(nn.Module):
    """A body and two linear heads: what the action head makes of `choice`, and `value` in units of its normaliser."""

    body: "Body"
    head: Categorical | Gaussian

    def __init__(self, observations: spaces.Space, actions: spaces.Space, layout: SymbolMap | None = None):
        super().__init__()
        self.body = body_for(observations, layout)
        self.head = head_for(actions)
        self.choice = nn.Linear(self.body.width, self.head.outputs)
        self.value = nn.Linear(self.body.width, 1)
        nn.init.orthogonal_(self.choice.weight, 0.01)
        nn.init.orthogonal_(self.value.weight, 0.1)
        nn.init.zeros_(self.choice.bias)
        nn.init.zeros_(self.value.bias)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.decide(self.body.prepare(observations))

    def decide(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """From observations that the body has prepared."""
        features = self.body.features(seen)
        with torch.autocast(features.device.type, enabled=False):  # the heads in full precision, whatever the body was
            features = features.float()
            return self.choice(features), self.value(features)[:, 0]  # (B, outputs), (B,)


class Body(nn.Module):
    """Observations to features (B, width)."""

    width: int

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.features(self.prepare(observations))

    def prepare(self, observations: torch.Tensor) -> torch.Tensor:
        """The part that does not learn, done once for all epochs."""
        return observations

    def features(self, seen: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class Normed(nn.Module):
    """Normalise, then a layer without bias, then ReLU. Each output's weights have the norm `scale` at the start."""

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


def _conv(inputs: int, outputs: int, norm: bool = True, scale: float = 1.0) -> Normed:
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=not norm)
    return Normed(nn.GroupNorm(1, inputs) if norm else None, layer, scale)


class Residual(nn.Module):
    def __init__(self, channels: int, scale: float):
        super().__init__()
        self.steps = nn.Sequential(*(_conv(channels, channels, scale=math.sqrt(scale)) for _ in range(2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.steps(x)


class Impala(Body):
    """The encoder of the agent of EnvGen and of Moon et al. (2023), table 9: three stacks, two dense layers."""

    CHANNELS = (64, 128, 128)
    BLOCKS = 2
    width = 1024

    def __init__(self, space: spaces.Box):
        super().__init__()
        height, wide, before = space.shape
        scale = math.sqrt(len(self.CHANNELS)) / math.sqrt(self.BLOCKS)
        layers: list[nn.Module] = []
        for channels in self.CHANNELS:
            layers += [_conv(before, channels, norm=bool(layers)), nn.MaxPool2d(3, 2, padding=1)]
            layers += [nn.GroupNorm(1, channels), *(Residual(channels, scale) for _ in range(self.BLOCKS))]
            before, height, wide = channels, (height + 1) // 2, (wide + 1) // 2
        cells = before * height * wide
        self.stacks = nn.Sequential(*layers, nn.Flatten())
        self.dense = nn.Sequential(
            Normed(nn.LayerNorm(cells), nn.Linear(cells, 256, bias=False), 1.4),
            Normed(nn.LayerNorm(256), nn.Linear(256, self.width, bias=False)),
        )

    def features(self, seen: torch.Tensor) -> torch.Tensor:
        x = seen.permute(0, 3, 1, 2).float() / 255  # (B, C, H, W)
        return self.dense(self.stacks(x))


class Symbols(Body):
    """What stands out in the map (if there is one), its rows summed and normalised, then one wide layer."""

    HIDDEN = 512
    width = 256

    def __init__(self, space: spaces.Box, layout: SymbolMap | None = None):
        super().__init__()
        if space.low.any():
            raise SpaceError(f"symbols count from 0, but the lowest of this observation is {space.low.min()}")
        highest = space.high.astype(np.int64)
        glance = Glance(layout, highest) if layout else None
        self.glance = glance or nn.Identity()
        self.first = SymbolLayer(glance.highest if glance else highest, self.HIDDEN)
        self.dense = nn.Linear(self.HIDDEN, self.width)
        nn.init.orthogonal_(self.dense.weight, math.sqrt(2))
        nn.init.zeros_(self.dense.bias)

    def prepare(self, observations: torch.Tensor) -> torch.Tensor:
        return self.glance(observations)

    def features(self, seen: torch.Tensor) -> torch.Tensor:
        return F.relu(self.dense(self.first(seen)))


class Vector(Body):
    """Two towers side by side, so that actions and values need not share what they see."""

    width = 128

    def __init__(self, space: spaces.Box):
        super().__init__()
        half = self.width // 2
        self.towers = nn.ModuleList()
        for _ in range(2):
            first, second = nn.Linear(space.shape[0], half), nn.Linear(half, half)
            for layer in (first, second):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)
            self.towers.append(nn.Sequential(first, nn.Tanh(), second, nn.Tanh()))

    def features(self, seen: torch.Tensor) -> torch.Tensor:
        return torch.cat([tower(seen.float()) for tower in self.towers], -1)


def body_for(space: spaces.Space, layout: SymbolMap | None = None) -> Body:
    if isinstance(space, spaces.Box):
        if len(space.shape) == 3 and space.dtype == np.uint8:
            return Impala(space)
        if len(space.shape) == 1 and np.issubdtype(space.dtype, np.integer):
            return Symbols(space, layout)
        if len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
            return Vector(space)
    raise SpaceError(
        "observations must be pictures (a uint8 Box of height x width x channels), symbols (a flat Box of integers) or "
        f"vectors (a flat Box of floats), not {space}"
    )


def parameters(network: nn.Module) -> int:
    return sum(weights.numel() for weights in network.parameters())
