"""Networks: observations (B, ...) to the parameters of an action distribution and a value.

The observation space selects the encoder (`make_encoder`) unless `NetworkSettings.encoder` names one, and the action
space selects the distribution (`make_distribution`):

    images (H, W, C) of bytes    ImpalaEncoder    3,948,306 parameters on 64x64x3 with 17 actions, as published
                                 TileEncoder      for images made of tiles, many times faster on a CPU
    symbols (P,) of integers     SymbolEncoder    under 1M, fast on a CPU
    vectors (P,) of floats       MlpEncoder       two small towers

    Discrete                     Categorical
    bounded Box of floats        DiagGaussian
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import nn

from envgen.worlds.world import Layout, SymbolMap, TileGrid

from .encoders import Encoder, ImpalaEncoder, MlpEncoder, SymbolEncoder
from .errors import SpaceError
from .memory import AgentMemory, HistorySpec
from .parallel import ThreadedGradients, autocast
from .recurrent import CORES, RecurrentCore
from .settings import NetworkSettings
from .tiles import TileEncoder

LOG_SQRT_2PI = math.log(2 * math.pi) / 2


class PolicyNetwork(nn.Module):
    """What PPO requires of a network. Subclass it to train a network of your own.

    Pass the subclass (or any function with the same arguments) to `PPO(..., network_factory=...)`.

    Attributes:
        action_dist: The distribution that `forward_prepared` returns parameters for; see `make_distribution`.
        state_size: Size of the recurrent state; 0 for networks without one. Networks with one define
            `forward_sequence`.
        history_spec: The bits that `prepare` expects in addition to observations; None for none.
        acts_in_chunks: Actions are chosen in two threads, for half of the environments each. Faster for networks that
            take much longer than the environments.
    """

    action_dist: "Categorical | DiagGaussian"
    state_size: int = 0
    history_spec: HistorySpec | None = None
    acts_in_chunks: bool = False

    def new_memory(self, num_envs: int, device: torch.device) -> AgentMemory:
        """What this network remembers of `num_envs` environments, at the start of their episodes."""
        return AgentMemory(self.state_size, self.history_spec, num_envs, device)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Distribution parameters (B, action_dist.num_params) and normalized values (B,) of observations (B, ...)."""
        return self.forward_prepared(self.prepare(obs))

    def prepare(self, obs: torch.Tensor, bits: torch.Tensor | None = None) -> torch.Tensor:
        """The part of the forward pass without learned parameters. PPO stores its result and reuses it each epoch.

        Networks with a `history_spec` also receive `bits` (B, history_spec.num_bits).
        """
        return obs

    def forward_prepared(self, prepared: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `forward`, from the result of `prepare`."""
        raise NotImplementedError

    def forward_sequence(
        self, prepared: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The forward pass of a network with memory.

        Args:
            prepared: (B, T, ...), what `prepare` returned for T steps of B environments.
            state: (B, state_size), the recurrent state before the first step.
            starts: (B, T) bool, whether an episode starts with the step.

        Returns:
            Distribution parameters (B * T, num_params), values (B * T,) and the state after the last step.
        """
        raise NotImplementedError


class ActorCritic(PolicyNetwork):
    """An encoder, a recurrent core if there is one, and two linear heads, `policy_head` and `value_head`.

    With a core, the heads see the features of encoder and core, concatenated. The value is in units of
    `ReturnNormalizer`. `reward_bit_threshold` adds one bit after all others, which the encoder does not receive:
    whether the last step's reward was larger than this.
    """

    encoder: Encoder
    """The encoder of observations."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        layout: Layout = None,
        settings: NetworkSettings | None = None,
        reward_bit_threshold: float | None = None,
    ):
        super().__init__()
        self.settings = settings = settings or NetworkSettings()
        has_memory = settings.memory != "none"
        if has_memory or settings.history or reward_bit_threshold is not None:
            self.history_spec = HistorySpec(
                observation_space, action_space, layout, has_memory, settings.history, reward_bit_threshold
            )
        num_bits = self.history_spec.num_bits if self.history_spec else 0
        num_encoded_bits = num_bits - (reward_bit_threshold is not None)
        self.encoder = make_encoder(observation_space, layout, settings, num_encoded_bits)
        self.acts_in_chunks = isinstance(self.encoder, TileEncoder)
        self.action_dist = make_distribution(action_space, settings.unimix)
        self.core: RecurrentCore | None = None
        width = self.encoder.width
        if has_memory:
            self.core = CORES[settings.memory](width, settings.memory_size)
            self.state_size = settings.memory_size
            width += settings.memory_size
        self.policy_head, self.value_head = make_heads(width, self.action_dist.num_params)

    def arguments(self) -> dict[str, Any]:
        """The arguments after the layout, as JSON values, with which a saved network is made again."""
        return {"settings": self.settings.model_dump(mode="json")}

    def prepare(self, obs: torch.Tensor, bits: torch.Tensor | None = None) -> torch.Tensor:
        return self.encoder.prepare(obs, bits)

    def forward_prepared(self, prepared: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._heads(self.encoder.encode(prepared))

    def forward_sequence(
        self, prepared: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        assert self.core is not None
        features = self.encoder.encode(prepared.flatten(0, 1))  # (B * T, width)
        outputs, state = self.core(features.unflatten(0, prepared.shape[:2]), state, starts)
        return *self._heads(torch.cat([features.float(), outputs.flatten(0, 1)], -1)), state

    def _heads(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(features.device.type, enabled=False):  # the heads stay in float32
            features = features.float()
            return self.policy_head(features), self.value_head(features)[:, 0]  # (B, num_params), (B,)


def layout_of(envs: VectorEnv) -> Layout:
    """Where observations hold a map of symbols or a grid of tiles, as the metadata of the environments says."""
    return envs.metadata.get("symbol_map") or envs.metadata.get("tile_grid")


def make_heads(width: int, num_params: int) -> tuple[nn.Linear, nn.Linear]:
    """The heads of policy and value."""
    heads = nn.Linear(width, num_params), nn.Linear(width, 1)
    for head, gain in zip(heads, (0.01, 0.1), strict=True):
        nn.init.orthogonal_(head.weight, gain)
    for head in heads:
        nn.init.zeros_(head.bias)
    return heads


def run_network(
    forward: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], obs: torch.Tensor, bfloat16: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Distribution parameters and values in float32, with matrix products in bfloat16 if requested."""
    with autocast(obs.device, bfloat16):
        dist_params, values = forward(obs)
    return dist_params.float(), values.float()


def run_step(
    network: PolicyNetwork, prepared: torch.Tensor, hidden: torch.Tensor, starts: np.ndarray, bfloat16: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`run_network` for one step of each environment, and the recurrent state after it.

    Args:
        prepared: (B, ...), what `network.prepare` returned.
        hidden: (B, network.state_size), the recurrent state before the step.
        starts: (B,) bool, whether an episode starts with the step.
    """
    if not network.state_size:
        return *run_network(network.forward_prepared, prepared, bfloat16), hidden
    with autocast(prepared.device, bfloat16):
        dist_params, values, hidden = network.forward_sequence(
            prepared[:, None], hidden, torch.from_numpy(starts[:, None]).to(prepared.device)
        )
    return dist_params.float(), values.float(), hidden


def run_step_in_chunks(
    threads: ThreadedGradients,
    network: PolicyNetwork,
    prepared: torch.Tensor,
    hidden: torch.Tensor,
    starts: np.ndarray,
    bfloat16: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`run_step`, in two threads if the network asks for it. The chunks do not depend on the number of threads."""
    half = len(prepared) // 2
    if not network.acts_in_chunks or threads.num_chunks == 1 or not half:
        return run_step(network, prepared, hidden, starts, bfloat16)

    @torch.inference_mode()  # which belongs to the thread
    def run_chunk(rows: slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return run_step(network, prepared[rows], hidden[rows], starts[rows], bfloat16)

    first, second = threads.map(run_chunk, [slice(0, half), slice(half, None)])
    dist_params, values, hidden = (torch.cat(parts) for parts in zip(first, second, strict=True))
    return dist_params, values, hidden


def count_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# ------------------------------------------------------------------------------------------------------------ encoders


def make_encoder(space: spaces.Space, layout: Layout, settings: NetworkSettings, num_bits: int = 0) -> Encoder:
    """The encoder for an observation space.

    To add an encoder, construct it here, and add its name to `KINDS` and to `NetworkSettings.encoder`.

    Args:
        num_bits: How many bits of the history the encoder receives in addition to the observation.
    """
    kind = _observation_kind(space)
    encoder = default_encoder(space) if settings.encoder == "auto" else settings.encoder
    if encoder not in KINDS[kind]:
        raise SpaceError(
            f"the encoder {encoder!r} does not support {kind}, the observations of this environment; "
            f"use {' or '.join(KINDS[kind])}"
        )
    assert isinstance(space, spaces.Box)
    if encoder == "symbols":
        symbol_map = layout if isinstance(layout, SymbolMap) else None
        return SymbolEncoder(space, symbol_map, settings.width, settings.depth, num_bits)
    if encoder == "tiles":
        return TileEncoder(space, layout if isinstance(layout, TileGrid) else None, num_bits=num_bits)
    return {"impala": ImpalaEncoder, "mlp": MlpEncoder}[encoder](space, num_bits)


def default_encoder(space: spaces.Space) -> str:
    return KINDS[_observation_kind(space)][0]


def is_image(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


KINDS = {  # the encoders for each kind of observation, the default first
    "images": ("impala", "tiles"),
    "symbols": ("symbols",),
    "vectors": ("mlp",),
}


def _observation_kind(space: spaces.Space) -> str:
    if is_image(space):
        return "images"
    if isinstance(space, spaces.Box):
        if len(space.shape) == 1 and np.issubdtype(space.dtype, np.integer):
            return "symbols"
        if len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
            return "vectors"
    raise SpaceError(
        "observations must be images (a uint8 Box of height x width x channels), symbols (a flat Box of integers) or "
        f"vectors (a flat Box of floats), not {space}"
    )


# ------------------------------------------------------------------------------------------------ action distributions
#
# Both sample with noise passed in by the caller, so the caller controls all randomness.


class Categorical(nn.Module):
    """Discrete actions, from one logit per action.

    With `unimix`, this share of a uniform distribution is mixed in, as in DreamerV3; it keeps probabilities above 0.
    """

    def __init__(self, space: spaces.Discrete, unimix: float = 0.0):
        super().__init__()
        self.num_params = int(space.n)
        self.start = int(space.start)
        self.unimix = unimix
        self.shape: tuple[int, ...] = ()  # of one action
        self.dtype = torch.int64

    def noise(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.random(count, np.float32)

    def sample(self, logits: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Inverse transform sampling: (B, n), (B,) -> (B,)"""
        probs = logits.softmax(-1)
        if self.unimix:
            probs = (1 - self.unimix) * probs + self.unimix / self.num_params
        cumulative = probs.cumsum(-1)
        return (cumulative[:, :-1] <= noise[:, None] * cumulative[:, -1:]).sum(-1)

    def mode(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.argmax(-1)

    def log_prob_and_entropy(self, logits: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-probability of `actions` and the entropy of the distribution, both (B,)."""
        log_probs = self.log_probs(logits)
        return log_probs.gather(-1, actions[:, None])[:, 0], -(log_probs.exp() * log_probs).sum(-1)

    def log_probs(self, logits: torch.Tensor) -> torch.Tensor:
        """(B, n) -> (B, n)"""
        log_probs = logits.log_softmax(-1)
        if self.unimix:
            log_probs = ((1 - self.unimix) * log_probs.exp() + self.unimix / self.num_params).log()
        return log_probs

    def uniform_kl(self, logits: torch.Tensor) -> torch.Tensor:
        """KL(uniform || policy) of the logits, without `unimix`, (B,)."""
        return -logits.log_softmax(-1).mean(-1) - math.log(self.num_params)

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


def make_distribution(space: spaces.Space, unimix: float = 0.0) -> Categorical | DiagGaussian:
    """The distribution for an action space; `unimix` is for discrete actions."""
    if isinstance(space, spaces.Discrete):
        return Categorical(space, unimix)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.is_bounded():
        return DiagGaussian(space)
    raise SpaceError(f"actions must be Discrete or a bounded Box of floats, not {space}")
