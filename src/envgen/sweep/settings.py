"""The settings of a sweep itself."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from envgen.settings import Settings

Engine = Literal["local", "submitit", "ray"]
ENGINES: tuple[str, ...] = get_args(Engine)


class SweepSettings(Settings):
    """Where a sweep executes its runs, and how many at a time."""

    engine: Engine = "local"
    """Where the runs are executed: on this machine, as Slurm jobs (submitit), or on a Ray cluster."""
    workers: int | None = Field(default=None, ge=1)
    """Runs at the same time. By default as many as cores and memory allow; with Slurm and Ray, all of them."""
    threads: Annotated[int, Field(ge=1)] = 1
    """Cores and threads of each run."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of each run. Add --device cuda to use them."""
    memory_per_run: float | None = Field(default=None, ge=0.001, le=100_000)
    """Memory of each run in GB. By default it is measured on this machine, and not requested from Slurm or Ray."""
    retries: Annotated[int, Field(ge=0)] = 1
    """How many times a failed run is started again."""
