"""The interface between a learning algorithm and the training loop, and the registered algorithms.

To add an algorithm, write a class with the methods of `Learner` in a file of its own and add it to `LEARNERS`.
`ppo.py` is the example to copy.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from envgen.imports import ImportPathError, import_object
from envgen.settings import format_choice_error

from .distillation import AchievementDistillation
from .parallel import ProcessGroup
from .policy import Policy
from .ppo import PPO
from .rollout import UpdateResult
from .settings import HyperparameterError, LearnerSettings


class SupportsAct(Protocol):
    """Anything that chooses actions for batches of observations: a learner, a `Policy`, a scripted expert."""

    def act(self, obs: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions for a batch of observations: sampled with `rng`, or the most likely without."""
        ...


@runtime_checkable
class SupportsMemory(SupportsAct, Protocol):
    """An agent whose actions may depend on earlier steps of the episode, such as a `Policy`."""

    @property
    def has_memory(self) -> bool:
        """Whether actions depend on earlier steps of the episode."""
        ...

    def reset(self, infos: Mapping[str, Any] = ...) -> None:
        """Forget everything: the next `act` starts an episode in every environment. `infos` are those of the reset."""
        ...

    def observe(self, rewards: Any, dones: Any, infos: Mapping[str, Any] = ...) -> None:
        """Record the rewards of the step that followed the last `act`, and whether it ended the episode."""
        ...


class Learner(SupportsAct, Protocol):
    """An agent that trains. This is all that the training loop knows about it."""

    steps: int
    """Environment steps so far, over all processes."""
    updates: int
    """Updates so far."""

    @property
    def settings(self) -> LearnerSettings:
        """Frozen hyperparameters, among them `num_envs`."""
        ...

    @property
    def process_group(self) -> ProcessGroup:
        """The processes that train this learner; `process_group.is_main` is the one that writes files."""
        ...

    @property
    def policy(self) -> Policy:
        """The current policy, sharing its weights with the learner."""
        ...

    @classmethod
    def settings_class(cls) -> type[LearnerSettings]:
        """The class of its hyperparameters, whose fields are options of the command line."""
        ...

    @classmethod
    def settings_for(cls, observation_space: spaces.Space[Any], **overrides: Any) -> LearnerSettings:
        """The default settings for a kind of observation, with some overridden; ValueError if one is invalid."""
        ...

    @classmethod
    def for_envs(
        cls,
        envs: VectorEnv[Any, Any, Any],
        settings: Any = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        compile: bool = False,
        distributed: bool = True,
    ) -> Self:
        """A learner for these environments and others with the same spaces.

        Args:
            envs: The environments to train in.
            settings: What `settings_for` returned; its defaults if None.
            seed: Seeds the initial weights, the actions and the order of minibatches.
            device: The device of the network.
            compile: Run the network of the update through `torch.compile`.
            distributed: Join the process group of `torchrun`; False trains in this process alone.
        """
        ...

    def untrained_copy(self, seed: int) -> Self:
        """A new learner with the same spaces and settings, in this process alone."""
        ...

    def train(
        self,
        envs: VectorEnv[Any, Any, Any],
        steps: int,
        on_update: Callable[[UpdateResult], None] = ...,
        seed: int | None = None,
        resume: bool = False,
    ) -> None:
        """Train for about `steps` environment steps. May be called repeatedly with different environments.

        Args:
            envs: The environments to train in.
            steps: Environment steps, over all processes; whole rollouts are collected.
            on_update: Called after every update; it may call `state`, and an exception it raises ends the training.
            seed: The seed of the first reset.
            resume: Continue the phase of the state that was loaded together with these `envs`.
        """
        ...

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and JSON values from which `load` continues exactly, even in the middle of a phase."""
        ...

    def load(
        self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any], envs: VectorEnv[Any, Any, Any] | None = None
    ) -> None:
        """Restore what `state` returned; with `envs`, `train(envs, ..., resume=True)` continues in mid-episode."""
        ...


LEARNER_METHODS = sorted(
    name for cls in (SupportsAct, Learner) for name in vars(cls) if name[0] != "_" and callable(getattr(cls, name))
)
LEARNERS: dict[str, type[Learner]] = {"ppo": PPO, "distillation": AchievementDistillation}


def learner_class(learner: str | type[Learner]) -> type[Learner]:
    """The class of a learner given by name, as `module:Class` or as a class."""
    if not isinstance(learner, str):
        methods = [method for method in LEARNER_METHODS if method != "settings_class"]  # only the command line calls it
        return _check_class(learner, getattr(learner, "__name__", f"{learner!r:.80}"), methods)
    if learner in LEARNERS:
        return LEARNERS[learner]
    if ":" not in learner:
        raise HyperparameterError(
            f"learner {format_choice_error(learner, list(LEARNERS))}; module:Class loads one of your own"
        )
    try:
        imported = import_object(learner, PPO)
    except ImportPathError as error:
        raise HyperparameterError(f"cannot import the learner {learner!r}: {error}") from error.__cause__
    return _check_class(imported, learner, LEARNER_METHODS)


def learner_name(learner: str | type[Learner]) -> str:
    """The name of a learner in run directories: a registered one, or `module:Class`."""
    cls = learner_class(learner)
    names = [name for name, registered in LEARNERS.items() if registered is cls]
    return names[0] if names else f"{cls.__module__}:{cls.__qualname__}"


def _check_class(learner: Any, name: str, methods: Sequence[str]) -> type[Learner]:
    missing = [method for method in methods if not callable(getattr(learner, method, None))]
    problem = f"lacks {', '.join(missing)}" if missing else ""
    if not isinstance(learner, type):
        problem = "is not a class"
    if problem:
        raise HyperparameterError(f"{name} is not a learner: it {problem} (see envgen.agents.learner.Learner)")
    return learner
