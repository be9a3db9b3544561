"""Networks: observations (B, ...) to the parameters of an action distribution and a value.

The observation space selects the encoder (`make_encoder`), the action space the distribution (`make_distribution`):

    images (H, W, C) of bytes    ImpalaEncoder    3,948,306 parameters on 64x64x3 with 17 actions, as published
    symbols (P,) of integers     SymbolEncoder    under 1M, fast on a CPU
    vectors (P,) of floats       MlpEncoder       two small towers

    Discrete                     Categorical
    bounded Box of floats        DiagGaussian
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional as F

from envgen.worlds.world import SymbolMap

from .errors import SpaceError
from .parallel import autocast
from .symbols import NearestSymbolEncoder, SymbolEmbedding

LOG_SQRT_2PI = math.log(2 * math.pi) / 2


class PolicyNetwork(nn.Module):
    """What PPO requires of a network. Subclass it to train a network of your own.

    Pass the subclass (or any function with the same arguments) to `PPO(..., network_factory=...)`.

    Attributes:
        action_dist: The distribution that `forward_prepared` returns parameters for; see `make_distribution`.
    """

    action_dist: "Categorical | DiagGaussian"

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Distribution parameters (B, action_dist.num_params) and normalized values (B,) of observations (B, ...)."""
        return self.forward_prepared(self.prepare(obs))

    def prepare(self, obs: torch.Tensor) -> torch.Tensor:
        """The part of the forward pass without learned parameters. PPO stores its result and reuses it each epoch."""
        return obs

    def forward_prepared(self, prepared: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `forward`, from the result of `prepare`."""
        raise NotImplementedError


class ActorCritic(PolicyNetwork):
    """An encoder with two linear heads, `policy_head` and `value_head`. The value is in units of `ReturnNormalizer`."""

    encoder: "Encoder"

    def __init__(
        self, observation_space: spaces.Space, action_space: spaces.Space, symbol_map: SymbolMap | None = None
    ):
        super().__init__()
        self.encoder = make_encoder(observation_space, symbol_map)
        self.action_dist = make_distribution(action_space)
        self.policy_head = nn.Linear(self.encoder.width, self.action_dist.num_params)
        self.value_head = nn.Linear(self.encoder.width, 1)
        nn.init.orthogonal_(self.policy_head.weight, 0.01)
        nn.init.orthogonal_(self.value_head.weight, 0.1)
        nn.init.zeros_(self.policy_head.bias)
        nn.init.zeros_(self.value_head.bias)

    def prepare(self, obs: torch.Tensor) -> torch.Tensor:
        return self.encoder.prepare(obs)

    def forward_prepared(self, prepared: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.encoder.encode(prepared)
        with torch.autocast(features.device.type, enabled=False):  # the heads stay in float32
            features = features.float()
            return self.policy_head(features), self.value_head(features)[:, 0]  # (B, num_params), (B,)


def run_network(
    forward: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], obs: torch.Tensor, bfloat16: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Distribution parameters and values in float32, with matrix products in bfloat16 if requested."""
    with autocast(obs.device, bfloat16):
        dist_params, values = forward(obs)
    return dist_params.float(), values.float()


def count_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# ------------------------------------------------------------------------------------------------------------ encoders


class Encoder(nn.Module):
    """Observations (B, ...) to features (B, width)."""

    width: int

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.encode(self.prepare(obs))

    def prepare(self, obs: torch.Tensor) -> torch.Tensor:
        """The part without learned parameters, done once for all epochs."""
        return obs

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


def make_encoder(space: spaces.Space, symbol_map: SymbolMap | None = None) -> Encoder:
    """The encoder for an observation space. A new encoder needs its class and a line here."""
    if isinstance(space, spaces.Box):
        if len(space.shape) == 3 and space.dtype == np.uint8:
            return ImpalaEncoder(space)
        if len(space.shape) == 1 and np.issubdtype(space.dtype, np.integer):
            return SymbolEncoder(space, symbol_map)
        if len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
            return MlpEncoder(space)
    raise SpaceError(
        "observations must be images (a uint8 Box of height x width x channels), symbols (a flat Box of integers) or "
        f"vectors (a flat Box of floats), not {space}"
    )


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

    def __init__(self, space: spaces.Box):
        super().__init__()
        height, width, in_channels = space.shape
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

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        x = prepared.permute(0, 3, 1, 2).float() / 255  # (B, C, H, W)
        return self.dense(self.stacks(x))


class SymbolEncoder(Encoder):
    """The informative parts of the map (if there is one), their embeddings summed and normalized, one wide layer."""

    HIDDEN = 512
    width = 256

    def __init__(self, space: spaces.Box, symbol_map: SymbolMap | None = None):
        super().__init__()
        if space.low.any():
            raise SpaceError(f"symbols must start at 0, but the lowest of this observation space is {space.low.min()}")
        max_values = space.high.astype(np.int64)
        nearest = NearestSymbolEncoder(symbol_map, max_values) if symbol_map else None
        self.nearest = nearest or nn.Identity()
        self.embedding = SymbolEmbedding(nearest.max_values if nearest else max_values, self.HIDDEN)
        self.dense = nn.Linear(self.HIDDEN, self.width)
        nn.init.orthogonal_(self.dense.weight, math.sqrt(2))
        nn.init.zeros_(self.dense.bias)

    def prepare(self, obs: torch.Tensor) -> torch.Tensor:
        return self.nearest(obs)

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        return F.relu(self.dense(self.embedding(prepared)))


class MlpEncoder(Encoder):
    """Two towers side by side, so that policy and value need not share features."""

    width = 128

    def __init__(self, space: spaces.Box):
        super().__init__()
        tower_width = self.width // 2
        self.towers = nn.ModuleList()
        for _ in range(2):
            fc1, fc2 = nn.Linear(space.shape[0], tower_width), nn.Linear(tower_width, tower_width)
            for layer in (fc1, fc2):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)
            self.towers.append(nn.Sequential(fc1, nn.Tanh(), fc2, nn.Tanh()))

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        return torch.cat([tower(prepared.float()) for tower in self.towers], -1)


# ------------------------------------------------------------------------------------------------ action distributions
#
# Both sample with noise passed in by the caller, so the caller controls all randomness.


class Categorical(nn.Module):
    """Discrete actions, from one logit per action."""

    def __init__(self, space: spaces.Discrete):
        super().__init__()
        self.num_params = int(space.n)
        self.start = int(space.start)
        self.shape: tuple[int, ...] = ()  # of one action
        self.dtype = torch.int64

    def noise(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.random(count, np.float32)

    def sample(self, logits: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Inverse transform sampling: (B, n), (B,) -> (B,)"""
        cumulative = logits.softmax(-1).cumsum(-1)
        return (cumulative[:, :-1] <= noise[:, None] * cumulative[:, -1:]).sum(-1)

    def mode(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.argmax(-1)

    def log_prob_and_entropy(self, logits: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-probability of `actions` and the entropy of the distribution, both (B,)."""
        log_probs = logits.log_softmax(-1)
        return log_probs.gather(-1, actions[:, None])[:, 0], -(log_probs.exp() * log_probs).sum(-1)

    def to_action(self, actions: torch.Tensor) -> np.ndarray:
        """Actions as the environment expects them."""
        return actions.cpu().numpy() + self.start


class DiagGaussian(nn.Module):
    """Continuous actions, from their mean. The standard deviation is learned and does not depend on the state."""

    def __init__(self, space: spaces.Box):
        super().__init__()
        self.num_params = int(np.prod(space.shape))
        self.shape = (self.num_params,)
        self.dtype = torch.float32
        self.space = space
        self.log_std = nn.Parameter(torch.zeros(self.num_params))

    def noise(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.standard_normal((count, self.num_params), np.float32)

    def sample(self, mean: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return mean + self.log_std.exp() * noise

    def mode(self, mean: torch.Tensor) -> torch.Tensor:
        return mean

    def log_prob_and_entropy(self, mean: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z_scores = (actions - mean) / self.log_std.exp()
        log_prob = (-z_scores.square() / 2 - self.log_std - LOG_SQRT_2PI).sum(-1)
        entropy = (self.log_std + LOG_SQRT_2PI + 0.5).sum()
        return log_prob, entropy.expand(len(mean))

    def to_action(self, actions: torch.Tensor) -> np.ndarray:
        """Clipped to the space; PPO learns from the unclipped sample."""
        reshaped = actions.cpu().numpy().reshape(-1, *self.space.shape)
        return np.clip(reshaped, self.space.low, self.space.high).astype(self.space.dtype)


def make_distribution(space: spaces.Space) -> Categorical | DiagGaussian:
    """The distribution for an action space."""
    if isinstance(space, spaces.Discrete):
        return Categorical(space)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.is_bounded():
        return DiagGaussian(space)
    raise SpaceError(f"actions must be Discrete or a bounded Box of floats, not {space}")
