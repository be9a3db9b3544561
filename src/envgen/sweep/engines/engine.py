"""The interface of engines, which start the runs of a sweep somewhere, and what they share: the process of a run."""

import os
import platform
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

from envgen.runs.files import open_regular
from envgen.sweep import child
from envgen.sweep.grid import SweepError

LOG = "output.log"  # what a run prints, in its run directory
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """One attempt at a run: `envgen` with these words, in the folder that it will use."""

    name: str
    args: tuple[str, ...]  # after `envgen`
    folder: Path
    threads: int = 1
    gpus: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None  # the working directory of the run; by default that of the process that starts it
    safe_path: bool = False  # modules in the current directory do not hide others of the same name

    @property
    def log_file(self) -> Path:
        return self.folder / LOG


class JobEnd(NamedTuple):
    """How a job ended."""

    name: str
    code: int | None  # the exit code, negative if a signal killed the process; None if its machine or worker was lost
    reason: str = ""


class EngineBusyError(SweepError):
    """A job cannot be started now, but perhaps later."""


class Engine(ABC):
    """Starts jobs and reports their ends. All its methods are called from one thread and return at once."""

    name: ClassVar[str]
    has_queue: ClassVar[bool] = False  # whether a job that was started may have to wait until it runs
    notice: str = ""  # what the user should know before the first job starts

    @abstractmethod
    def has_room(self) -> bool:
        """Whether another job can be started now."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a job. Raises SweepError if that is impossible, EngineBusyError if it is so only now."""

    @abstractmethod
    def poll(self) -> Sequence[JobEnd]:
        """The jobs that have ended since the last call, each once."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ask all jobs to write a checkpoint and end. `poll` reports their ends."""

    @abstractmethod
    def kill(self) -> None:
        """End all jobs at once."""

    @property
    def peak_memory(self) -> int | None:
        """The most memory that a run has used, in bytes; None if this engine does not measure it."""
        return None

    def close(self) -> None:
        """Release what the engine holds. No job is running."""
        return


def start_process(job: Job, cores: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start the process of a job. What it prints is appended to its log."""
    environment = {
        **os.environ, **dict.fromkeys(THREAD_VARIABLES, str(job.threads)), "PYTHONUNBUFFERED": "1", **job.env,
    }  # fmt: skip
    program = [sys.executable, child.__file__, str(os.getpid()), ",".join(map(str, cores)), str(job.folder / "lock")]
    if job.cwd is not None and not job.cwd.is_dir():
        raise SweepError(
            f"cannot start the run {job.name}: its working directory {job.cwd} does not exist on {platform.node()}; "
            "start the sweep in a directory that all nodes share"
        )
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        with open_regular(job.log_file, "ab") as log:
            os.utime(job.log_file)  # the sweep sees that the job is no longer queued
            return subprocess.Popen(
                [*program, sys.executable, *(["-P"] if job.safe_path else []), "-m", "envgen", *job.args],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=job.cwd,
                start_new_session=True,  # Ctrl-C in the terminal reaches the sweep alone, which asks its runs to end
            )  # fmt: skip
    except OSError as error:
        raise SweepError(f"cannot start the run {job.name} in {job.folder}: {error.strerror}") from error


class JobProcess:
    """Runs a job in a child process and waits for its end: the function that engines send to other machines."""

    process: subprocess.Popen[bytes] | None = None

    def __call__(self, job: Job) -> int:
        """The exit code of the run. When this process is interrupted, the run writes its checkpoint first."""
        self.process = start_process(job)
        try:
            return self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> int:
        """Wait in short steps: some engines can interrupt only between two statements."""
        assert self.process is not None
        while True:
            try:
                return self.process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue

    def stop(self) -> int:
        """Ask the run to write its checkpoint, and wait for its end."""
        assert self.process is not None
        while True:
            try:
                self.process.send_signal(signal.SIGTERM)
                return self._wait()
            except KeyboardInterrupt:
                continue
