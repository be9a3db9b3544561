"""Checks of a snapshot before an engine continues from it.

Kernels index arrays by what a record says and check nothing, so that a record from a damaged or foreign file must be
checked first. All checks raise ValueError.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .kernels import mt19937

MAX_EPISODES = 2**31 - 2  # one more must still fit into an int32


def read_array(snapshot: Mapping[str, np.ndarray], name: str, kind: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """The array `name`, if it is of this dtype and shape; None stands for any length."""
    if name not in snapshot:
        raise ValueError(f"this snapshot has no array {name!r}")
    array = np.asarray(snapshot[name])
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(kind) or not fits:
        told = tuple("any" if length is None else length for length in shape)
        raise ValueError(
            f"the snapshot's array {name!r} is {array.dtype} of shape {array.shape}, not {kind} of shape {told}"
        )
    return np.ascontiguousarray(array)


def require(good: np.ndarray, what: str) -> None:
    """Refuse a snapshot unless `good`, with one row for each environment, is true throughout."""
    if not good.all():
        i = int(np.flatnonzero(~good.reshape(len(good), -1).all(1))[0])
        raise ValueError(f"this snapshot is damaged: {what} of environment {i} cannot be")


def check_ranges(records: np.ndarray, ranges: Mapping[str, tuple[float, float]], of: str = "") -> None:
    """Each field named must lie from its least to its greatest value. NaN lies nowhere."""
    for name, (least, most) in ranges.items():
        require((records[name] >= least) & (records[name] <= most), f"{of}{name}")


def check_stream(records: np.ndarray, name: str) -> None:
    """A random stream counts how many of its words are used up."""
    require(records[name][..., mt19937.WORDS] <= mt19937.WORDS, name)


def check_params(records: np.ndarray, begun: np.ndarray, pool: np.ndarray) -> None:
    """The numbers of a level in a record are those of the level that it names."""
    for name in pool.dtype.names or ():
        same = records["params"][name] == pool[name][records["level"]]
        require(same.reshape(len(records), -1).all(1) | ~begun, f"params {name}")


def read_levels(text: bytes) -> list[Any]:
    """The levels of a snapshot as plain data."""
    try:
        levels = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the levels of this snapshot are not JSON") from None
    if not isinstance(levels, list) or not levels or not all(isinstance(level, dict) for level in levels):
        raise ValueError("the levels of this snapshot are not a list of levels")
    return levels
