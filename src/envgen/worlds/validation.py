"""What a user passes to make an environment, checked before anything runs; the same for every world."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode

from envgen.settings import nearest

from .world import Level

L = TypeVar("L", bound=Level)

RENDER_MODES = ("rgb_array", "human")
_BATCH_WORTH_A_THREAD = {"pixels": 32, "symbols": 256, "text": 256}  # environments; handing over costs about 0.1 ms


def parse_levels(Kind: type[L], original: str, level: Any) -> list[L]:
    """A list of levels from a level, a mapping, JSON text, None (the original), or a sequence of these."""
    if isinstance(level, Sequence) and not isinstance(level, str):
        if not level:
            raise ValueError(f"an empty list of levels; give at least one, or None for the original {original}")
        return [Kind.parse(one) for one in level]
    if level is None or isinstance(level, Level | dict | str):
        return [Kind.parse(level)]
    raise TypeError(f"level {level!r} is neither a {Kind.__name__}, a mapping, JSON text, None nor a list of these")


def check_all_used(levels: list[L], num_envs: int, draw_levels: bool) -> list[L]:
    """The levels of a vector environment, each of which some environment must play."""
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


def check_observation(observation: str, views: Mapping[str, Any]) -> None:
    if observation not in views:
        raise ValueError(f"observation {nearest(str(observation), list(views))}")


def check_render_mode(mode: str | None) -> None:
    if mode is not None and mode not in RENDER_MODES:
        raise ValueError(f"render mode {nearest(str(mode), RENDER_MODES)}")


def check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1, not {value!r}")
    return int(value)


def check_action(action: Any, names: Sequence[str]) -> int:
    if isinstance(action, np.ndarray) and action.ndim == 0:
        action = action.item()
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < len(names):
        raise ValueError(f"action {action!r} is not a whole number from 0 to {len(names) - 1} ({', '.join(names)})")
    return int(action)


def check_actions(actions: Any, n: int, names: Sequence[str]) -> np.ndarray:
    array = np.asarray(actions)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(f"actions must be {n} whole numbers, not {array.dtype} of shape {array.shape}")
    right = array.astype(np.uint64) < len(names)  # what is below 0 becomes huge: one comparison
    if np.count_nonzero(right) < n:
        i = int(right.argmin())
        raise ValueError(f"action {array[i]} of environment {i} is not one of 0 to {len(names) - 1}")
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
