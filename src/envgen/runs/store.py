"""Run directories: everything one training run writes, and from which it resumes.

run.json          the request (all settings that decide the result), library versions and the machine
progress.jsonl    one line per update; cut back to the checkpoint when a run resumes
checkpoints/      see checkpoint.py
<name>.json       results, written atomically
lock              held while a process works in the directory
"""

import json
import os
import platform
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import numpy as np

from envgen.errors import EnvgenError

from . import checkpoint
from .checkpoint import Checkpoint, CheckpointError, check_inside, exists, open_regular, read_regular

try:
    import fcntl
except ImportError:  # Windows: two processes in one run directory are not detected
    fcntl = None

FORMAT = 2  # of run directories; migrate.py rewrites older ones
PROGRESS = "progress.jsonl"
LIBRARIES = ("envgen", "numpy", "numba", "gymnasium", "torch")
MAX_VALUE_CHARS = 60  # of a value in an error message


class RunError(EnvgenError):
    """A run directory is not in the expected state. The message says what to do."""


class Run:
    """A run directory, locked by this process."""

    def __init__(
        self,
        folder: Path,
        request: Mapping[str, Any],
        is_main: bool = True,
        runtime_options: Mapping[str, Any] | None = None,
        extendable: Collection[str] = (),
    ):
        """Create the run directory, or open it to resume the run.

        Args:
            folder: The run directory.
            request: All settings that decide the result. They must equal those that the run was started with.
            is_main: Whether this process writes. Of several processes that train together, one does.
            runtime_options: Saved with the request, but may differ when the run resumes.
            extendable: Dotted names of numbers in the request that may be larger than those of the finished run in
                `folder`. Its results are then removed, to be computed again, and `extended_from` holds the old values.
        """
        self.folder, self.request, self.is_main = folder, json.loads(json.dumps(request)), is_main
        self.runtime_options = dict(runtime_options or {})
        self._lock = None
        if is_main:
            try:
                self._open(extendable)
            except BaseException:
                self.close()
                raise

    def _open(self, extendable: Collection[str]) -> None:
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot create the run directory {folder}: {error.strerror}") from error
        self._lock = lock_folder(folder)
        if not exists(folder / "run.json"):
            self.write(
                "run",
                {
                    "format": FORMAT,
                    "request": self.request,
                    "runtime_options": self.runtime_options,
                    "versions": library_versions(),
                    "machine": platform.platform(),
                },
            )
            return
        previous = read_request(folder)[0]
        if extendable and self._is_extension(previous, extendable):
            self._extend(previous, extendable)
        else:
            self._check_same_request(previous)

    def _check_same_request(self, previous: Mapping[str, Any]) -> None:
        if changes := differences(previous, self.request):
            raise RunError(
                f"{self.folder} was started with {', '.join(changes)}; "
                f"choose another directory, or use the settings it was started with"
            )

    def _is_extension(self, previous: Mapping[str, Any], extendable: Collection[str]) -> bool:
        """Return whether the request grows `extendable` numbers and changes nothing else."""
        before, now = flatten(previous), flatten(self.request)
        changed = [name for name in before.keys() | now.keys() if before.get(name) != now.get(name)]
        return bool(changed) and all(
            name in extendable and name in before and name in now and now[name] > before[name] for name in changed
        )

    def _extend(self, previous: Mapping[str, Any], extendable: Collection[str]) -> None:
        if not self.has("summary"):
            raise RunError(f"{self.folder} is not finished; resume it as it was started, then extend it")
        entry = self.read("run")
        before = flatten(previous)
        old_values = {name: before[name] for name in sorted(extendable)}
        for name in ("summary.json", "reference.json", "diagnosis.json", "diagnosis.png"):  # of the shorter run
            (self.folder / name).unlink(missing_ok=True)
        extended_from = [*entry.get("extended_from", []), old_values]
        self.write("run", {**entry, "request": self.request, "extended_from": extended_from})

    @property
    def extended_from(self) -> list[dict[str, Any]]:
        """The extended values before each extension of the run, oldest first; empty if it was never extended."""
        return self.read("run").get("extended_from", [])

    def write(self, name: str, value: Any) -> None:
        """Write a result to `<name>.json`."""
        file = self.folder / f"{name}.json"
        try:
            check_inside(self.folder, file)
        except OSError as error:
            raise RunError(f"cannot write {file}: {error.strerror}") from error
        write_json(file, value)

    def has(self, name: str) -> bool:
        """Return whether `<name>.json` exists."""
        return exists(self.folder / f"{name}.json")

    def read(self, name: str) -> Any:
        """Read `<name>.json`."""
        file = self.folder / f"{name}.json"
        try:
            check_inside(self.folder, file)
        except OSError as error:
            raise RunError(f"cannot read {file}: {error.strerror}") from error
        return read_json(file)

    def log(self, line: Mapping[str, Any]) -> None:
        """Append a line to the progress."""
        try:
            with open_regular(self.folder / PROGRESS, "a") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError as error:
            raise RunError(f"cannot write {self.folder / PROGRESS}: {error.strerror}") from error

    def save(self, arrays: Mapping[str, Mapping[str, np.ndarray]], values: Mapping[str, Any]) -> None:
        """Write a checkpoint. It records the length of the progress."""
        file = self.folder / PROGRESS
        length = 0
        if exists(file):
            with _open(file, "rb") as progress:  # on disk before the checkpoint that refers to it
                os.fsync(progress.fileno())
                length = os.fstat(progress.fileno()).st_size
        checkpoint.flush_folder(self.folder)
        checkpoint.save_checkpoint(self.folder / "checkpoints", arrays, {**values, "progress_bytes": length})

    def resume(self) -> Checkpoint | None:
        """Load the last intact checkpoint and cut the progress back to it. Returns None if there is none yet."""
        last = checkpoint.load_latest(self.folder / "checkpoints")
        file = self.folder / PROGRESS
        if exists(file) and self.is_main:
            length = last.values["progress_bytes"] if last else 0
            with _open(file, "rb+") as progress:
                if os.fstat(progress.fileno()).st_size < length:
                    number = last.number if last else 0
                    raise CheckpointError(
                        f"{file} is shorter than when checkpoint {number} was written; "
                        "restore the file, or start a new run in another directory"
                    )
                progress.truncate(length)
        return last

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def lock_folder(folder: Path) -> IO[str]:
    """Lock a run directory until the returned file is closed."""
    try:
        lock = open_regular(folder / "lock", "a")
    except OSError as error:
        raise RunError(f"cannot lock the run directory {folder}: {error.strerror}") from error
    if fcntl is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise RunError(
                f"another process is using {folder}; wait until it ends, or choose another directory"
            ) from None
    return lock


def read_request(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the request of a run and its runtime options."""
    file = folder / "run.json"
    if not exists(file):
        raise RunError(f"{folder} is not a run directory: it has no run.json")
    entry = read_json(file)
    if isinstance(entry, dict) and isinstance(entry.get("request"), dict):
        check_format(folder, entry)
        if isinstance(entry.get("runtime_options", {}), dict):
            return entry["request"], entry.get("runtime_options", {})
    raise RunError(f"{file} has no request; pass a directory of envgen train or coevolve")


def check_format(folder: Path, entry: Mapping[str, Any]) -> None:
    """Raise RunError if a run directory, whose run.json holds `entry`, has another format than this version writes."""
    version = entry.get("format", 1)
    if version == 1:
        raise RunError(f"{folder} was written by an older version; convert it with: envgen migrate {folder}")
    if version != FORMAT:
        raise RunError(
            f"{folder} has the format {version!r:.20}, but this version of envgen reads format {FORMAT}; "
            "install the version that wrote it"
        )


def read_json(file: Path) -> Any:
    """Read a JSON file of a run directory."""
    try:
        return json.loads(read_regular(file))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def _open(file: Path, mode: str) -> Any:
    try:
        return open_regular(file, mode)
    except OSError as error:
        raise RunError(f"cannot open {file}: {error.strerror}") from error


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file atomically, creating its directory."""
    write_bytes(file, (json.dumps(value, indent=1) + "\n").encode())


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file atomically, creating its directory."""
    temp = file.with_name(f".{file.name}.unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.write_flushed(temp, data)
        os.replace(temp, file)
        checkpoint.flush_folder(file.parent)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror}") from error


def read_progress(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the progress lines of a run, which may still be running."""
    file = folder / PROGRESS
    if exists(file):
        with _open(file, "rb") as stream:
            text = stream.read().decode()
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):  # the last line may be incomplete
                yield json.loads(line)


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted names: {"plan": {"cycles": 4}} -> {"plan.cycles": 4}."""
    if not isinstance(value, Mapping) or (prefix and not value):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{name}" if prefix else str(name))
    return flat


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the values that differ between two requests, each as `plan.cycles 4 (now 8)`.

    Where the name of something differs, such as that of the learner, its settings are left out: they follow from it.
    """
    old, new = flatten(before), flatten(now)
    names = sorted(
        name for name in old.keys() | new.keys() if (name in old, old.get(name)) != (name in new, new.get(name))
    )
    renamed = tuple(name.removesuffix("name") for name in names if name.endswith(".name"))
    names = [name for name in names if not name.startswith(renamed) or name.endswith(".name")]
    return [f"{name} {_show(old, name)} (now {_show(new, name)})" for name in names]


def _show(values: Mapping[str, Any], name: str) -> str:
    return f"{values[name]!r:.{MAX_VALUE_CHARS}}" if name in values else "unset"


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
