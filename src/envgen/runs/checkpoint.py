"""Checkpoints: written atomically, verified when they are read.

    checkpoints/00000042/
      <group>.safetensors    arrays, one file per group ("agent", "proposer", ...)
      values.json            everything that is not an array
      manifest.json          size and sha256 of the other files; written last

A checkpoint is written under a temporary name, flushed to disk and then renamed. Nothing is pickled, so reading a
checkpoint cannot execute code.

A run directory may come from someone else. Only regular files are opened and symbolic links are never followed: a
FIFO would block its reader, and a link may lead out of the run directory. Sizes are checked before a file is read, and
JSON may not be nested deeper than any that this package writes.
"""

import hashlib
import json
import os
import shutil
import stat
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from envgen.errors import EnvgenError
from envgen.settings import format_validation_error

OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
MAX_TO_KEEP = 2
MANIFEST = "manifest.json"
TEMP_PREFIX = ".unfinished-"
MAX_JSON_BYTES = 64 << 20  # parsed, JSON can take more than ten times its size
MAX_JSON_DEPTH = 64
MAX_ERROR_CHARS = 500
PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, AssertionError)


def check_regular(file: Path) -> os.stat_result:
    """Return the status of a regular file. Raises OSError for anything else, FileNotFoundError if it is missing."""
    status = os.lstat(file)
    _check_status(status, file)
    return status


def _check_status(status: os.stat_result, file: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        problem = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise OSError(None, f"it is {problem}", str(file))


def exists(file: Path) -> bool:
    """Return whether there is an entry of this name, including a broken symbolic link."""
    return os.path.lexists(file)


def open_regular(file: Path, mode: str, buffering: int = -1) -> Any:
    """Like `open(file, mode)`, but only for a regular file or one that the mode creates."""
    if exists(file):
        check_regular(file)  # before opening: opening alone may have an effect on a device

    def opener(path: str, flags: int) -> int:
        descriptor = os.open(path, flags | OPEN_FLAGS, 0o666)
        try:
            _check_status(os.fstat(descriptor), file)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    return open(file, mode, buffering, opener=opener)


def read_regular(file: Path, size: int | None = None, max_bytes: int | None = None) -> bytes:
    """Return the content of a regular file. Its length is checked before it is read.

    Args:
        size: The length that the file must have.
        max_bytes: The length that it may have. By default half of the memory of this machine.
    """
    limit = memory_bytes() // 2 if max_bytes is None else max_bytes
    with open_regular(file, "rb") as stream:
        actual_size = os.fstat(stream.fileno()).st_size
        if size is not None and actual_size != size:
            raise OSError(None, f"it has {actual_size} bytes, not {size}", str(file))
        if actual_size > limit:
            raise OSError(None, f"it has {actual_size:,} bytes, but at most {limit:,} are read", str(file))
        return stream.read()


def memory_bytes() -> int:
    """Return the memory of this machine, or a terabyte where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def parse_json(text: bytes | str) -> Any:
    """Like `json.loads`, but any problem with the text raises ValueError, even if it is nested too deeply."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH and _is_deep(value):
        raise ValueError(f"it is nested deeper than {MAX_JSON_DEPTH} levels")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [
            item
            for inner in level
            if isinstance(inner, dict | list)
            for item in (inner.values() if isinstance(inner, dict) else inner)
        ]
        if not level:
            return False
    return True


def check_inside(folder: Path, file: Path) -> None:
    """Raise OSError if a directory between `folder` and `file` is a symbolic link that leads out of `folder`."""
    try:
        is_inside = file.parent.resolve().is_relative_to(folder.resolve())
    except RuntimeError:  # until Python 3.12, for a link that leads to itself
        raise OSError(None, "it is in a loop of symbolic links", str(file)) from None
    if not is_inside:
        raise OSError(None, f"it is outside {folder}", str(file))


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
            "restore the files of the run, or start a new run in another directory"
        ) from error


def describe_error(error: Exception) -> str:
    """Return the message of an error in one line."""
    if isinstance(error, KeyError):
        return f"it has no {error}"
    message = format_validation_error(error) if isinstance(error, ValidationError) else str(error)
    return " ".join(message.split())[:MAX_ERROR_CHARS] or type(error).__name__


def save_checkpoint(
    folder: Path,
    arrays: Mapping[str, Mapping[str, np.ndarray]],
    values: Mapping[str, Any],
    max_to_keep: int = MAX_TO_KEEP,
) -> Path:
    """Write the next checkpoint to `folder`, then remove all but the newest `max_to_keep`."""
    existing = list_checkpoints(folder)
    number = existing[-1] + 1 if existing else 1
    final, temp = folder / f"{number:08}", folder / f"{TEMP_PREFIX}{number:08}"
    try:
        _remove_unfinished(folder)
        temp.mkdir(parents=True)
        write_checkpoint(temp, arrays, values)
        os.replace(temp, final)
        flush_folder(folder)
    except OSError as error:
        shutil.rmtree(temp, ignore_errors=True)
        rest = f"checkpoint {existing[-1]} is intact" if existing else "there is no earlier checkpoint"
        raise CheckpointError(f"cannot write checkpoint {number} to {folder}: {error.strerror}; {rest}") from error
    for old in [*existing, number][:-max_to_keep]:
        shutil.rmtree(folder / f"{old:08}", ignore_errors=True)
    return final


def write_checkpoint(folder: Path, arrays: Mapping[str, Mapping[str, np.ndarray]], values: Mapping[str, Any]) -> None:
    """Write the files of a checkpoint to a folder, the manifest last."""
    from safetensors.numpy import save as save_arrays  # an optional dependency

    files = {f"{group}.safetensors": save_arrays(_to_contiguous(named)) for group, named in arrays.items()}
    files["values.json"] = json.dumps(values, indent=1).encode()
    manifest = {}
    for name, data in files.items():
        write_flushed(folder / name, data)
        manifest[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
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
            warnings.warn(f"{error}; trying the previous checkpoint", RuntimeWarning, stacklevel=2)
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
        data = {}
        for name, entry in manifest.items():
            if not _is_plain_name(name):
                raise ValueError(f"{MANIFEST} names {name!r}, which is not a file of a checkpoint")
            limit = MAX_JSON_BYTES if name == "values.json" else None
            data[name] = read_regular(checkpoint / name, entry["bytes"], limit)
            if hashlib.sha256(data[name]).hexdigest() != entry["sha256"]:
                raise ValueError(f"the checksum of {name} does not match")
        values = parse_json(data.pop("values.json"))
        if not isinstance(values, dict):
            raise ValueError("values.json is not a JSON object")
        arrays = {name.removesuffix(".safetensors"): load_arrays(blob) for name, blob in data.items()}
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


def write_flushed(file: Path, data: bytes) -> None:
    """Write a new file and flush it to disk. An existing file or symbolic link is removed, not followed."""
    file.unlink(missing_ok=True)
    with open(file, "xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def flush_folder(folder: Path) -> None:
    """Flush a directory to disk where the system supports it, so that a rename survives a power failure."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
