"""States as named arrays: `runner.env.obs` is the array `obs` of the environments of the runner."""

from collections.abc import Mapping

import numpy as np

Arrays = Mapping[str, np.ndarray]


def strip_prefix(prefix: str, state: Arrays) -> dict[str, np.ndarray]:
    """The arrays named `prefix.name`, as `name`."""
    return {name.removeprefix(f"{prefix}."): array for name, array in state.items() if name.startswith(f"{prefix}.")}


def read_array(snapshot: Arrays, name: str, dtype: str, shape: tuple[int | None, ...]) -> np.ndarray:
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
