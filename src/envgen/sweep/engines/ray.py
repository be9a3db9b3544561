"""Runs as Ray tasks, on this machine or on an existing cluster."""

import logging
import os
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from envgen.settings import Settings, format_validation_error
from envgen.sweep.grid import SweepError

from .engine import Engine, Job, JobEnd, JobProcess

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # otherwise `uv run` uploads the working directory
import ray  # pyright: ignore[reportMissingImports]
from ray.exceptions import RayError, RayTaskError  # pyright: ignore[reportMissingImports]

# of a Ray that the sweep starts
RAY_VARIABLES = {
    "RAY_worker_niceness": "0",  # by default, Ray lowers the priority of its workers
    "RAY_kill_child_processes_on_worker_exit": "0",  # runs write their checkpoints if the sweep is killed
}
OWN_OPTIONS = {"CPU": "threads", "GPU": "gpus", "memory": "memory-per-run"}  # of the sweep, for resources of Ray
LABELS = {"CPU": "CPUs", "GPU": "GPUs", "memory": "GB of memory"}


class EngineOptions(Settings):
    """The options of the Ray engine."""

    address: str | None = Field(default=None, min_length=1)
    """The address of an existing cluster, such as `auto` or `ray://host:10001`. By default that of RAY_ADDRESS; without
    one, Ray starts on this machine."""
    num_cpus: Annotated[int, Field(ge=0, strict=True)] | None = None
    """CPUs of a Ray that starts on this machine."""
    num_gpus: Annotated[int, Field(ge=0, strict=True)] | None = None
    """GPUs of a Ray that starts on this machine."""
    resources: dict[str, Annotated[float, Field(gt=0, strict=True)]] = Field(default_factory=dict)
    """Ray's custom resources that each run needs."""

    @field_validator("resources")
    @classmethod
    def _check_names(cls, value: dict[str, float]) -> dict[str, float]:
        for name, option in OWN_OPTIONS.items():
            if name in value:
                raise ValueError(f"{name} is not a custom resource; use --{option}")
        return value


class RayEngine(Engine):
    """Ray tasks, one for each run.

    Ray does not restart tasks: the sweep resumes a run whose worker or node was lost.

    Args:
        workers: Tasks at the same time; by default all, and Ray starts as many as its cluster has room for.
        options: Those of `EngineOptions`.
    """

    name = "ray"
    has_queue = True

    def __init__(
        self, workers: int | None = None, threads: int = 1, gpus: int = 0, memory: int | None = None,
        options: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        try:
            given = EngineOptions(**options or {})
        except ValidationError as error:
            raise SweepError(format_validation_error(error)) from None
        address = given.address or os.environ.get("RAY_ADDRESS") or "local"
        needed = {"CPU": threads, "GPU": gpus, "memory": memory or 0, **given.resources}
        self.workers = workers
        self.tasks: dict[str, ray.ObjectRef] = {}
        self._owns_ray = not ray.is_initialized()
        try:
            if self._owns_ray:
                for name, value in RAY_VARIABLES.items():
                    os.environ.setdefault(name, value)
                ray.init(
                    address, num_cpus=given.num_cpus, num_gpus=given.num_gpus, include_dashboard=False,
                    log_to_driver=False, logging_level=logging.WARNING,
                )  # fmt: skip
            self._start = ray.remote(
                num_cpus=threads, num_gpus=gpus, memory=memory, resources=given.resources, max_retries=0
            )(_run)
            missing = _missing([node["Resources"] for node in ray.nodes() if node["Alive"]], needed)
        except Exception as error:
            raise SweepError(f"cannot use Ray: {' '.join(str(error).split())}") from error
        if missing and self._owns_ray and address == "local":
            self.close()
            raise SweepError(missing)
        if missing:  # a cluster may grow
            self.notice = f"{missing}; the runs wait until the cluster has a node with enough"

    def has_room(self) -> bool:
        return self.workers is None or len(self.tasks) < self.workers

    def start(self, job: Job) -> None:
        self.tasks[job.name] = self._start.options(name=job.name).remote(job, _python_path())

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
                ends.append(_end(names[ref], error))
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


def _missing(nodes: Sequence[Mapping[str, float]], needed: Mapping[str, float]) -> str:
    """What a run needs and no node has; empty if it fits on one of them."""
    if any(all(node.get(name, 0) >= amount for name, amount in needed.items()) for node in nodes):
        return ""
    largest = {name: max((node.get(name, 0) for node in nodes), default=0) for name in needed}
    for name, amount in needed.items():
        if largest[name] < amount:
            unit = 1e9 if name == "memory" else 1
            return (
                f"a run needs {amount / unit:g} {LABELS.get(name, name)}, but the largest node has "
                f"{largest[name] / unit:.3g}"
            )
    labels = [LABELS.get(name, name) for name, amount in needed.items() if amount]
    return f"no node has enough {' and '.join(labels)} for a run"


def _end(name: str, error: Any) -> JobEnd:
    """How a task ended that has no result. It failed if it raised an error of its own, and otherwise was lost."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    if not isinstance(cause, RayError | KeyboardInterrupt):
        return JobEnd(name, 1, str(cause))
    first_line = next(iter(str(cause).splitlines()), "")
    return JobEnd(name, None, f"Ray lost the task: {type(cause).__name__}" + f": {first_line}" * bool(first_line))


def _python_path() -> list[str]:
    """Where this process finds modules, except those of its Python environment: workers have one of their own."""
    environment = [sysconfig.get_path("stdlib"), *site.getsitepackages(), site.getusersitepackages()]
    return [
        path for path in sys.path if os.path.isabs(path)
        and not any(Path(path).is_relative_to(folder) for folder in environment)
    ]  # fmt: skip


def _run(job: Job, python_path: Sequence[str]) -> int:
    """Run a job on a worker, whose own Python path is that of `ray start`."""
    own = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*python_path, *([own] if own else [])])
    return JobProcess()(replace(job, env={**job.env, "PYTHONPATH": path}))
