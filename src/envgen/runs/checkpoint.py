"""Checkpoints that survive anything: a folder appears whole or not at all, and says itself whether it is sound.

    checkpoints/000042/
      <group>.safetensors    arrays, one file a group ("agent", "worlds", ...)
      values.json            everything that is not an array
      manifest.json          size and sha256 of the others; written last

A checkpoint is written beside its final name, flushed to the disk and then renamed. Nothing is pickled, so reading one
cannot run code.
"""

import hashlib
import json
import os
import shutil
import stat
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from .files import read_regular

KEPT = 2
MANIFEST = "manifest.json"
UNFINISHED = ".unfinished-"


class CheckpointError(Exception):
    """A checkpoint cannot be written or read; the message says which, and what still stands."""


class Checkpoint(NamedTuple):
    number: int
    arrays: dict[str, dict[str, np.ndarray]]  # group: name: array
    values: dict[str, Any]


def save_checkpoint(
    folder: Path, arrays: Mapping[str, Mapping[str, np.ndarray]], values: Mapping[str, Any], kept: int = KEPT
) -> Path:
    """Write the next checkpoint into `folder`, then remove all but the newest `kept`."""
    standing = list_checkpoints(folder)
    number = standing[-1] + 1 if standing else 1
    final, fresh = folder / f"{number:08}", folder / f"{UNFINISHED}{number:08}"
    try:
        _sweep(folder)
        fresh.mkdir(parents=True)
        files = {f"{group}.safetensors": save_arrays(_contiguous(named)) for group, named in arrays.items()}
        sums = {}
        for name, data in {**files, "values.json": json.dumps(values, indent=1).encode()}.items():
            write_flushed(fresh / name, data)
            sums[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        write_flushed(fresh / MANIFEST, json.dumps(sums, indent=1).encode())
        flush_folder(fresh)
        os.replace(fresh, final)
        flush_folder(folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        rest = f"checkpoint {standing[-1]} still stands" if standing else "there is no earlier one"
        raise CheckpointError(f"cannot write checkpoint {number} in {folder}: {error.strerror}; {rest}") from error
    for old in [*standing, number][:-kept]:
        shutil.rmtree(folder / f"{old:08}", ignore_errors=True)
    return final


def _contiguous(named: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.asarray(array, order="C") for name, array in named.items()}


def load_latest(folder: Path) -> Checkpoint | None:
    """The newest sound checkpoint, or None if none was ever written. Damaged ones are passed over with a warning."""
    found = list_checkpoints(folder)
    for number in reversed(found):
        try:
            return load_checkpoint(folder / f"{number:08}")
        except CheckpointError as error:
            warnings.warn(f"{error}; going back to the one before", RuntimeWarning, stacklevel=2)
    if found:
        raise CheckpointError(f"every checkpoint in {folder} is damaged; remove the folder to begin anew")
    return None


def load_checkpoint(checkpoint: Path) -> Checkpoint:
    try:
        if not stat.S_ISDIR(checkpoint.lstat().st_mode):
            raise ValueError("it is not a folder")
        sums = json.loads(read_regular(checkpoint / MANIFEST))
        data = {}
        for name, told in sums.items():
            if not _is_plain(name):
                raise ValueError(f"{MANIFEST} names {name!r}, which is no file of a checkpoint")
            data[name] = read_regular(checkpoint / name, told["bytes"])
            if hashlib.sha256(data[name]).hexdigest() != told["sha256"]:
                raise ValueError(f"{name} is not what was written")
        values = json.loads(data.pop("values.json"))
        arrays = {name.removesuffix(".safetensors"): load_arrays(blob) for name, blob in data.items()}
        return Checkpoint(int(checkpoint.name), arrays, values)
    except OSError as error:
        where = f"{Path(error.filename).name}: " if error.filename else ""
        raise CheckpointError(f"checkpoint {checkpoint} is damaged: {where}{error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {checkpoint} is damaged: {error}") from error


def _is_plain(name: str) -> bool:
    """Whether this names a file in the folder itself, on any system."""
    return name not in ("", ".", "..", MANIFEST) and not set(name) & set("/\\:\0")


def list_checkpoints(folder: Path) -> list[int]:
    """The checkpoints that were finished, oldest first."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder} is a link; the checkpoints of a run are in a folder of its own")
    if not folder.is_dir():
        return []
    named = [entry.name for entry in folder.iterdir() if entry.name.isascii() and entry.name.isdigit()]
    return sorted(int(name) for name in named if name == f"{int(name):08}")


def _sweep(folder: Path) -> None:
    """Remove what a killed process left unfinished."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(entry)


def write_flushed(file: Path, data: bytes) -> None:
    """A new file; one of the same name goes, so that nothing is written through a link."""
    file.unlink(missing_ok=True)
    with open(file, "xb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def flush_folder(folder: Path) -> None:
    """So that a rename outlives a power cut, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
