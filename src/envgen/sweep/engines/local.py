"""Runs on this machine: one process each, pinned to cores of its own, as many as fit into memory."""

import math
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from envgen.sweep.grid import SweepError

from .engine import Engine, Job, JobEnd, start_process

FIRST_GUESS = 1 << 30  # bytes that a run is expected to need before one has been measured
CGROUP = Path("/sys/fs/cgroup")


@dataclass
class Worker:
    """A slot for one run, with its cores and GPUs. `process` and `job` are None while it is free."""

    cores: tuple[int, ...]
    gpus: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    job: Job | None = None


class LocalEngine(Engine):
    """Processes on this machine.

    On Linux, a run starts only if it fits into the available memory, minus what the running ones may still take. Each
    run is expected to need as much as the largest so far, whose peak the kernel records; until one has finished, at
    least 1 GiB. The first run always starts.

    Args:
        workers: Runs at the same time; by default one for each `threads` cores, with `gpus` one for each group of GPUs.
        memory: Bytes that a run needs, if they are known.
        peak_memory: The peak of a run that was measured earlier.
        num_runs: The number of runs, if it is known: more processes are never needed.
    """

    name = "local"

    def __init__(
        self, workers: int | None = None, threads: int = 1, gpus: int = 0, memory: int | None = None,
        peak_memory: int | None = None, num_runs: int | None = None,
    ):  # fmt: skip
        cores = available_cores()
        if threads > len(cores):
            raise SweepError(f"threads is {threads}, but there are {len(cores)} cores; use at most {len(cores)}")
        self.memory, self._peak, self._is_measured = memory, peak_memory or 0, peak_memory is not None
        count = workers or len(cores) // threads
        gpu_groups = _groups(available_gpus(), gpus) if gpus else []
        if gpus:
            if not gpu_groups:
                raise SweepError(
                    f"gpus is {gpus}, but {len(available_gpus())} are visible on this machine; use fewer, or check "
                    "CUDA_VISIBLE_DEVICES"
                )
            count = min(workers or len(gpu_groups), len(gpu_groups))
        count = min(count, num_runs or count)
        core_groups = _groups(cores, threads)
        # otherwise they share all cores, and another sweep can use the rest; a quota is one of time on all cores
        pin = count == len(core_groups) and len(cores) == len(affinity())
        self.workers = [
            Worker(core_groups[k] if pin else (), gpu_groups[k] if gpus else ()) for k in range(count)
        ]  # fmt: skip

    def has_room(self) -> bool:
        busy = [worker for worker in self.workers if worker.process is not None]
        if len(busy) == len(self.workers):
            return False
        available = available_memory()
        if not busy or available is None:
            return True
        needed = self.memory or (self._peak if self._is_measured else max(self._peak, FIRST_GUESS))
        reserved = sum(max(0, needed - memory_of(worker.process.pid)[0]) for worker in busy if worker.process)
        return available - reserved >= needed

    def start(self, job: Job) -> None:
        worker = next(worker for worker in self.workers if worker.process is None)
        if worker.gpus:
            job = replace(job, env={**job.env, "CUDA_VISIBLE_DEVICES": ",".join(worker.gpus)})
        worker.process, worker.job = start_process(job, worker.cores), job

    def poll(self) -> Sequence[JobEnd]:
        ends = []
        for worker in self.workers:
            if worker.process is None or worker.job is None:
                continue
            self._peak = max(self._peak, memory_of(worker.process.pid)[1])
            code = worker.process.poll()
            if code is not None:
                ends.append(JobEnd(worker.job.name, code))
                self._is_measured |= code == 0
                worker.process = worker.job = None
        return ends

    def interrupt(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(getattr(signal, "SIGKILL", signal.SIGTERM))
        for worker in self.workers:
            if worker.process is not None:
                worker.process.wait()

    def _send(self, number: int) -> None:
        for worker in self.workers:
            if worker.process is not None:
                with suppress(ProcessLookupError):
                    worker.process.send_signal(number)

    @property
    def peak_memory(self) -> int | None:
        return self._peak if self._is_measured else None


def _groups(items: Sequence, size: int) -> list[tuple]:
    """Groups of equal size, without the remaining items."""
    return [tuple(items[k * size : (k + 1) * size]) for k in range(len(items) // size)]


def affinity() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def available_cores() -> list[int]:
    """The cores of this process's affinity, at most as many as its container's quota."""
    cores = affinity()
    with suppress(OSError, ValueError, IndexError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        if quota != "max":
            return cores[: max(1, math.floor(int(quota) / int(period)))]
    return cores


def available_gpus() -> list[str]:
    """The GPUs that this process may use, as in CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    import torch

    return [str(k) for k in range(torch.cuda.device_count())]


def available_memory() -> int | None:
    """Bytes that can be used without swapping, within the limit of the container; None where unknown."""
    values = []
    with suppress(OSError, ValueError, StopIteration, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        values.append(int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) << 10)
    with suppress(OSError, ValueError):
        limit = int((CGROUP / "memory.max").read_text())  # ValueError: "max"
        stats = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        used = int((CGROUP / "memory.current").read_text()) - int(stats.get("inactive_file", 0))
        values.append(max(0, limit - used))
    return min(values, default=None)


def memory_of(pid: int) -> tuple[int, int]:
    """The memory that a process uses and its peak, in bytes; zeros where unknown."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = {name: int(value.split()[0]) << 10 for name, _, value in (line.partition(":") for line in lines)
                  if name in ("VmRSS", "VmHWM")}  # fmt: skip
    except (OSError, ValueError, IndexError):
        return 0, 0
    return fields.get("VmRSS", 0), fields.get("VmHWM", 0)
