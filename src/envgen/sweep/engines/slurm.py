"""Runs as Slurm jobs, through submitit. Its local executor runs them on this machine, for tests.

Before its time limit or a preemption, Slurm signals a job (submitit's default is SIGUSR2). The run then writes its
checkpoint, and submitit puts the job back into the queue, where it resumes.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError, UncompletedJobError
from submitit.helpers import DelayedSubmission
from submitit.slurm.slurm import SlurmInfoWatcher

from envgen.interrupts import signal_handler
from envgen.sweep.grid import SweepError
from envgen.text import printable

from .engine import Engine, EngineBusyError, Job, JobEnd, JobProcess

JOBS = "slurm"  # subfolder of the sweep with the files of submitit
DEFAULT_MINUTES = 24 * 60
FINAL_STATES = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT",
}  # fmt: skip
RESULT_SECONDS = 15.0  # within which the result of a job that has ended becomes visible on a shared file system
REQUEUE_SECONDS = 120.0  # within which Slurm puts a preempted job back into the queue, if it does
CHECK_SECONDS = 60  # between two calls of sacct, at most
# what sbatch says when it cannot take a job now
BUSY = (
    "timed out", "unable to contact", "standby", "connection refused", "temporarily unavailable", "maxsubmit",
    "submit limit", "try again", "too many",
)  # fmt: skip
AFTER_TRACE = "You can check full logs"  # in submitit's exceptions
MAX_LINE_CHARS = 300  # of a log, in a message
JOB_VARIABLES = ("SLURM_", "SLURMD_", "SRUN_", "SUBMITIT_")


class SlurmJob(JobProcess):
    """What a job executes."""

    def __call__(self, job: Job) -> int:
        """As that of any process. submitit ignores SIGTERM, upon which the run has to write its checkpoint."""
        with signal_handler((signal.SIGTERM,), self._forward):
            return super().__call__(job)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def checkpoint(self, job: Job) -> DelayedSubmission:
        """Called by submitit before the job is ended."""
        self.stop()
        return DelayedSubmission(SlurmJob(), job)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a process cannot be pickled


class StateWatcher(SlurmInfoWatcher):
    """Asks Slurm for the states of all jobs together. Only jobs in final states have ended: suspended ones have not."""

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        return _first_word(self.get_state(job_id, mode)) in FINAL_STATES


class SubmititEngine(Engine):
    """Slurm jobs, one for each run.

    Args:
        folder: The folder of the sweep, on a file system that all nodes share.
        workers: Jobs in the queue at the same time; by default all.
        options: Parameters of `submitit.AutoExecutor.update_parameters`, such as `slurm_partition` and `timeout_min`,
            and `cluster`: slurm (the default) or local.
    """

    name = "submitit"
    has_queue = True

    def __init__(
        self, folder: Path, workers: int | None = None, threads: int = 1, gpus: int = 0, memory: int | None = None,
        options: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        parameters = {"timeout_min": DEFAULT_MINUTES, "cpus_per_task": threads, "gpus_per_node": gpus}
        parameters |= {"mem_gb": memory / 1e9} if memory else {}
        parameters |= options or {}
        self.cluster = str(parameters.pop("cluster", "slurm"))
        try:
            self.executor = submitit.AutoExecutor(folder / JOBS, cluster=self.cluster)
            self.executor.update_parameters(**parameters)
        except (RuntimeError, ValueError, TypeError, NameError) as error:
            raise SweepError(f"submitit cannot be used: {error}") from None
        self.workers = workers
        self.jobs: dict[str, submitit.Job[int]] = {}
        self.watcher = StateWatcher(CHECK_SECONDS)
        self._missing_since: dict[str, float] = {}  # jobs that seem to have ended without a result

    def has_room(self) -> bool:
        return self.workers is None or len(self.jobs) < self.workers

    def start(self, job: Job) -> None:
        try:
            with _outside_of_job():
                submitted = self.executor.submit(SlurmJob(), job)
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            reason = " ".join(str(error).split())
            kind = EngineBusyError if any(word in reason.lower() for word in BUSY) else SweepError
            raise kind(f"the run {job.name} cannot be submitted: {reason}") from None
        if self.cluster == "slurm":
            submitted.watcher = self.watcher
            self.watcher.register_job(submitted.job_id)
        self.jobs[job.name] = submitted

    def poll(self) -> Sequence[JobEnd]:
        ends = []
        for name, job in list(self.jobs.items()):
            if self._has_ended(name, job):
                del self.jobs[name]
                self._missing_since.pop(name, None)
                ends.append(_end(name, job))
        return ends

    def _has_ended(self, name: str, job: "submitit.Job[int]") -> bool:
        if self.cluster != "slurm":
            return job.done()
        if job.paths.result_pickle.exists():
            return True
        state = _first_word(job.state)
        if state != "PREEMPTED" and state not in FINAL_STATES:
            self._missing_since.pop(name, None)
            return False
        since = self._missing_since.setdefault(name, time.monotonic())
        return time.monotonic() - since >= (REQUEUE_SECONDS if state == "PREEMPTED" else RESULT_SECONDS)

    def interrupt(self) -> None:
        for job in self.jobs.values():
            job.cancel(check=False)
        self.watcher.clear()  # asks often again

    def kill(self) -> None:
        self.interrupt()
        self.jobs.clear()


def _first_word(state: str) -> str:
    """Of `CANCELLED by 1000` or `NODE_FAIL+`."""
    return state.upper().partition(" ")[0].rstrip("+")


@contextmanager
def _outside_of_job() -> Iterator[None]:
    """Hide the variables of the Slurm job that the sweep may itself be: its jobs would inherit cores and memory."""
    is_job = "SLURM_JOB_ID" in os.environ
    hidden = {
        name: value for name, value in os.environ.items()
        if is_job and name.startswith(JOB_VARIABLES) and name != "SLURM_CONF"
    }  # fmt: skip
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def _end(name: str, job: "submitit.Job[int]") -> JobEnd:
    """How a job ended. Without a result, reading it would wait for one."""
    reason = f"the job {job.job_id} ended with the state {job.state}"
    if job.paths.result_pickle.exists():
        try:
            error = job.exception()
            if error is None:
                return JobEnd(name, job.result())
        except (UncompletedJobError, OSError) as unreadable:
            error = unreadable
        trace = str(error).partition(AFTER_TRACE)[0].rstrip("-\n ")
        reason = f"the job {job.job_id} failed: {_last_line(trace)}"
    log = job.paths.stderr
    try:
        printed = _last_line(log.read_text(errors="replace"))
    except OSError:
        printed = ""
    return JobEnd(name, None, f"{reason} (its log, {log}, ends with: {printed})" if printed else reason)


def _last_line(text: str) -> str:
    return printable(next((line.strip() for line in reversed(text.splitlines()) if line.strip()), ""))[:MAX_LINE_CHARS]
