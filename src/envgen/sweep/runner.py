"""Runs a sweep: starts its runs with an engine, resumes and retries them, and stops them cleanly.

    FOLDER/sweep.json                   the options of all runs, and the memory that the largest has needed
    FOLDER/budget.json                  what the language models of all runs have used, if they share a budget
    FOLDER/designer=expert,seed=0/      a run directory, with what the run printed in output.log

Which runs are finished is read from their directories, so repeating the command continues after any interruption.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from envgen.errors import EnvgenError
from envgen.interrupts import INTERRUPTED, signal_handler
from envgen.report.read import RunFiles
from envgen.runs.kinds import get_path, number
from envgen.runs.store import (
    PROGRESS,
    RunError,
    differences,
    lock_folder,
    read_json,
    read_last_line,
    read_request,
    write_json,
)
from envgen.text import printable

from .engines.engine import LOG, Engine, EngineBusyError, Job, JobEnd
from .grid import PlannedRun, SweepError

State = Literal["waiting", "queued", "running", "finished", "failed", "interrupted"]

FILE = "sweep.json"
POLL_SECONDS = 0.2
LOST_SECONDS = 60.0  # within which the process of a lost job writes its checkpoint
DISPLAY_SECONDS = 1.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0  # between attempts to start runs, while an engine takes none
MAX_PAUSE_SECONDS = 3600.0  # of all of them together
MAX_TAIL_BYTES = 1 << 16  # of a log
MAX_REASON_CHARS = 500
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class SweepRun(RunFiles):
    """A run of a sweep with its state."""

    def __init__(self, plan: PlannedRun, folder: Path, request: dict[str, Any]):
        super().__init__(folder, folder.name, {"request": request})
        self.plan = plan
        self.state: State = "finished" if self.is_finished else "waiting"
        self.num_failures = 0
        self.num_lost = 0  # how often its process was killed, or its machine lost
        self.reason = ""  # why it failed last
        self.started: float | None = None
        self._mark: object = None
        self._log_start = self._log_time = 0  # size and time of the log before the last start

    @property
    def is_finished(self) -> bool:
        has_reference = self.plan.options.get("reference-episodes", "0") != "0"
        names = ["summary.json", *(["reference.json"] if has_reference else [])]
        return all((self.folder / name).is_file() for name in names)

    @property
    def last_line(self) -> dict[str, Any]:
        return read_last_line(self.folder / PROGRESS)

    @property
    def remaining_steps(self) -> float:
        return max(0.0, (self.planned_steps or 0.0) - self.steps)

    @property
    def seconds_so_far(self) -> float | None:
        """How long a finished run took, or how long a running one has been running."""
        if self.state == "running" and self.started is not None:
            return time.monotonic() - self.started
        return number(self.summary, "total_seconds" if self.is_coevolution else "seconds")

    @property
    def result(self) -> tuple[str, float] | None:
        """The name and the value of the result that the table shows."""
        name = self.kind.main_result
        value = number(self.summary, *self.kind.results[name])
        return None if value is None else (name, value)

    def read_object(self, name: str) -> dict[str, Any]:
        if name == "summary.json" and self.state != "finished":
            return {}
        return super().read_object(name)

    def set_finished(self) -> None:
        self.state, self.reason = "finished", ""
        self.__dict__.pop("summary", None)  # it has just been written

    def begin(self, is_queued: bool) -> None:
        self._mark = self._progress_mark()
        self._log_start, self._log_time = self._log_status()
        if is_queued:
            self.state = "queued"
        else:
            self.set_running()

    def set_running(self) -> None:
        self.state, self.started = "running", time.monotonic()

    def has_left_queue(self) -> bool:
        """Whether a queued run has been started: its log is then opened, which changes the time of the file."""
        return self._log_status()[1] != self._log_time

    def has_advanced(self) -> bool:
        """Whether the run has saved anything since it was started."""
        return self._progress_mark() != self._mark

    def _progress_mark(self) -> object:
        files = (*self.folder.glob("checkpoints/[0-9]*"), *self.folder.glob("cycles/*/*.json"))
        return sorted(str(file.relative_to(self.folder)) for file in files)

    def is_in_use(self) -> bool:
        """Whether a process works in the run directory."""
        if not (self.folder / "lock").exists():
            return False
        try:
            lock_folder(self.folder).close()
        except RunError:
            return True
        return False

    def _log_status(self) -> tuple[int, int]:
        """The size of the log and the time of its last change."""
        try:
            status = (self.folder / LOG).stat()
        except OSError:
            return 0, 0
        return status.st_size, status.st_mtime_ns

    def last_log_line(self) -> str:
        """The error that the run has printed last since it was started, or its last line."""
        try:
            with (self.folder / LOG).open("rb") as log:
                log.seek(max(self._log_start, log.seek(0, 2) - MAX_TAIL_BYTES))
                lines = [line.strip(" │╭╰─╮╯") for line in log.read().decode(errors="replace").splitlines()]
        except OSError:
            return ""
        lines = [line for line in lines if line]
        errors = [line for line in lines[-20:] if line.startswith("envgen: ")]
        text = errors[-1].removeprefix("envgen: ") if errors else lines[-1] if lines else ""
        return printable(text)[:MAX_REASON_CHARS]


class Display(Protocol):
    """What the user sees of a sweep."""

    def update(self, runs: Sequence[SweepRun], run: SweepRun | None = None) -> None:
        """Called regularly, and with the run whose state has changed."""

    def message(self, text: str) -> None: ...


@dataclass
class Sweep:
    """All runs of a sweep in their folder."""

    folder: Path
    runs: list[SweepRun]
    retries: int = 1
    threads: int = 1
    gpus: int = 0
    extra_args: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by name, in addition to the options

    @property
    def unfinished(self) -> list[SweepRun]:
        return [run for run in self.runs if run.state != "finished"]

    def job(self, run: SweepRun) -> Job:
        args = (
            run.plan.command, *run.plan.args(), *self.extra_args.get(run.plan.name, ()), "--folder", str(run.folder)
        )  # fmt: skip
        safe_path = sys.path[0] not in ("", os.getcwd())  # as in this process
        return Job(run.name, args, run.folder, self.threads, self.gpus, cwd=Path.cwd(), safe_path=safe_path)

    def run(self, engine: Engine, display: Display) -> bool:
        """Run to the end. Returns False if the user has stopped it."""
        waiting = sorted(self.unfinished, key=lambda run: -run.remaining_steps)  # the longest first
        running: dict[str, SweepRun] = {}
        lost: dict[JobEnd, float] = {}  # with the time after which their processes are no longer waited for
        last_display, pause = float("-inf"), Pause()
        if engine.notice:
            display.message(engine.notice)
        with stop_requests() as stop:
            is_stopping = False
            while running or (waiting and not is_stopping):
                for end in self._ends(engine, running, lost):
                    run = running.pop(end.name)
                    self._record(run, end, is_stopping)
                    if run.state == "waiting":
                        waiting.insert(0, run)
                    display.update(self.runs, run)
                    if engine.peak_memory is not None:
                        try:
                            self.save(engine.peak_memory)
                        except RunError as error:  # it is only a measurement; a full disk ends no other runs
                            display.message(str(error))
                if stop.count and not is_stopping:
                    is_stopping = True
                    engine.interrupt()
                    display.message("Stopping: runs write their checkpoints. Press Ctrl-C again to stop at once.")
                if stop.count > 1:
                    engine.kill()
                    for run in running.values():
                        run.state = "interrupted"
                    break
                while waiting and not stop.count and pause.is_over and engine.has_room():
                    run = waiting.pop(0)
                    self._start(run, engine, running, pause, display)
                    if run.state == "waiting":
                        waiting.append(run)
                    display.update(self.runs, run)
                if time.monotonic() - last_display >= DISPLAY_SECONDS:
                    for run in running.values():
                        if run.state == "queued" and run.has_left_queue():
                            run.set_running()
                            display.update(self.runs, run)
                    display.update(self.runs)
                    last_display = time.monotonic()
                stop.wait(POLL_SECONDS)
        display.update(self.runs)
        return not is_stopping

    def _ends(self, engine: Engine, running: Mapping[str, SweepRun], lost: dict[JobEnd, float]) -> list[JobEnd]:
        """The jobs that have ended. The process of a lost job may outlive its worker and still write a checkpoint."""
        now, ends = time.monotonic(), []
        for end in engine.poll():
            if end.code is None:
                lost[end] = now + LOST_SECONDS
            else:
                ends.append(end)
        for end, deadline in list(lost.items()):
            if now >= deadline or not running[end.name].is_in_use():
                del lost[end]
                ends.append(end)
        return ends

    def _start(
        self, run: SweepRun, engine: Engine, running: dict[str, SweepRun], pause: "Pause", display: Display
    ) -> None:
        run.begin(engine.has_queue)
        try:
            engine.start(self.job(run))
        except EngineBusyError as error:
            run.state = "waiting"
            if pause.begin():
                display.message(f"{error}; trying again for an hour")
            elif pause.is_too_long:
                self._record_failure(run, str(error))
        except SweepError as error:
            self._record_failure(run, str(error))
        else:
            running[run.name] = run
            pause.end()

    def _record_failure(self, run: SweepRun, reason: str, has_advanced: bool = False) -> None:
        run.reason = reason
        run.num_failures += not has_advanced
        run.state = "failed" if run.num_failures > self.retries else "waiting"

    def _record(self, run: SweepRun, end: JobEnd, is_stopping: bool) -> None:
        """Decide what follows from the end of a job."""
        if end.code == 0 and run.is_finished:
            if problem := _find_other_settings(run):
                run.state, run.reason = "failed", problem
            else:
                run.set_finished()
            return
        was_killed = end.code is None or end.code < 0 or end.code == INTERRUPTED  # or lost its machine
        error = end.reason or run.last_log_line() or f"exit code {end.code}"
        if is_stopping and (was_killed or end.code == 0):
            run.state = "interrupted"
        elif is_stopping:  # it could not write its checkpoint, for example
            run.state, run.reason = "failed", error
        elif was_killed:
            run.num_lost += 1
            signal_number = signal.SIGTERM if end.code == INTERRUPTED else -(end.code or 0)
            reason = end.reason or f"signal {signal_number} ended its process"
            # a run that is lost again and again without any progress must not go on forever
            self._record_failure(run, reason, run.has_advanced())
        else:
            self._record_failure(run, error)

    def save(self, peak_memory: int | None) -> None:
        """Write sweep.json. The runs of earlier commands stay in it as long as they exist."""
        file = self.folder / FILE
        earlier = (get_path(read_json(file), "runs") if file.is_file() else None) or {}
        existing = {name: entry for name, entry in earlier.items() if (self.folder / name / "run.json").is_file()}
        own = {run.name: {"command": run.plan.command, "args": run.plan.args()} for run in self.runs}
        write_json(file, {"runs": existing | own, "peak_memory": peak_memory})


def _find_other_settings(run: SweepRun) -> str:
    """Settings with which a run was trained in place of those planned, as on a node that has other files."""
    try:
        changes = differences(run.request, read_request(run.folder)[0])
    except RunError as error:
        return str(error)
    if not changes:
        return ""
    advice = "check that its machine has the same files and version of envgen, and remove the folder of the run"
    return f"it was trained with other settings than planned: {', '.join(changes)}; {advice}"


class Pause:
    """A pause without new jobs, while an engine takes none. It grows with each attempt that fails."""

    def __init__(self) -> None:
        self.end()

    def end(self) -> None:
        self._since = self._until = None
        self._seconds = FIRST_PAUSE_SECONDS

    @property
    def is_over(self) -> bool:
        return self._until is None or time.monotonic() >= self._until

    @property
    def is_too_long(self) -> bool:
        return self._since is not None and time.monotonic() - self._since >= MAX_PAUSE_SECONDS

    def begin(self) -> bool:
        """Pause, or pause again. Returns whether it is the first time."""
        now, is_first = time.monotonic(), self._since is None
        self._since, self._until = self._since or now, now + self._seconds
        self._seconds = min(2 * self._seconds, LONGEST_PAUSE_SECONDS)
        return is_first


class StopRequests:
    """Counts signals to stop."""

    def __init__(self) -> None:
        self.count = 0
        self._event = threading.Event()

    def handle(self, number: int, frame: object) -> None:
        if not self.count or number == signal.SIGINT:
            self.count += 1
            self._event.set()

    def wait(self, seconds: float) -> None:
        """Sleep, but not longer than until the next signal."""
        if self._event.wait(seconds):
            self._event.clear()


@contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """Count SIGINT, SIGTERM and SIGHUP in place of ending the process. After `nohup`, SIGHUP remains ignored."""
    requests, hangup = StopRequests(), getattr(signal, "SIGHUP", None)
    ignored = {hangup} if hangup is not None and signal.getsignal(hangup) == signal.SIG_IGN else set()
    with signal_handler([number for number in STOP_SIGNALS if number not in ignored], requests.handle):
        yield requests


# ------------------------------------------------------------------------------------------------- folders and checks


def check_runs(plans: Sequence[PlannedRun], check: Callable[[PlannedRun], dict[str, Any]]) -> list[dict[str, Any]]:
    """The requests of all runs. Raises SweepError for the first run with a wrong option."""
    requests = []
    for plan in plans:
        try:
            request = check(plan)
        except EnvgenError as error:
            label = f"the run {plan.name}: " if len(plans) > 1 else ""
            raise SweepError(f"{label}{error}") from None
        requests.append(json.loads(json.dumps(request)))
    return requests


def open_runs(folder: Path, plans: Sequence[PlannedRun], requests: Sequence[dict[str, Any]]) -> list[SweepRun]:
    """The runs with their folders, new or from earlier. Nothing is written.

    A run that the folder already has under another name keeps it: when an option is added to a grid or left out, runs
    are named by other options.
    """
    if (folder / "run.json").exists():
        raise SweepError(f"{folder} is the directory of a run; choose another folder for this sweep")
    existing = _read_requests(folder)
    own = {
        plan.name for plan, request in zip(plans, requests, strict=True)
        if plan.name in existing and not differences(existing[plan.name], request)
    }  # fmt: skip
    others = {json.dumps(request, sort_keys=True): name for name, request in existing.items() if name not in own}
    runs = []
    for plan, request in zip(plans, requests, strict=True):
        name = plan.name
        if name not in own:
            name = others.pop(json.dumps(request, sort_keys=True), name)
        if name in existing and (changes := differences(existing[name], request)):
            raise SweepError(
                f"{folder / name} was started with {', '.join(changes)}; choose another folder for this sweep, or use "
                "the settings it was started with"
            )
        runs.append(SweepRun(plan, folder / name, request))
    return runs


def _read_requests(folder: Path) -> dict[str, dict[str, Any]]:
    """The requests of the runs in a folder, by name."""
    try:
        entries = sorted(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        raise SweepError(f"cannot use {folder} as the folder of a sweep: {error.strerror}") from None
    return {entry.name: read_request(entry)[0] for entry in entries if (entry / "run.json").is_file()}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder of a sweep, and lock it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SweepError(f"cannot create the folder {folder}: {error.strerror}") from None
    lock = lock_folder(folder)
    try:
        yield
    finally:
        lock.close()


def read_peak_memory(folder: Path) -> int | None:
    """The memory of the largest run, as an earlier command measured it."""
    if not (folder / FILE).is_file():
        return None
    value = get_path(read_json(folder / FILE), "peak_memory")
    return value if type(value) is int and value > 0 else None
