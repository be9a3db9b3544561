"""Measure how close a sweep comes to the best possible schedule.

    pip install '.[train]'
    python benchmarks/sweep_speed.py --runs 20 --workers 2

Trains the same small runs of Crafter twice: one after another on one core, and as a sweep. Both include starting the
processes and importing the libraries; the sweep also includes checking all options first. Prints Markdown with two
ratios, because other load on the machine distorts a comparison of two times that were taken one after the other:

- schedule: the time of the sweep, relative to the best possible with the times that its runs took: their sum, divided
  by the number of workers. Other load slows both alike.
- work: the processor time of the sweep, including its own process, relative to that of the runs one by one.
"""

import argparse
import datetime
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from envgen.cli.sweep import check_run
from envgen.sweep.engines.engine import Job, JobEnd, start_process
from envgen.sweep.engines.local import LocalEngine, available_cores
from envgen.sweep.grid import PlannedRun
from envgen.sweep.runner import Sweep, check_runs, open_runs

OPTIONS = {
    "world": "crafter", "designer": "none", "cycles": "1", "feedback-groups": "2", "feedback-episodes": "2",
    "episodes": "8", "cycle-steps": "20000",
}  # fmt: skip
HEADER = """
| | wall time | processor time |
|---|---:|---:|"""


class TimedEngine(LocalEngine):
    """Records how long each job took."""

    def __init__(self, workers: int):
        super().__init__(workers=workers)
        self.starts: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def start(self, job: Job) -> None:
        self.starts[job.name] = time.monotonic()
        super().start(job)

    def poll(self) -> Sequence[JobEnd]:
        ends = super().poll()
        for end in ends:
            self.seconds[end.name] = time.monotonic() - self.starts[end.name]
        return ends


class NoDisplay:
    def update(self, runs: object, run: object = None) -> None: ...

    def message(self, text: str) -> None:
        print(text, file=sys.stderr)


def make_plans(runs: int, steps: int) -> list[PlannedRun]:
    """Runs of different lengths: from half to one and a half times `steps`, so that the order matters."""
    lengths = [round(steps * (0.5 + k % 5 / 4)) for k in range(runs)]
    return [
        PlannedRun(f"seed={k}", "train", {**OPTIONS, "final-steps": str(length), "seed": str(k)})
        for k, length in enumerate(lengths)
    ]


def run_one_by_one(folder: Path, plans: Sequence[PlannedRun]) -> None:
    core = available_cores()[0]
    for plan in plans:
        args = ("train", *plan.args(), "--folder", str(folder / plan.name))
        start = time.monotonic()
        if start_process(Job(plan.name, args, folder / plan.name), [core]).wait() != 0:
            raise SystemExit(f"{plan.name} failed: see {folder / plan.name}/output.log")
        print(f"{plan.name}: {time.monotonic() - start:.1f} s alone", file=sys.stderr, flush=True)


def cpu_seconds() -> float:
    """The processor time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400_000, help="mean length of a run")
    args = parser.parse_args()
    plans, load = make_plans(args.runs, args.steps), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temp:
        folder = Path(temp)
        command = [sys.executable, "-m", "envgen", "train", *make_plans(1, 1000)[0].args()]
        subprocess.run([*command, "--folder", str(folder / "warm-up")], check=True, capture_output=True)  # compiles

        start, cpu_start = time.monotonic(), cpu_seconds()
        run_one_by_one(folder / "single", plans)
        single, single_cpu = time.monotonic() - start, cpu_seconds() - cpu_start

        start, cpu_start = time.monotonic(), cpu_seconds()
        sweep = Sweep(folder / "sweep", open_runs(folder / "sweep", plans, check_runs(plans, check_run)))
        engine = TimedEngine(args.workers)
        sweep.run(engine, NoDisplay())
        seconds, cpu = time.monotonic() - start, cpu_seconds() - cpu_start
        assert all(run.state == "finished" for run in sweep.runs)
    best = max(sum(engine.seconds.values()) / args.workers, max(engine.seconds.values()))
    print(f"\n{args.runs} runs on {args.workers} workers, {datetime.date.today()}, load at the start {load:.1f}")
    print(HEADER)
    print(f"| runs one by one, on one core | {single:.0f} s | {single_cpu:.0f} s |")
    print(f"| the sweep | {seconds:.0f} s | {cpu:.0f} s |")
    print(f"\nschedule: {seconds:.0f} s / {best:.0f} s = {seconds / best:.3f}")
    print(f"work: {cpu:.0f} s / {single_cpu:.0f} s = {cpu / single_cpu:.3f}")
    print(
        f"wall time, relative to that of the runs one by one / {args.workers}: {seconds / (single / args.workers):.3f}"
    )


if __name__ == "__main__":
    main()
