"""Checkpoints: written atomically, verified when they are read.

    checkpoints/00000042/
      <group>.safetensors    arrays, one file per group ("agent", "proposer", ...)
      values.json            everything that is not an array
      manifest.json          size and sha256 of the other files; written last

A checkpoint is written under a temporary name, flushed to disk and then renamed. Nothing is pickled, so reading a
checkpoint cannot execute code.
"""

import hashlib
import json
import os
import shutil
import stat
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from envgen.errors import EnvgenError
from envgen.settings import format_validation_error
from envgen.text import printable

from .files import MAX_JSON_BYTES, flush_folder, parse_json, read_regular, write_flushed

MAX_TO_KEEP = 2
MANIFEST = "manifest.json"
TEMP_PREFIX = ".unfinished-"
MAX_ERROR_CHARS = 500
PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, AssertionError)


class CheckpointError(EnvgenError):
    """A checkpoint cannot be written or read. The message names it and says which checkpoint is still intact."""


class Checkpoint(NamedTuple):
    number: int
    arrays: dict[str, dict[str, np.ndarray]]  # group: name: array
    values: dict[str, Any]


@contextmanager
def loading(folder: Path, checkpoint: Checkpoint) -> Iterator[None]:
    """Context for loading the content of a checkpoint: raises CheckpointError if it does not fit the run."""
    try:
        yield
    except EnvgenError:
        raise
    except PARSE_ERRORS as error:
        raise CheckpointError(
            f"checkpoint {checkpoint.number} in {folder} does not fit this run: {describe_error(error)}; "
            "restore the files of the run, and code of yours that it uses, or start a new run in another directory"
        ) from error


def describe_error(error: Exception) -> str:
    """Return the message of an error in one line."""
    if isinstance(error, KeyError):
        return f"it has no {error}"
    message = format_validation_error(error) if isinstance(error, ValidationError) else str(error)
    return " ".join(message.split())[:MAX_ERROR_CHARS] or type(error).__name__


def save_checkpoint(
    folder: Path, arrays: Mapping[str, Mapping[str, np.ndarray]], values: Mapping[str, Any], intact: int | None = None
) -> Path:
    """Write the next checkpoint to `folder`, then remove all but the newest MAX_TO_KEEP.

    Args:
        intact: The number of the checkpoint that was loaded or written last. Later ones are damaged, and are removed.
    """
    existing = list_checkpoints(folder)
    number = existing[-1] + 1 if existing else 1
    final, temp = folder / f"{number:08}", folder / f"{TEMP_PREFIX}{number:08}"
    try:
        _remove_unfinished(folder)
        temp.mkdir(parents=True)
        write_checkpoint(temp, arrays, values)
        os.replace(temp, final)
        flush_folder(folder)
    except CheckpointError:
        shutil.rmtree(temp, ignore_errors=True)
        raise
    except OSError as error:
        shutil.rmtree(temp, ignore_errors=True)
        rest = f"checkpoint {existing[-1]} is intact" if existing else "there is no earlier checkpoint"
        raise CheckpointError(f"cannot write checkpoint {number} to {folder}: {error.strerror}; {rest}") from error
    kept = [*(old for old in existing if intact is None or old <= intact), number][-MAX_TO_KEEP:]
    for old in existing:
        if old not in kept:
            shutil.rmtree(folder / f"{old:08}", ignore_errors=True)
    return final


def write_checkpoint(folder: Path, arrays: Mapping[str, Mapping[str, np.ndarray]], values: Mapping[str, Any]) -> None:
    """Write the files of a checkpoint to a folder, the manifest last.

    Groups are serialized one at a time: those of large models would not fit into memory twice.
    """
    from safetensors.numpy import save as save_arrays  # an optional dependency

    manifest = {}

    def write(name: str, data: bytes) -> None:
        write_flushed(folder / name, data)
        manifest[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    for group, named in arrays.items():
        write(f"{group}.safetensors", save_arrays(_to_contiguous(named)))
    values_data = json.dumps(values, indent=1).encode()
    if len(values_data) > MAX_JSON_BYTES:
        raise CheckpointError(
            f"the state of the run has {len(values_data) >> 20} MiB of JSON, and a checkpoint holds at most "
            f"{MAX_JSON_BYTES >> 20}; with a designer that keeps an archive of levels, lower its buffer_size"
        )
    write("values.json", values_data)
    write_flushed(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
    flush_folder(folder)


def _to_contiguous(named: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.asarray(array, order="C") for name, array in named.items()}


def load_latest(folder: Path) -> Checkpoint | None:
    """Return the newest intact checkpoint, or None if none was ever written. Skips damaged ones with a warning."""
    existing = list_checkpoints(folder)
    for number in reversed(existing):
        try:
            return load_checkpoint(folder / f"{number:08}")
        except CheckpointError as error:
            message = printable(f"{error}; trying the previous checkpoint")  # it may quote the names of files
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    if existing:
        raise CheckpointError(f"every checkpoint in {folder} is damaged; remove the folder to start over")
    return None


def load_checkpoint(checkpoint: Path) -> Checkpoint:
    """Read one checkpoint and verify its files against the manifest."""
    from safetensors import SafetensorError  # an optional dependency
    from safetensors.numpy import load as load_arrays

    try:
        if not stat.S_ISDIR(checkpoint.lstat().st_mode):
            raise ValueError("it is not a directory")
        manifest = parse_json(read_regular(checkpoint / MANIFEST, max_bytes=MAX_JSON_BYTES))
        arrays, values = {}, None
        for name, entry in manifest.items():
            if not _is_plain_name(name):
                raise ValueError(f"{MANIFEST} names {name!r}, which is not a file of a checkpoint")
            data = read_regular(checkpoint / name, entry["bytes"], MAX_JSON_BYTES if name == "values.json" else None)
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                raise ValueError(f"the checksum of {name} does not match")
            if name == "values.json":
                values = parse_json(data)
            else:
                arrays[name.removesuffix(".safetensors")] = load_arrays(data)
            del data  # before the next file is read
        if not isinstance(values, dict):
            raise ValueError("values.json is not a JSON object")
        return Checkpoint(int(checkpoint.name), arrays, values)
    except OSError as error:
        file_prefix = f"{Path(error.filename).name}: " if error.filename else ""
        raise CheckpointError(f"checkpoint {checkpoint} is damaged: {file_prefix}{error.strerror}") from error
    except (*PARSE_ERRORS, MemoryError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {checkpoint} is damaged: {describe_error(error)}") from error


def _is_plain_name(name: str) -> bool:
    """Return whether this names a file in the folder itself, on any system."""
    return name not in ("", ".", "..", MANIFEST) and not set(name) & set("/\\:\0")


def list_checkpoints(folder: Path) -> list[int]:
    """Return the numbers of the complete checkpoints, oldest first."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder} is a symbolic link; the checkpoints of a run must be in its own directory")
    if not folder.is_dir():
        return []
    names = [entry.name for entry in folder.iterdir() if entry.name.isascii() and entry.name.isdigit()]
    return sorted(int(name) for name in names if name == f"{int(name):08}")


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.glob(f"{TEMP_PREFIX}*"):
        shutil.rmtree(entry)
