"""Runs as Ray tasks, on this machine or on an existing cluster."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import ray  # pyright: ignore[reportMissingImports]
from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]

from envgen.settings import format_choice_error
from envgen.sweep.grid import SweepError

from .engine import Engine, Job, JobEnd, JobProcess

OPTIONS = ("address", "resources", "num_cpus", "num_gpus")


class RayEngine(Engine):
    """Ray tasks, one for each run.

    Ray does not restart tasks: the sweep resumes a run whose worker or node was lost.

    Args:
        workers: Tasks at the same time; by default all, and Ray starts as many as its cluster has room for.
        options: `address` of the cluster (`auto`, `ray://...`); by default Ray starts on this machine, with `num_cpus`
            and `num_gpus` if they are given. `resources` are Ray's custom resources that a run needs.
    """

    name = "ray"

    def __init__(
        self, workers: int | None = None, threads: int = 1, gpus: int = 0, memory: int | None = None,
        options: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        given = dict(options or {})
        for name in given:
            if name not in OPTIONS:
                raise SweepError(f"the engine {self.name} has no such option: {format_choice_error(name, OPTIONS)}")
        resources = given.pop("resources", None)
        self._owns_ray = not ray.is_initialized()
        if self._owns_ray:
            os.environ.setdefault("RAY_worker_niceness", "0")  # by default, Ray lowers the priority of its workers
            try:
                ray.init(log_to_driver=False, include_dashboard=False, **given)
            except (RayError, ConnectionError, ValueError, RuntimeError, OSError) as error:
                raise SweepError(f"cannot connect to Ray: {str(error).splitlines()[0]}") from None
        self.workers = workers
        self.tasks: dict[str, ray.ObjectRef] = {}
        self._start = ray.remote(
            num_cpus=threads, num_gpus=gpus, max_retries=0, **({"memory": memory} if memory else {}),
            **({"resources": resources} if resources else {}),
        )(_run)  # fmt: skip

    def has_room(self) -> bool:
        return self.workers is None or len(self.tasks) < self.workers

    def start(self, job: Job) -> None:
        self.tasks[job.name] = self._start.options(name=job.name).remote(job)

    def poll(self) -> Sequence[JobEnd]:
        if not self.tasks:
            return []
        names = {ref: name for name, ref in self.tasks.items()}
        done, _ = ray.wait(list(names), num_returns=len(names), timeout=0)
        ends = []
        for ref in done:
            del self.tasks[names[ref]]
            try:
                ends.append(JobEnd(names[ref], ray.get(ref)))
            except (RayError, KeyboardInterrupt) as error:
                ends.append(JobEnd(names[ref], None, f"Ray lost the task: {type(error).__name__}"))
        return ends

    def interrupt(self) -> None:
        for ref in self.tasks.values():
            ray.cancel(ref, force=False)

    def kill(self) -> None:
        for ref in self.tasks.values():
            ray.cancel(ref, force=True)
        self.tasks.clear()

    def close(self) -> None:
        if self._owns_ray:
            ray.shutdown()


def _run(job: Job) -> int:
    return JobProcess()(job)
