"""What the benchmarks that train many runs have in common: options, processes, results and the parts of a page."""

import argparse
import json
import multiprocessing
import os
import platform
import signal
import traceback
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from envgen.interrupts import INTERRUPTED, signal_handler
from envgen.runs.compare import Comparison, FinishedRun, make_table
from envgen.runs.store import library_versions, read_json, read_request

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
EVALUATION_SEED = 9_000_000_000  # of final evaluations: the same episodes for all runs
CONSTANT_HORIZON = {"final_gamma": None, "final_gae_lambda": None}  # in the preset far, the horizon grows
NUM_CURVE_POINTS = 50


def add_options(parser: argparse.ArgumentParser, page: str, seeds: Sequence[int]) -> None:
    """Add the options that say what is trained and where the results are."""
    parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--threads", type=int, help="of each run; by default the cores are shared evenly")
    parser.add_argument("--results", type=Path, default=Path("docs/results") / page)
    parser.add_argument("--page", action="store_true", help="train nothing, write the page")


def num_threads(args: argparse.Namespace) -> int:
    """The threads of each run."""
    return args.threads or max(1, (os.cpu_count() or 1) // args.jobs)


def run_tasks(function: Callable[..., str], tasks: Iterable[tuple[Any, ...]], jobs: int) -> None:
    """Call a function with the arguments of each task, `jobs` processes at a time, and print what it returns.

    If tasks fail, the others go on, and the program ends after the last of them.
    """
    failures = 0
    with worker_pool(jobs) as executor:
        futures = [executor.submit(call_in_worker, _call, function, task) for task in tasks]
        for future in as_completed(futures):
            succeeded, text = future.result()
            failures += not succeeded
            print(text, flush=True)
    if failures:
        raise SystemExit(f"{failures} of {len(futures)} runs failed")


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for `call_in_worker`, which Ctrl-C and SIGTERM stop."""
    with stop_workers_on_signals(), ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as executor:
        yield executor


@contextmanager
def stop_workers_on_signals() -> Iterator[None]:
    """On Ctrl-C or SIGTERM, end the processes that were started in the block, then this one.

    Their runs write a checkpoint first. The handlers of signals in a run do not count SIGTERM as a second Ctrl-C.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        for process in multiprocessing.active_children():
            process.terminate()
        raise SystemExit(INTERRUPTED)

    with signal_handler((signal.SIGINT, signal.SIGTERM), handle):
        yield


def call_in_worker(function: Callable[..., R], *args: Any) -> R:
    """Call a function. If its run is interrupted, the process ends, and with it the pool, before it starts another."""
    try:
        return function(*args)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def _call(function: Callable[..., str], task: tuple[Any, ...]) -> tuple[bool, str]:
    try:
        return True, function(*task)
    except Exception:  # noqa: BLE001  whatever happens in a run, the others go on
        return False, f"{task}:\n{traceback.format_exc()}"


def load_groups(
    folder: Path, key: Callable[[dict[str, Any]], K], order: Iterable[K] | None = None
) -> dict[K, list[dict[str, Any]]]:
    """The results of all runs in a folder of JSON files by their key, in a given order or that of the files."""
    groups: dict[K, list[dict[str, Any]]] = defaultdict(list)
    for file in sorted(folder.glob("*.json")):
        result = json.loads(file.read_text())
        groups[key(result)].append(result)
    if order is not None and (unknown := groups.keys() - set(order := list(order))):
        raise SystemExit(f"{folder} has results of {', '.join(map(str, unknown))}, which this script does not train")
    return {name: groups[name] for name in (groups if order is None else order) if name in groups}


def to_file_name(name: str, seed: int) -> str:
    """The name of the results of a run, without its suffix."""
    return f"{name.replace(' ', '-').replace(',', '').replace('%', '-percent')}-{seed}"


def split_progress(
    lines: Sequence[dict[str, Any]], num_windows: int = NUM_CURVE_POINTS
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Consecutive windows of the progress of a run: the steps at their ends, and their lines with episodes, if any."""
    for indices in np.array_split(np.arange(len(lines)), min(num_windows, len(lines))):
        if window := [lines[k] for k in indices if lines[k]["episodes"]]:
            yield lines[indices[-1]]["steps"], window


def results_table(task: str, groups: Mapping[str, Sequence[Path]]) -> str:
    """The table of `envgen compare` for run directories of one world or domain, with these labels of the groups."""
    runs = [
        [FinishedRun(folder, read_request(folder)[0], read_json(folder / "summary.json")) for folder in folders]
        for folders in groups.values()
    ]
    return Comparison((make_table(task, runs, list(groups)),), ()).markdown()


def describe_machines(results: Iterable[dict[str, Any]]) -> str:
    """`describe_machine` of all machines that results were made on. Early results do not name theirs."""
    return "; ".join(sorted({result["machine"] for result in results if "machine" in result})) or describe_machine()


def describe_machine() -> str:
    """The cores and the versions of the libraries, as the end of a sentence on a page."""
    libraries = ", ".join(f"{name} {number}" for name, number in library_versions().items())
    return f"{os.cpu_count()} cores ({platform.machine()}),\n{libraries}."


def read_discussion(folder: Path) -> str:
    """The part of a page that is written by hand."""
    file = folder / "discussion.md"
    return file.read_text().strip() if file.exists() else ""
