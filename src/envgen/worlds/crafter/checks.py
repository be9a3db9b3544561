"""What a user passes to make a Crafter environment, checked before anything runs."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ..world import Level, nearest
from .level import CrafterLevel
from .tables import ACTIONS
from .views import VIEWS

RENDER_MODES = ("rgb_array", "human")
RENDER_SIZE = (576, 576)  # of pictures for people
_BATCH_WORTH_A_THREAD = {"pixels": 32, "symbols": 256, "text": 256}  # environments; handing over costs about 0.1 ms


def levels_of(level: Any) -> list[CrafterLevel]:
    """A list of levels from a level, a mapping, JSON text, None (the original), or a sequence of these."""
    if isinstance(level, Sequence) and not isinstance(level, str):
        if not level:
            raise ValueError("an empty list of levels; give at least one, or None for the original Crafter")
        return [CrafterLevel.parse(one) for one in level]
    if level is None or isinstance(level, Level | dict | str):
        return [CrafterLevel.parse(level)]
    raise TypeError(f"level {level!r} is neither a CrafterLevel, a mapping, JSON text, None nor a list of these")


def levels_for(level: Any, num_envs: int, draw_levels: bool) -> list[CrafterLevel]:
    """The levels of a vector environment, each of which some environment plays."""
    levels = levels_of(level)
    if len(levels) > num_envs and not draw_levels:
        raise ValueError(
            f"{len(levels)} levels for {num_envs} environments: some would never be played; "
            "use as many environments or draw_levels=True"
        )
    return levels


def check_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(f"autoreset mode {nearest(str(mode), [one.value for one in AutoresetMode])}") from None


def check_observation(observation: str) -> None:
    if observation not in VIEWS:
        raise ValueError(f"observation {nearest(str(observation), list(VIEWS))}")


def check_render_mode(mode: str | None) -> None:
    if mode is not None and mode not in RENDER_MODES:
        raise ValueError(f"render mode {nearest(str(mode), RENDER_MODES)}")


def check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1, not {value!r}")
    return int(value)


def check_action(action: Any) -> int:
    if isinstance(action, np.ndarray) and action.ndim == 0:
        action = action.item()
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < len(ACTIONS):
        raise ValueError(f"action {action!r} is not a whole number from 0 to {len(ACTIONS) - 1} ({', '.join(ACTIONS)})")
    return int(action)


def check_actions(actions: Any, n: int) -> np.ndarray:
    array = np.asarray(actions)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(f"actions must be {n} whole numbers, not {array.dtype} of shape {array.shape}")
    wrong = (array < 0) | (array >= len(ACTIONS))
    if wrong.any():
        i = int(wrong.argmax())
        raise ValueError(f"action {array[i]} of environment {i} is not one of 0 to {len(ACTIONS) - 1}")
    return array


def check_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed {seed!r} is not a whole number from 0")
    return int(seed)


def check_seeds(seed: int | Iterable[int | None], n: int) -> list[int | None]:
    """One seed per environment, None to go on; a single one is the first of n in a row, as Gymnasium has it."""
    if isinstance(seed, int | np.integer):
        return [check_seed(seed) + i for i in range(n)]
    seeds = [None if one is None else check_seed(one) for one in seed]
    if len(seeds) != n:
        raise ValueError(f"{len(seeds)} seeds for {n} environments")
    return seeds


def choose_threads(threads: int | None, n: int, observation: str) -> int:
    if threads is not None:
        return check_count("threads", threads)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, n // _BATCH_WORTH_A_THREAD[observation]))
