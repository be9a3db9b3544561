"""Checks of the arguments that users pass to environments. All raise before anything runs."""

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from envgen.settings import format_choice_error

from .world import Level, TileGrid

L = TypeVar("L", bound=Level)

RENDER_MODES = ("rgb_array", "human")
# Smallest number of environments per thread that outweighs the cost of a thread, about 0.1 ms per step.
_MIN_ENVS_PER_THREAD = {"pixels": 32, "symbols": 256, "symbols+unlocked": 256, "text": 256}
_MIN_ENVS_PER_WORKER = 4  # starting a process takes as long as thousands of steps


def parse_levels(level_class: type[L], world: str, level: Any) -> list[L]:
    """A list of levels from a level, a mapping, JSON text, None (the original), or a sequence of these."""
    if isinstance(level, Sequence) and not isinstance(level, str):
        if not level:
            raise ValueError(f"the list of levels is empty; pass at least one level, or None for the original {world}")
        return [level_class.parse(entry) for entry in level]
    if level is None or isinstance(level, Level | dict | str):
        return [level_class.parse(level)]
    raise TypeError(
        f"level must be a {level_class.__name__}, a dict, JSON text, None or a list of these, not {level!r}"
    )


def list_levels(levels: Any) -> list[Any]:
    """The levels of a vector environment as a list: a single level is a list of one, None that of the original."""
    if levels is None or isinstance(levels, Level | dict | str):
        return [levels]
    if not isinstance(levels, Iterable):
        raise TypeError(f"levels must be a list, not {levels!r:.80}")
    return list(levels) or [None]


def check_all_used(levels: list[L], num_envs: int, sample_levels: bool) -> list[L]:
    """The levels of a vector environment, each of which at least one environment must play."""
    if len(levels) > num_envs and not sample_levels:
        raise ValueError(
            f"{len(levels)} levels for {num_envs} environments: some levels would never be played; "
            "use at least as many environments as levels, or sample_levels=True"
        )
    return levels


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    choices = list(choices)
    if value not in choices:
        raise ValueError(f"{name} {format_choice_error(str(value), choices)}")
    return value


def check_env_ids(env_ids: Sequence[int], levels: Sequence[Any], num_envs: int) -> None:
    """Environments that `set_env_levels` gives one level each."""
    if len(env_ids) != len(levels):
        raise ValueError(f"set_env_levels needs one level per environment, not {len(levels)} for {len(env_ids)}")
    for i in env_ids:
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < num_envs:
            raise ValueError(f"there is no environment {i}; they are numbered from 0 to {num_envs - 1}")
    if len(set(env_ids)) < len(env_ids):
        raise ValueError(f"set_env_levels got an environment twice: {list(env_ids)}")


def check_reset_mask(options: Mapping[str, Any], num_envs: int) -> np.ndarray:
    """The environments that `reset` begins episodes in: those of the option `reset_mask`, or all."""
    mask = check_mask("reset_mask", options.get("reset_mask", np.ones(num_envs, np.bool_)), num_envs)
    if not mask.any():
        raise ValueError("reset_mask must select at least one environment")
    return mask


def check_stats_seeds(seeds: Iterable[int]) -> list[int]:
    """The seeds of the environments that statistics are taken over, at least one."""
    if not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be a sequence, such as range(16), not {seeds!r:.80}")
    seeds = list(seeds)
    if not seeds:
        raise ValueError("the list of seeds is empty; pass at least one")
    return [check_seed(seed) for seed in seeds]


def check_mask(name: str, mask: Any, num_envs: int) -> np.ndarray:
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != (num_envs,):
        raise ValueError(f"{name} must be a boolean array of shape ({num_envs},), not {mask!r}")
    return mask


def check_options(options: dict | None, allowed: Sequence[str]) -> dict:
    """The options of a `reset`, all of which must be in `allowed`."""
    for name in options or {}:
        if name not in allowed:
            raise ValueError(f"reset option {format_choice_error(str(name), allowed)}")
    return options or {}


def check_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(f"autoreset mode {format_choice_error(str(mode), [m.value for m in AutoresetMode])}") from None


def check_render_mode(mode: str | None) -> str | None:
    return None if mode is None else check_choice("render mode", mode, RENDER_MODES)


def parse_image_size(size: Any, minimum: int, maximum: int) -> tuple[int, int]:
    """(width, height) in pixels from an integer or a pair."""
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or not all(
        isinstance(side, int | np.integer) and not isinstance(side, bool) and minimum <= side <= maximum
        for side in pair
    ):
        raise ValueError(
            f"size {size!r} is not an image size: give an integer or (width, height), from {minimum} to {maximum}"
        )
    return int(pair[0]), int(pair[1])


def check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
    return int(value)


def check_action(action: Any, names: Sequence[str]) -> int:
    if isinstance(action, np.ndarray) and action.ndim == 0:
        action = action.item()
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < len(names):
        raise ValueError(f"action {action!r} is not an integer from 0 to {len(names) - 1} ({', '.join(names)})")
    return int(action)


def check_single_action(action: Any, space: spaces.Space, names: Sequence[str]) -> Any:
    """The action as the environment expects it: an integer, or an array of a Box."""
    if not isinstance(space, spaces.Box):
        return check_action(action, names)
    array = np.asarray(action)
    if array.shape != space.shape or array.dtype.kind not in "fiu":
        raise ValueError(f"an action must be {space}, not {array.dtype} of shape {array.shape}")
    array = array.astype(space.dtype)
    if not space.contains(array):
        raise ValueError(f"action {array.tolist()} is not in {space}")
    return array


def check_actions(actions: Any, num_envs: int, names: Sequence[str]) -> np.ndarray:
    array = np.asarray(actions)
    if array.shape != (num_envs,) or array.dtype.kind not in "iu":
        raise ValueError(f"actions must be {num_envs} integers, not {array.dtype} of shape {array.shape}")
    valid = array.astype(np.uint64) < len(names)  # negative numbers become huge: a single comparison suffices
    if np.count_nonzero(valid) < num_envs:
        i = int(valid.argmin())
        raise ValueError(f"action {array[i]} of environment {i} is not an integer from 0 to {len(names) - 1}")
    return array


def check_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be an integer of at least 0, not {seed!r}")
    return int(seed)


def check_optional_seed(seed: Any) -> int | None:
    return None if seed is None else check_seed(seed)


def check_seeds(seed: int | Iterable[int | None], num_envs: int) -> list[int | None]:
    """One seed per environment, None to continue its random stream.

    An integer seeds environment i with `seed + i`, as in Gymnasium.
    """
    if not isinstance(seed, Iterable):
        return [check_seed(seed) + i for i in range(num_envs)]
    seeds = [check_optional_seed(value) for value in seed]
    if len(seeds) != num_envs:
        raise ValueError(
            f"{len(seeds)} seeds for {num_envs} environments; pass one integer, or a seed or None for each"
        )
    return seeds


def choose_threads(threads: int | None, num_envs: int, observation: str) -> int:
    """The number of threads: `threads`, or by default as many as speed up stepping on this machine."""
    if threads is not None:
        return check_count("threads", threads)
    return max(1, min(_num_cores(), num_envs // _MIN_ENVS_PER_THREAD[observation]))


def choose_workers(num_workers: int | None, num_envs: int) -> int:
    """The number of processes: `num_workers`, or if None as many as there are cores, with a few environments each."""
    if num_workers is not None:
        return min(check_count("num_workers", num_workers), num_envs)
    return max(1, min(_num_cores(), num_envs // _MIN_ENVS_PER_WORKER))


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_tile_grid_problem(grid: Any, space: Any) -> str | None:
    """What is wrong with the `metadata["tile_grid"]` of these observations; None if nothing is."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return f"only images have tiles (a uint8 Box of height x width x channels), not {space}"
    if not isinstance(grid, TileGrid) or not all(isinstance(number, Integral) for number in grid if number is not None):
        return f"it must be a TileGrid of integers, not {grid!r}"
    if None in grid[:-1]:
        return f"only its agent may be None, not {grid!r}"
    if min(grid.height, grid.width, grid.rows, grid.columns) < 1:
        return f"height, width, rows and columns must be at least 1, not {grid}"
    bottom, right = grid.top + grid.rows * grid.height, grid.left + grid.columns * grid.width
    if min(grid.top, grid.left) < 0 or bottom > space.shape[0] or right > space.shape[1]:
        return (
            f"its tiles cover the pixel rows {grid.top} to {bottom - 1} and columns {grid.left} to {right - 1} of an "
            f"image with {space.shape[0]} rows and {space.shape[1]} columns"
        )
    if grid.agent is not None and not 0 <= grid.agent < grid.rows * grid.columns:
        return f"agent must be a tile from 0 to {grid.rows * grid.columns - 1}, not {grid.agent}"
    return None


def circular_skills(prerequisites: Mapping[str, Iterable[str]]) -> list[str]:
    """The skills that directly or indirectly require themselves."""
    circular = []
    for name, required_directly in prerequisites.items():
        required, pending = set[str](), list(required_directly)
        while pending:
            if (other := pending.pop()) not in required:
                required.add(other)
                pending += prerequisites.get(other, ())
        if name in required:
            circular.append(name)
    return circular
