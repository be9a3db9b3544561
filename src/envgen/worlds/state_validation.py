"""Checks of a snapshot before an engine continues from it.

Kernels index arrays with values from the state and check nothing, so a state from a damaged or foreign file must be
checked first. All checks raise ValueError.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .kernels import mt19937

MAX_EPISODES = 2**31 - 2  # one more must still fit into an int32


def read_array(snapshot: Mapping[str, np.ndarray], name: str, dtype: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """The array `name`, which must have this dtype and shape; None stands for any length."""
    if name not in snapshot:
        raise ValueError(f"the snapshot has no array {name!r}")
    array = np.asarray(snapshot[name])
    fits = len(array.shape) == len(shape) and all(
        expected in (None, actual) for expected, actual in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        expected_shape = tuple("any" if length is None else length for length in shape)
        raise ValueError(
            f"the snapshot's array {name!r} is {array.dtype} of shape {array.shape}, "
            f"not {np.dtype(dtype)} of shape {expected_shape}"
        )
    return np.ascontiguousarray(array)


def require(valid: np.ndarray, field: str) -> None:
    """Refuse a snapshot unless `valid`, which has one row per environment, is true throughout."""
    if not valid.all():
        i = int(np.flatnonzero(~valid.reshape(len(valid), -1).all(1))[0])
        raise ValueError(f"the snapshot is damaged: {field} of environment {i} is impossible")


def check_ranges(records: np.ndarray, ranges: Mapping[str, tuple[float, float]], prefix: str = "") -> None:
    """Each named field must be between its minimum and maximum. NaN is outside every range."""
    for name, (minimum, maximum) in ranges.items():
        require((records[name] >= minimum) & (records[name] <= maximum), f"{prefix}{name}")


def check_stream(records: np.ndarray, name: str) -> None:
    """A random stream must not have used more words than it holds."""
    require(records[name][..., mt19937.WORDS] <= mt19937.WORDS, name)


def check_params(records: np.ndarray, started: np.ndarray, level_params: np.ndarray) -> None:
    """The parameters in a started environment's state must be those of its level."""
    for name in level_params.dtype.names or ():
        same = records["params"][name] == level_params[name][records["level"]]
        require(same.reshape(len(records), -1).all(1) | ~started, f"params {name}")


def read_levels(text: bytes) -> list[Any]:
    """The levels of a snapshot as plain data."""
    try:
        levels = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the snapshot's levels are not valid JSON") from None
    if not isinstance(levels, list) or not levels or not all(isinstance(level, dict) for level in levels):
        raise ValueError("the snapshot's levels are not a list of JSON objects")
    return levels
