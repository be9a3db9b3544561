"""Hyperparameters of the learners."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
from gymnasium import spaces
from pydantic import Field, ValidationError

from envgen.errors import EnvgenError
from envgen.settings import Fraction, PositiveInt, Settings, format_validation_error

Positive = Annotated[float, Field(gt=0)]
LearningRate = Annotated[float, Field(gt=0)]
Coefficient = Annotated[float, Field(ge=0)]
MAX_WIDTH, MAX_DEPTH, MAX_ENVS = 1 << 16, 100, 1_000_000


class HyperparameterError(EnvgenError, ValueError):
    """A hyperparameter or the name of a learner is wrong; the message names the right ones."""


class NetworkSettings(Settings):
    """The network of an agent."""

    encoder: Literal["auto", "symbols", "tiles", "impala", "mlp"] = "auto"
    """The encoder of observations. auto: symbols for symbols, mlp for vectors, impala for images. In `envgen train` on
    the CPU, auto is tiles for images made of tiles, such as Crafter's, because it is many times faster there."""
    memory: Literal["none", "gru", "mingru"] = "none"
    """Recurrent core between encoder and heads. mingru is faster, because its gates do not depend on its state."""
    memory_size: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 256
    """Size of the recurrent state."""
    history: bool = False
    """Add bits to each observation that say which events of the episode were rewarded. An event is an action,
    together with the symbol of the cell that the agent faced if the observation says which one that is."""
    unimix: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of a uniform distribution mixed into the probabilities of discrete actions. It keeps them all above 0."""
    width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 256
    """Size of the features of the symbols encoder; its first layer is twice as wide."""
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)] = 1
    """Dense layers of the symbols encoder after the first layer."""


class LearnerSettings(Settings):
    """What the settings of every learner contain."""

    num_envs: Annotated[int, Field(ge=1, le=MAX_ENVS)] = 8
    """Number of parallel environments, over all processes."""
    network: NetworkSettings = NetworkSettings()
    """The network."""


SYMBOL_DEFAULTS: dict[str, Any] = dict(num_envs=128, num_steps=64, num_minibatches=4, learning_rate=7e-4)
TILE_DEFAULTS: dict[str, Any] = dict(num_envs=64, num_steps=64, learning_rate=5e-4)
VECTOR_DEFAULTS: dict[str, Any] = dict(
    num_envs=8, num_steps=128, gamma=0.99, gae_lambda=0.95, update_epochs=10, ent_coef=0.0, bfloat16=False
)


AnnealedName = Literal["learning_rate", "gamma", "gae_lambda", "ent_coef"]


class PpoSettings(LearnerSettings):
    """Hyperparameters of PPO. The defaults are those of EnvGen's agent, which learns from images (Moon et al. 2023;
    table 9 of the EnvGen paper)."""

    DEFAULTS_BY_OBSERVATION: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "tiles": TILE_DEFAULTS,
        "symbols": SYMBOL_DEFAULTS,
        "vectors": VECTOR_DEFAULTS,
    }
    """Where the defaults for a kind of observation differ: images with the encoder tiles, symbols, and vectors."""
    ANNEALABLE: ClassVar[tuple[AnnealedName, ...]] = get_args(AnnealedName)
    """Settings that can change over a run, each to a final value."""

    num_steps: PositiveInt = 512
    """Steps per environment in each rollout."""
    sequence_length: PositiveInt = 16
    """Steps over which gradients flow back through a recurrent core."""
    update_epochs: PositiveInt = 3
    """Passes over each rollout."""
    num_minibatches: PositiveInt = 8
    """Gradient steps per epoch, at most one for each sample: a step, or with a recurrent core a sequence."""
    learning_rate: LearningRate = 3e-4
    """Learning rate of Adam."""
    final_learning_rate: LearningRate | None = None
    """Learning rate after `anneal_steps`, reached linearly; constant if not set."""
    gamma: Fraction = 0.95
    """Discount factor."""
    final_gamma: Fraction | None = None
    """Discount factor after `anneal_steps`, reached linearly; constant if not set."""
    gae_lambda: Fraction = 0.65
    """Lambda of generalized advantage estimation."""
    final_gae_lambda: Fraction | None = None
    """Lambda after `anneal_steps`, reached linearly; constant if not set."""
    clip_coef: Positive = 0.2
    """Clipping range of the probability ratio."""
    vf_coef: Coefficient = 0.5
    """Coefficient of the value loss."""
    ent_coef: Coefficient = 0.01
    """Coefficient of the entropy bonus."""
    final_ent_coef: Coefficient | None = None
    """Coefficient of the entropy bonus after `anneal_steps`, reached linearly; constant if not set."""
    anneal_steps: PositiveInt | None = None
    """Environment steps over which settings reach their final values. If not set, `envgen train` uses the steps of the
    whole run; learners that you train yourself (`PPO.train`) keep these settings constant."""
    uniform_kl_coef: Coefficient = 0.0
    """Coefficient of the KL divergence KL(uniform || policy), for discrete actions. It keeps rare actions possible: its
    gradient does not vanish with the probability of an action, as that of the entropy does."""
    max_grad_norm: Positive = 0.5
    """Maximum norm for gradient clipping."""
    adam_eps: Positive = 1e-8
    """Epsilon of Adam."""
    return_norm_decay: Annotated[float, Field(ge=0, lt=1)] | None = 0.99
    """Decay of the running return statistics that normalize value targets; none disables normalization."""
    norm_adv: bool = True
    """Normalize advantages, once over the whole rollout."""
    bootstrap_on_truncation: bool = False
    """Bootstrap from the value of the last observation when a time limit ends an episode. The published agent does
    not."""
    bfloat16: bool | None = None
    """Multiply matrices in bfloat16; weights, heads and losses stay float32. Automatic: only on devices
    that support it in hardware."""
    async_collect: bool = False
    """Collect the next rollout with a snapshot of the network while updating on the current one."""

    @property
    def is_annealed(self) -> bool:
        """Whether a setting changes over the run."""
        return any(getattr(self, f"final_{name}") is not None for name in self.ANNEALABLE)

    def annealed(self, name: AnnealedName, steps: int) -> float:
        """The value of a setting after `steps` environment steps."""
        initial, final = getattr(self, name), getattr(self, f"final_{name}")
        if final is None or self.anneal_steps is None:
            return initial
        return initial + (final - initial) * min(1.0, steps / self.anneal_steps)

    @property
    def batch_size(self) -> int:
        return self.num_envs * self.num_steps


S = TypeVar("S", bound=PpoSettings)


def ppo_settings_for(observation_space: spaces.Space, settings_class: type[S] = PpoSettings, **overrides: Any) -> S:
    """The defaults for a kind of observation: as published for images, tuned for speed for symbols and tiles."""
    try:
        network = LearnerSettings(network=overrides.get("network", {})).network
        defaults: Mapping[str, Any] = {}
        if isinstance(observation_space, spaces.Box) and len(observation_space.shape) == 1:
            is_symbols = np.issubdtype(observation_space.dtype, np.integer)
            defaults = settings_class.DEFAULTS_BY_OBSERVATION["symbols" if is_symbols else "vectors"]
        elif network.encoder == "tiles":
            defaults = settings_class.DEFAULTS_BY_OBSERVATION["tiles"]
        return settings_class(**{**defaults, **overrides})
    except ValidationError as error:
        raise HyperparameterError(format_validation_error(error)) from None
