"""How PPO learns: every number, with the published ones as defaults for pictures."""

from typing import Annotated, Any

import numpy as np
from gymnasium import spaces
from pydantic import Field, ValidationError

from envgen.settings import Settings, explain

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class PpoSettings(Settings):
    """The defaults are those of EnvGen's agent (table 9 of its paper; Moon et al. 2023), which learns from pictures."""

    num_envs: Count = 8
    """How many environments are played at once, by all processes together."""
    num_steps: Count = 512
    """Steps of each environment between two updates."""
    update_epochs: Count = 3
    """How often each update goes through the rollout."""
    num_minibatches: Count = 8
    """Into how many gradient steps an epoch is divided."""
    learning_rate: Positive = 3e-4
    """Of Adam, constant."""
    gamma: Fraction = 0.95
    """How much a reward one step later is worth."""
    gae_lambda: Fraction = 0.65
    """How far advantages look beyond the value estimate."""
    clip_coef: Positive = 0.2
    """How far the probability of an action may move in one update, as a fraction."""
    vf_coef: Annotated[float, Field(ge=0)] = 0.5
    """Weight of the value loss."""
    ent_coef: Annotated[float, Field(ge=0)] = 0.01
    """Weight of the entropy bonus."""
    max_grad_norm: Positive = 0.5
    """Gradients longer than this are shortened to it."""
    adam_eps: Positive = 1e-8
    """The smallest denominator of Adam's steps."""
    return_norm_decay: Fraction | None = 0.99
    """How slowly the moments that value targets are normalised with follow them; null to normalise nothing."""
    norm_adv: bool = True
    """Over the whole rollout, once."""
    bootstrap_on_truncation: bool = False
    """Whether an episode cut by a time limit counts as going on. The published agent says no."""
    bfloat16: bool | None = None
    """Multiply in bfloat16; weights, heads and losses stay float32. null: on GPUs and processors made for it."""
    async_collect: bool = False
    """Play the next rollout, with the network as it was, while learning from this one."""

    @property
    def batch_size(self) -> int:
        return self.num_envs * self.num_steps


SYMBOLS: dict[str, Any] = dict(num_envs=128, num_steps=64, num_minibatches=4, learning_rate=7e-4)
VECTORS: dict[str, Any] = dict(
    num_envs=8, num_steps=128, gamma=0.99, gae_lambda=0.95, update_epochs=10, ent_coef=0.0, bfloat16=False
)


def settings_for(space: spaces.Space, **changes: Any) -> PpoSettings:
    """The defaults for a kind of observation: as published for pictures, tuned for speed for symbols."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        changes = (SYMBOLS if np.issubdtype(space.dtype, np.integer) else VECTORS) | changes
    try:
        return PpoSettings(**changes)
    except ValidationError as error:
        raise ValueError(explain(error)) from None
