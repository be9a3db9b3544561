"""Runs as Slurm jobs, through submitit. Its local executor runs them on this machine, for tests.

Before its time limit or a preemption, Slurm signals a job (submitit's default is SIGUSR2). The run then writes its
checkpoint, and submitit puts the job back into the queue, where it resumes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError
from submitit.helpers import DelayedSubmission

from envgen.sweep.grid import SweepError

from .engine import Engine, Job, JobEnd, JobProcess

JOBS = "slurm"  # subfolder of the sweep with the files of submitit
DEFAULT_MINUTES = 24 * 60


class SlurmJob(JobProcess):
    """What a job executes."""

    def checkpoint(self, job: Job) -> DelayedSubmission:
        """Called by submitit before the job is ended."""
        self.stop()
        return DelayedSubmission(SlurmJob(), job)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a process cannot be pickled


class SubmititEngine(Engine):
    """Slurm jobs, one for each run.

    Args:
        folder: The folder of the sweep, on a file system that all nodes share.
        workers: Jobs in the queue at the same time; by default all.
        options: Parameters of `submitit.AutoExecutor.update_parameters`, such as `slurm_partition` and `timeout_min`,
            and `cluster`: slurm (the default) or local.
    """

    name = "submitit"

    def __init__(
        self, folder: Path, workers: int | None = None, threads: int = 1, gpus: int = 0, memory: int | None = None,
        options: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        parameters = {"timeout_min": DEFAULT_MINUTES, "cpus_per_task": threads, "gpus_per_node": gpus}
        parameters |= {"mem_gb": memory / 1e9} if memory else {}
        parameters |= options or {}
        cluster = str(parameters.pop("cluster", "slurm"))
        try:
            self.executor = submitit.AutoExecutor(folder / JOBS, cluster=cluster)
            self.executor.update_parameters(**parameters)
        except (RuntimeError, ValueError, TypeError, NameError) as error:
            raise SweepError(f"submitit cannot be used: {error}") from None
        self.workers = workers
        self.jobs: dict[str, submitit.Job[int]] = {}

    def has_room(self) -> bool:
        return self.workers is None or len(self.jobs) < self.workers

    def start(self, job: Job) -> None:
        try:
            self.jobs[job.name] = self.executor.submit(SlurmJob(), job)
        except (FailedJobError, OSError) as error:
            raise SweepError(f"the run {job.name} cannot be submitted: {error}") from None

    def poll(self) -> Sequence[JobEnd]:
        ends = []
        for name, job in list(self.jobs.items()):
            if job.done():
                del self.jobs[name]
                ends.append(_end(name, job))
        return ends

    def interrupt(self) -> None:
        for job in self.jobs.values():
            job.cancel(check=False)

    def kill(self) -> None:
        self.interrupt()
        self.jobs.clear()


def _end(name: str, job: "submitit.Job[int]") -> JobEnd:
    try:
        error = job.exception()
    except (UncompletedJobError, OSError) as lost:
        error = lost
    if error is None:
        return JobEnd(name, job.result())
    return JobEnd(name, None, f"the job {job.job_id} ended with the state {job.state}")
