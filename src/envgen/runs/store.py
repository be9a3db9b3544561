"""Run directories: everything one training run writes, and from which it resumes.

run.json          the request (all settings that decide the result), library versions and the machine
progress.jsonl    one line per update; truncated to the length in the checkpoint, and checked, when a run resumes
checkpoints/      see checkpoint.py
<name>.json       results, written atomically
lock              held while a process works in the directory
"""

import errno
import hashlib
import json
import os
import platform
import secrets
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import numpy as np

from envgen import __version__
from envgen.errors import EnvgenError
from envgen.settings import flatten

from . import checkpoint
from .checkpoint import Checkpoint, CheckpointError, describe_error
from .files import (
    MAX_JSON_BYTES,
    check_inside,
    exists,
    flush_folder,
    open_regular,
    parse_json,
    read_regular,
    suggest_path,
    write_flushed,
)

try:
    import fcntl
except ImportError:  # Windows: two processes in one run directory are not detected
    fcntl = None

NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK)  # of a file system without locks
FORMAT = 2  # of run directories; migrate.py rewrites older ones
PROGRESS = "progress.jsonl"
LIBRARIES = ("numpy", "numba", "gymnasium", "torch")
MAX_LINE_BYTES = 16 << 20  # of the progress
MAX_TAIL_BYTES = 1 << 20  # of the progress that are searched for its last line
OLD_RESULTS = "old_results"  # in run.json while results of the run before its extension may be left
MAX_VALUE_CHARS = 60  # of a value in an error message
RESTORE = "restore the file, or start a new run in another directory"


class RunError(EnvgenError):
    """A run directory is not in the expected state. The message says what to do."""


class Run:
    """A run directory. The process that writes to it holds its lock."""

    def __init__(
        self,
        folder: Path,
        request: Mapping[str, Any],
        is_main: bool = True,
        runtime_options: Mapping[str, Any] | None = None,
        extendable: Collection[str] = (),
        extend: bool = False,
    ):
        """Create the run directory, or open it to resume the run.

        Args:
            folder: The run directory.
            request: All settings that decide the result. They must equal those that the run was started with.
            is_main: Whether this process writes. Of several processes that train together, one does.
            runtime_options: Saved with the request. When the run resumes, they may differ, and replace the old ones.
            extendable: Dotted names of numbers in the request by which a finished run can be extended.
            extend: Extend the run in `folder`, which must exist, if these numbers are larger than before. Its results
                are then removed, to be computed again, and `extended_from` holds the old values.
        """
        self.folder, self.request, self.is_main = folder, json.loads(json.dumps(request)), is_main
        self.runtime_options = dict(runtime_options or {})
        self._extendable, self._lock = extendable, None
        self._intact: int | None = None  # the number of the checkpoint that was loaded or written last
        if is_main:
            try:
                self._open(extend)
            except BaseException:
                self.close()
                raise

    def _open(self, extend: bool) -> None:
        folder = self.folder
        if extend and not exists(folder / "run.json"):
            raise RunError(f"{folder} has no run to extend; to start a new run, leave out extend")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot create the run directory {folder}: {error.strerror}") from error
        if not exists(folder / "run.json"):
            check_no_runs_below(folder)  # before the file `lock` is created
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
        previous, runtime_options = read_request(folder)
        if extend and self._is_extension(previous):
            self._extend(previous)
        else:
            self._check_same_request(previous)
        entry = self.read("run")
        if is_extended := entry.pop(OLD_RESULTS, False):
            self._remove_old_results()
        if is_extended or self.runtime_options != runtime_options:
            self.write("run", {**entry, "runtime_options": self.runtime_options})

    def _check_same_request(self, previous: Mapping[str, Any]) -> None:
        if changes := differences(previous, self.request):
            hint = (
                ", or extend the run (--extend, or extend=True)"
                if self._is_extension(previous) and self.has("summary")
                else ""
            )
            raise RunError(
                f"{self.folder} was started with {', '.join(changes)}; "
                f"choose another directory, or use the settings it was started with{hint}"
            )

    def _is_extension(self, previous: Mapping[str, Any]) -> bool:
        """Return whether the request grows extendable numbers and changes nothing else."""
        before, now = flatten(previous), flatten(self.request)
        changed = [name for name in before.keys() | now.keys() if before.get(name) != now.get(name)]
        return bool(changed) and all(
            name in self._extendable and name in before and name in now and _is_more(now[name], before[name])
            for name in changed
        )

    def _extend(self, previous: Mapping[str, Any]) -> None:
        if not self.has("summary"):
            raise RunError(f"{self.folder} is not finished; resume it as it was started, then extend it")
        entry = self.read("run")
        before = flatten(previous)
        old_values = {name: before[name] for name in sorted(self._extendable)}
        extended_from = [*entry.get("extended_from", []), old_values]
        self.write("run", {**entry, "request": self.request, "extended_from": extended_from, OLD_RESULTS: True})

    def _remove_old_results(self) -> None:
        """Remove what was computed from the run before it was extended."""
        for name in ("summary.json", "reference.json", "diagnosis.json", "diagnosis.png"):
            (self.folder / name).unlink(missing_ok=True)

    @property
    def extended_from(self) -> list[dict[str, Any]]:
        """The extended values before each extension of the run, oldest first; empty if it was never extended."""
        extensions = self.read("run").get("extended_from", [])
        is_valid = isinstance(extensions, list) and all(isinstance(values, dict) for values in extensions)
        if not (is_valid and all(type(number) is int for values in extensions for number in values.values())):
            raise RunError(f"extended_from in {self.folder / 'run.json'} is not a list of old values; {RESTORE}")
        return extensions

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
        length, digest = 0, hashlib.sha256()
        try:
            if exists(file):
                # on disk before the checkpoint that refers to it; Windows flushes only files that are open for writing
                with open_regular(file, "rb+") as progress:
                    os.fsync(progress.fileno())
                    length = os.fstat(progress.fileno()).st_size
                    digest = hashlib.file_digest(progress, "sha256")
        except OSError as error:
            raise RunError(f"cannot write {file}: {error.strerror}") from error
        flush_folder(self.folder)
        values = {**values, "progress_bytes": length, "progress_sha256": digest.hexdigest()}
        written = checkpoint.save_checkpoint(self.folder / "checkpoints", arrays, values, self._intact)
        self._intact = int(written.name)

    def resume(self) -> Checkpoint | None:
        """Load the last intact checkpoint and cut the progress back to it. Returns None if there is none yet.

        Raises CheckpointError if the progress is not the one that the checkpoint was written with: the results of the
        run are computed from it.
        """
        last = checkpoint.load_latest(self.folder / "checkpoints")
        self._intact = last.number if last else None
        if self.is_main:
            self._cut_progress(last)
        return last

    def _cut_progress(self, last: Checkpoint | None) -> None:
        file = self.folder / PROGRESS
        length = last.values.get("progress_bytes") if last else 0
        if type(length) is not int or length < 0:
            raise CheckpointError(f"a checkpoint in {self.folder} does not hold the length of {PROGRESS}; {RESTORE}")
        number = last.number if last else 0
        if not exists(file):
            if length:
                raise CheckpointError(f"{file}, which checkpoint {number} refers to, is missing; {RESTORE}")
            return
        try:
            with open_regular(file, "rb+") as progress:
                if os.fstat(progress.fileno()).st_size < length:
                    raise CheckpointError(f"{file} is shorter than when checkpoint {number} was written; {RESTORE}")
                expected = last.values.get("progress_sha256") if last else None  # earlier versions wrote none
                if expected is not None and hashlib.sha256(progress.read(length)).hexdigest() != expected:
                    raise CheckpointError(f"{file} has changed since checkpoint {number} was written; {RESTORE}")
                progress.truncate(length)
        except OSError as error:
            raise RunError(f"cannot open {file}: {error.strerror}") from error

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def check_no_runs_below(folder: Path) -> None:
    """Raise RunError for a folder that holds run directories: in a run directory, they would no longer be found."""
    runs = sorted(entry.name for entry in folder.iterdir() if exists(entry / "run.json"))
    if runs:
        raise RunError(
            f"{folder} holds other runs, such as {runs[0]}; choose a directory for this run alone, such as "
            f"{folder / 'NAME'}"
        )


def lock_folder(folder: Path) -> IO[str]:
    """Lock a run directory until the returned file is closed, if its file system has locks."""
    try:
        lock = open_regular(folder / "lock", "a")
    except OSError as error:
        raise RunError(f"cannot lock the run directory {folder}: {error.strerror}") from error
    if fcntl is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise RunError(
                f"another process is using {folder}; wait until it ends, or choose another directory"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                lock.close()
                raise RunError(f"cannot lock the run directory {folder}: {error.strerror}") from error
    return lock


def read_request(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the request of a run and its runtime options."""
    entry = read_entry(folder)
    return entry["request"], entry.get("runtime_options", {})


def _with_encoder(request: dict[str, Any]) -> dict[str, Any]:
    """The request with the encoder that earlier versions recorded as `auto` for images."""
    learner = request.get("learner")
    if request.get("observation") != "pixels" or not isinstance(learner, dict):
        return request
    network = learner.get("network")
    if not isinstance(network, dict) or network.get("encoder") != "auto":
        return request
    return {**request, "learner": {**learner, "network": {**network, "encoder": "impala"}}}


def read_entry(folder: Path, any_format: bool = False) -> dict[str, Any]:
    """Return the content of run.json. Raises RunError if it has no request, or another format than this version writes.

    Args:
        any_format: Accept all formats.
    """
    file = folder / "run.json"
    if not exists(file):
        raise RunError(f"{folder} is not a run directory: it has no run.json{suggest_path(folder)}")
    entry = read_json(file)
    if not isinstance(entry, dict) or not isinstance(entry.get("request"), dict):
        raise RunError(f"{file} has no request; pass a directory of envgen train or coevolve")
    if not any_format:
        check_format(folder, entry)
    if not isinstance(entry.get("runtime_options", {}), dict):
        raise RunError(f"{file} has no valid runtime options; {RESTORE}")
    return entry if any_format else {**entry, "request": _with_encoder(entry["request"])}


def check_format(folder: Path, entry: Mapping[str, Any]) -> None:
    """Raise RunError if a run directory, whose run.json holds `entry`, has another format than this version writes."""
    version = entry.get("format", 1)
    if version == 1:
        raise RunError(
            f"{folder} was written by an older version; convert it with: envgen migrate {shlex.quote(str(folder))}"
        )
    if version != FORMAT:
        raise RunError(
            f"{folder} has the format {version!r:.20}, but this version of envgen reads format {FORMAT}; "
            "install the version that wrote it"
        )


def read_json(file: Path) -> Any:
    """Read a JSON file of a run directory."""
    try:
        return parse_json(read_regular(file, max_bytes=MAX_JSON_BYTES))
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file atomically, creating its directory."""
    write_bytes(file, (json.dumps(value, indent=1) + "\n").encode())


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file atomically, creating its directory."""
    temp = file.with_name(f".{file.name}.{secrets.token_hex(4)}.unfinished")  # several processes may write a report
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_flushed(temp, data)
        os.replace(temp, file)
        flush_folder(file.parent)
    except OSError as error:
        with suppress(OSError):
            temp.unlink()
        raise RunError(f"cannot write {file}: {error.strerror}") from error


def read_progress(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the progress lines of a run, which may still be running."""
    file = folder / PROGRESS
    if not exists(file):
        return
    try:
        with open_regular(file, "rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                if line.endswith(b"\n"):  # the last line may be incomplete
                    yield _parse_line(line, f"line {number} of {file}")
                elif len(line) == MAX_LINE_BYTES:
                    raise RunError(f"line {number} of {file} is longer than {MAX_LINE_BYTES:,} bytes; {RESTORE}")
    except OSError as error:
        raise RunError(f"cannot open {file}: {error.strerror}") from error


def _parse_line(line: bytes, place: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except ValueError as error:
        raise RunError(f"{place} is damaged: {error}; {RESTORE}") from None
    if not isinstance(value, dict):
        raise RunError(f"{place} is not a JSON object; {RESTORE}")
    return value


def read_last_line(file: Path) -> dict[str, Any]:
    """Return the last complete line of a file of JSON lines; `{}` if there is none or it cannot be read."""
    try:
        with open_regular(file, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - MAX_TAIL_BYTES))
            lines = stream.read().split(b"\n")
        value = json.loads(lines[-2]) if len(lines) > 1 else None
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Context for using a JSON file or the progress: raises a RunError that names the file if its values are wrong."""
    try:
        yield
    except EnvgenError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise RunError(f"{file} is damaged: {describe_error(error)}; {RESTORE}") from error


def _is_more(now: Any, before: Any) -> bool:
    return type(now) is type(before) is int and now > before


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
    versions = {"python": platform.python_version(), "envgen": __version__}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
