"""The runs below a folder, finished or not, read again when their files change."""

import hashlib
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envgen.designers.chat.ledger import LEDGER
from envgen.designers.chat.offline import open_requests
from envgen.report.html import Html
from envgen.report.read import LineReader, RunFiles, as_text
from envgen.runs.compare import MAX_DEPTH
from envgen.runs.files import check_inside
from envgen.runs.store import PROGRESS, RunError, read_entry, read_last_line

from .server import RequestError

MIN_SCAN_SECONDS = 0.4  # between two looks at the file system, however many pages are open
RECENT_SECONDS = 30.0  # a run without a visible lock counts as running for this long after it wrote a file
KEEP_SECONDS = 60.0  # for which the progress of a run stays in memory after it was shown
WATCHED = ("run.json", "summary.json", PROGRESS, LEDGER, "requests", "tasks.jsonl")
CYCLE_FILES = ("levels.json", "evaluation.json")
LOCK_INODE = re.compile(r":(\d+) \d+ \S+$")  # in a line of /proc/locks
Stamp = Mapping[str, Any]  # by file: what changes when the file does


@dataclass
class LiveRun(RunFiles):
    """A run directory that may be changing."""

    id: str = ""
    stamp: Stamp = field(default_factory=dict)
    is_running: bool = False
    _progress: LineReader | None = None
    _last_line: dict[str, Any] | None = None
    _parts: dict[str, tuple[Any, float, Html | None]] = field(default_factory=dict)
    _used: float = field(default_factory=time.monotonic)
    _row: tuple[Stamp, bool, Html] | None = None

    def refresh(self, stamp: Stamp) -> None:
        """Forget what was read from files that have changed, and everything if no page shows it any more."""
        if time.monotonic() - self._used > KEEP_SECONDS:
            self._progress = None
            self._parts.clear()
            self.__dict__.pop("lines", None)
        if stamp != self.stamp:
            changed = {name for name in stamp if stamp[name] != self.stamp.get(name)}
            self.problems = [problem for problem in self.problems if not self._is_about(problem, changed)]
            self._last_line = None
            for name, files in (("summary", {"summary.json"}), ("lines", {PROGRESS}), ("cycles", {"cycles"})):
                if changed & files:
                    self.__dict__.pop(name, None)
            self.stamp = stamp

    def _is_about(self, problem: str, names: Collection[str]) -> bool:
        """Whether a problem is one of these files or folders."""
        text = problem.replace(str(self.folder), "")  # the path of the run may contain such a name
        return any(name in text for name in names)

    def _reader(self, name: str) -> LineReader:
        if name != PROGRESS:
            return super()._reader(name)
        self._used = time.monotonic()
        self._progress = self._progress or super()._reader(name)
        return self._progress

    @property
    def last_line(self) -> dict[str, Any]:
        if "lines" in self.__dict__:
            return super().last_line
        if self._last_line is None:
            self._last_line = read_last_line(self.folder / PROGRESS)
        return self._last_line

    @property
    def is_waiting(self) -> bool:
        """Whether the run waits for the reply of a person."""
        return bool(not self.summary and self.open_requests())

    @property
    def is_in_progress(self) -> bool:
        return self.is_running and not self.summary

    def open_requests(self) -> list[Path]:
        """The files of the open requests; what is no regular file is none of the run's."""
        if not self.stamp.get("requests"):
            return []
        return [file for file in open_requests(self.folder / "requests") if _is_regular(file)]

    def part(
        self, name: str, build: Callable[[], Html | None], files: tuple[str, ...], seconds: float = 0
    ) -> Html | None:
        """What `build` returns, built again when one of the files has changed, at most every `seconds`."""
        self._used = time.monotonic()
        key = tuple(self.stamp.get(file) for file in files)
        known = self._parts.get(name)
        if known is None or (known[0] != key and time.monotonic() - known[1] >= seconds):
            self._parts[name] = known = (key, time.monotonic(), build())
        return known[2]

    def row(self, build: Callable[["LiveRun"], Html]) -> Html:
        """What `build` returns for the list of runs, built again when the run has changed."""
        if self._row is None or self._row[0] is not self.stamp or self._row[1] != self.is_running:
            self._row = (self.stamp, self.is_running, build(self))
        return self._row[2]


class RunFolder:
    """All runs below a folder. Symbolic links are never followed, so nothing outside the folder is read or written."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.lock = threading.RLock()  # held while runs are read
        self.unreadable: dict[str, str] = {}  # by name
        self._runs: dict[str, LiveRun] = {}
        self._evaluations: dict[str, Any] = {}  # of language models, which are not shown: the stamps of their run.json
        self._scanned = float("-inf")

    def runs(self) -> list[LiveRun]:
        """The runs as they are now, those in progress first, then the newest."""
        with self.lock:
            if time.monotonic() - self._scanned >= MIN_SCAN_SECONDS:
                self._scan()
                self._scanned = time.monotonic()
            return sorted(self._runs.values(), key=lambda run: (not run.is_in_progress, -_started(run), run.name))

    def get(self, run_id: str) -> LiveRun:
        self.runs()
        try:
            return self._runs[run_id]
        except KeyError:
            raise RequestError("there is no such run in this folder; it may have been deleted or moved", 404) from None

    def _scan(self) -> None:
        runs: dict[str, LiveRun] = {}
        self.unreadable = {}
        locked = _locked_inodes()
        for folder in _find_folders(self.folder, MAX_DEPTH):
            name = folder.relative_to(self.folder).as_posix() if folder != self.folder else folder.name
            run_id = hashlib.sha256(os.fsencode(str(folder))).hexdigest()[:16]
            if run_id in self._evaluations and self._evaluations[run_id] == _file_stamp(f"{folder}/run.json"):
                continue
            stamp = _stamp(folder)
            run = self._runs.get(run_id)
            try:
                if run is None or run.stamp.get("run.json") != stamp["run.json"]:
                    entry = read_entry(folder)
                    if "policy" in entry["request"]:
                        self._evaluations[run_id] = stamp["run.json"]
                        continue
                    if not isinstance(entry["request"].get("seed"), int):
                        raise RunError("its run.json has no seed")
                    run = LiveRun(folder, name, entry, id=run_id)
                run.refresh(stamp)
            except RunError as error:
                self.unreadable[name] = str(error)
                continue
            run.is_running = _is_running(folder, stamp, locked)
            runs[run_id] = run
        self._runs = runs


def _find_folders(folder: Path, depth: int) -> Iterator[Path]:
    """The run directories at or below a folder, without following symbolic links."""
    if _is_regular(folder / "run.json"):
        yield folder
        return
    if not depth:
        return
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError:
        return
    for name in names:
        yield from _find_folders(folder / name, depth - 1)


def _is_regular(file: Path) -> bool:
    """Whether this is a file, and neither a symbolic link nor anything else."""
    try:
        return stat.S_ISREG(os.lstat(file).st_mode)
    except OSError:
        return False


def _stamp(folder: Path) -> Stamp:
    stamp: dict[str, Any] = {name: _file_stamp(f"{folder}/{name}") for name in WATCHED}
    cycles = f"{folder}/cycles"
    try:
        if os.path.islink(cycles):
            check_inside(folder, Path(cycles, "1"))
        with os.scandir(cycles) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        files = {name: [f"{cycles}/{name}/{file}" for file in CYCLE_FILES] for name in names}
        stamp["cycles"] = tuple((name, *map(_file_stamp, files[name])) for name in names)
    except OSError:
        stamp["cycles"] = None
    return stamp


def _file_stamp(file: str) -> tuple[int, int, int] | None:
    """None for what is missing or a symbolic link."""
    try:
        status = os.lstat(file)
    except OSError:
        return None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _started(run: LiveRun) -> int:
    """When run.json was written."""
    return (run.stamp.get("run.json") or (0,))[0]


def _locked_inodes() -> set[int]:
    """The inodes of locked files. Locking a run to find out whether it is locked could disturb one that starts."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:  # not Linux
        return set()
    return {int(match[1]) for line in lines if (match := LOCK_INODE.search(line))}


def _is_running(folder: Path, stamp: Stamp, locked: set[int]) -> bool:
    try:
        inode = os.lstat(folder / "lock").st_ino
    except OSError:
        return False  # only a run that was started on this machine has a lock
    times = [value[0] for name in WATCHED if (value := stamp.get(name))]
    return inode in locked or time.time() - max(times, default=0) / 1e9 < RECENT_SECONDS


def designer_name(run: RunFiles) -> str:
    """The designer or proposer of a run."""
    config = run.request.get(run.kind.group_key)
    return as_text(config.get("name")) if isinstance(config, dict) else ""
