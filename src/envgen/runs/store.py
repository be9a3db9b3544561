"""A run directory: everything one training did, readable without this package, and from which it resumes.

run.json          what was asked for, and with which versions
progress.jsonl    a line an update; appended, cut back to the checkpoint when a run resumes
checkpoints/      see checkpoint.py
<name>.json       results, written whole or not at all
lock              held while a process works here
"""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoint
from .checkpoint import Checkpoint, CheckpointError
from .files import check_inside, exists, open_regular, read_regular

try:
    import fcntl
except ImportError:  # not on Windows: two processes in one run are then not noticed
    fcntl = None

PROGRESS = "progress.jsonl"
LIBRARIES = ("envgen", "numpy", "numba", "gymnasium", "torch")


class RunError(Exception):
    """A run directory is not what was expected; the message says what to do."""


class Run:
    """One run directory, locked for this process."""

    def __init__(
        self, folder: Path, request: Mapping[str, Any], is_main: bool = True, runtime_options: Mapping[str, Any] = {}
    ):
        """Begin the run that `request` asks for, or go on with it if it was begun before.

        `means` is put down beside the request, but may differ later. Of several processes that work on one run
        together, one leads; the others only read.
        """
        self.folder, self.request, self.is_main = folder, json.loads(json.dumps(request)), is_main
        self.runtime_options = dict(runtime_options)
        self._lock = None
        if is_main:
            self._claim()

    def _claim(self) -> None:
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open_regular(folder / "lock", "a")  # held as long as the run
        except OSError as error:
            raise RunError(f"cannot make the run directory {folder}: {error.strerror}") from error
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(f"another process is working in {folder}") from None
        about = folder / "run.json"
        if exists(about):
            self._agree(read_request(folder)[0])
        else:
            machine = platform.platform()
            self.write(
                "run",
                {"request": self.request, "means": self.runtime_options, "versions": versions(), "machine": machine},
            )

    def _agree(self, before: dict[str, Any]) -> None:
        changed = sorted(k for k in before.keys() | self.request.keys() if before.get(k) != self.request.get(k))
        if changed:
            what = ", ".join(f"{k} {before.get(k)!r} (now {self.request.get(k)!r})" for k in changed)
            raise RunError(f"{self.folder} was begun with {what}; choose another directory, or ask for the same")

    def write(self, name: str, value: Any) -> None:
        """A result as `<name>.json`."""
        file = self.folder / f"{name}.json"
        try:
            check_inside(self.folder, file)
        except OSError as error:
            raise RunError(f"cannot write {file}: {error.strerror}") from error
        write_json(file, value)

    def has(self, name: str) -> bool:
        return exists(self.folder / f"{name}.json")

    def read(self, name: str) -> Any:
        file = self.folder / f"{name}.json"
        try:
            check_inside(self.folder, file)
        except OSError as error:
            raise RunError(f"cannot read {file}: {error.strerror}") from error
        return read_json(file)

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to the progress."""
        try:
            with open_regular(self.folder / PROGRESS, "a") as out:
                out.write(json.dumps(line) + "\n")
        except OSError as error:
            raise RunError(f"cannot write {self.folder / PROGRESS}: {error.strerror}") from error

    def save(self, arrays: Mapping[str, Mapping[str, np.ndarray]], values: Mapping[str, Any]) -> None:
        """A checkpoint, which remembers how long the progress is."""
        file = self.folder / PROGRESS
        length = 0
        if exists(file):
            with _opened(file, "rb") as progress:  # on the disk before a checkpoint that counts on it
                os.fsync(progress.fileno())
                length = os.fstat(progress.fileno()).st_size
        checkpoint.flush_folder(self.folder)
        checkpoint.save_checkpoint(self.folder / "checkpoints", arrays, {**values, "progress_bytes": length})

    def resume(self) -> Checkpoint | None:
        """The last sound checkpoint, with the progress cut back to it; None if the run is at its beginning."""
        last = checkpoint.load_latest(self.folder / "checkpoints")
        file = self.folder / PROGRESS
        if exists(file) and self.is_main:
            length = last.values["progress_bytes"] if last else 0
            with _opened(file, "rb+") as progress:
                if os.fstat(progress.fileno()).st_size < length:
                    raise CheckpointError(
                        f"{file} is shorter than checkpoint {last.number if last else 0} remembers it"
                    )
                progress.truncate(length)
        return last

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def read_request(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run was asked for, and by which means it was to be done."""
    file = folder / "run.json"
    if not exists(file):
        raise RunError(f"{folder} is not a run directory: there is no run.json in it")
    told = read_json(file)
    try:
        request, means = told["request"], told.get("means", {})
        if isinstance(request, dict) and isinstance(means, dict):
            return request, means
    except (TypeError, KeyError, AttributeError):
        pass
    raise RunError(f"{file} does not say what was asked for; it is not that of a run")


def read_json(file: Path) -> Any:
    try:
        return json.loads(read_regular(file))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def _opened(file: Path, mode: str) -> Any:
    try:
        return open_regular(file, mode)
    except OSError as error:
        raise RunError(f"cannot open {file}: {error.strerror}") from error


def write_json(file: Path, value: Any) -> None:
    """Whole or not at all."""
    fresh = file.with_name(f".{file.name}.unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.write_flushed(fresh, (json.dumps(value, indent=1) + "\n").encode())
        os.replace(fresh, file)
        checkpoint.flush_folder(file.parent)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror}") from error


def read_progress(folder: Path) -> Iterator[dict[str, Any]]:
    """The progress of a run, also of one that another process is working on."""
    file = folder / PROGRESS
    if exists(file):
        with _opened(file, "rb") as opened:
            text = opened.read().decode()
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):  # the last may be half written
                yield json.loads(line)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
