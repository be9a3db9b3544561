"""Hyperparameters of the learners."""

from typing import Annotated, Any

import numpy as np
from gymnasium import spaces
from pydantic import Field, ValidationError

from envgen.errors import EnvgenError
from envgen.settings import Settings, format_validation_error

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class HyperparameterError(EnvgenError, ValueError):
    """A hyperparameter or the name of a learner is wrong; the message names the right ones."""


class LearnerSettings(Settings):
    """What the settings of every learner contain."""

    num_envs: Count = 8
    """Number of parallel environments, over all processes."""


class PpoSettings(LearnerSettings):
    """Hyperparameters of PPO. The defaults are those of EnvGen's agent, which learns from images (Moon et al. 2023;
    table 9 of the EnvGen paper)."""

    num_steps: Count = 512
    """Steps per environment in each rollout."""
    update_epochs: Count = 3
    """Passes over each rollout."""
    num_minibatches: Count = 8
    """Gradient steps per epoch."""
    learning_rate: Positive = 3e-4
    """Learning rate of Adam, constant."""
    gamma: Fraction = 0.95
    """Discount factor."""
    gae_lambda: Fraction = 0.65
    """Lambda of generalized advantage estimation."""
    clip_coef: Positive = 0.2
    """Clipping range of the probability ratio."""
    vf_coef: Annotated[float, Field(ge=0)] = 0.5
    """Coefficient of the value loss."""
    ent_coef: Annotated[float, Field(ge=0)] = 0.01
    """Coefficient of the entropy bonus."""
    max_grad_norm: Positive = 0.5
    """Maximum norm for gradient clipping."""
    adam_eps: Positive = 1e-8
    """Epsilon of Adam."""
    return_norm_decay: Fraction | None = 0.99
    """Decay of the running return statistics that normalize value targets; none disables normalization."""
    norm_adv: bool = True
    """Normalize advantages, once over the whole rollout."""
    bootstrap_on_truncation: bool = False
    """Bootstrap from the value of the last observation when a time limit ends an episode. The published agent does
    not."""
    bfloat16: bool | None = None
    """Multiply matrices in bfloat16; weights, heads and losses stay float32. Default: only on devices that
    support it in hardware."""
    async_collect: bool = False
    """Collect the next rollout with a snapshot of the network while updating on the current one."""

    @property
    def batch_size(self) -> int:
        return self.num_envs * self.num_steps


SYMBOL_DEFAULTS: dict[str, Any] = dict(num_envs=128, num_steps=64, num_minibatches=4, learning_rate=7e-4)
TILE_DEFAULTS: dict[str, Any] = dict(num_envs=64, num_steps=64, learning_rate=5e-4)  # images seen by TileEncoder
VECTOR_DEFAULTS: dict[str, Any] = dict(
    num_envs=8, num_steps=128, gamma=0.99, gae_lambda=0.95, update_epochs=10, ent_coef=0.0, bfloat16=False
)


def ppo_settings_for(observation_space: spaces.Space, **overrides: Any) -> PpoSettings:
    """The defaults for a kind of observation: as published for images, tuned for training speed for symbols."""
    if isinstance(observation_space, spaces.Box) and len(observation_space.shape) == 1:
        is_symbols = np.issubdtype(observation_space.dtype, np.integer)
        overrides = (SYMBOL_DEFAULTS if is_symbols else VECTOR_DEFAULTS) | overrides
    try:
        return PpoSettings(**overrides)
    except ValidationError as error:
        raise HyperparameterError(format_validation_error(error)) from None
