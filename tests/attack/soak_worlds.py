"""Millions of steps of each world beside its reference, in processes whose memory must not grow.

A process plays a fifth of its steps, then the others. Its peak memory may grow by at most 5% after that fifth.
"""

import io
import multiprocessing
import os
import random
import resource
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from typing import Any

from attacks import attack

import crafter_parity
import heist_parity
from envgen.worlds.heist.reference import ReferenceHeist, RolloutRequest
from envgen.worlds.minigrid.package_levels import PACKAGE_IDS
from envgen.worlds.minigrid.reference import compare_environment
from envgen.worlds.walker.reference import REFERENCE_LEVELS, first_difference

Play = Callable[[int, int], str]  # (steps, seed) -> the first difference
WARM_UP = 0.2  # share of the steps after which memory is measured first
MAX_GROWTH = 1.05
SEEDS = 50_000_000  # of a process, half of them for its first steps
MAX_ENVS, STEPS_PER_ROUND = 16, 500  # of a comparison with Heist's reference


def play_crafter(steps: int, seed: int) -> str:
    try:
        crafter_parity.run_worker((seed, steps))
    except AssertionError as error:
        return str(error)
    return ""


def play_heist(steps: int, seed: int) -> str:
    num_envs = max(1, min(MAX_ENVS, steps // STEPS_PER_ROUND))
    with ReferenceHeist() as reference:
        for k in range(-(-steps // (num_envs * STEPS_PER_ROUND))):
            mode = heist_parity.MODES[k % len(heist_parity.MODES)]
            request = RolloutRequest(mode, num_envs, seed + k, 50 * (k % 2), 1000 * k)
            try:
                heist_parity.compare(reference, request, min(STEPS_PER_ROUND, steps), with_frames=False)
            except SystemExit as error:  # its message is the difference
                return str(error)
    return ""


def play_minigrid(steps: int, seed: int) -> str:
    warnings.filterwarnings("ignore", ".*out of date", DeprecationWarning)  # of the package's old ids
    for k, env_id in enumerate(PACKAGE_IDS):
        result = compare_environment(env_id, -(-steps // len(PACKAGE_IDS)), seed + 10_000 * k)
        if result.difference:
            return result.difference
    return ""


def play_walker(steps: int, seed: int) -> str:
    for env_id in REFERENCE_LEVELS:
        if difference := first_difference(env_id, -(-steps // len(REFERENCE_LEVELS)), seed):
            return difference
    return ""


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(play: Play, steps: int, seed: int, results: Any) -> None:
    """Play, and send what differed or how memory has grown."""
    first = max(1, round(WARM_UP * steps))
    try:
        with redirect_stdout(io.StringIO()):
            failure = play(first, seed)
            before = peak_memory()
            failure = failure or play(max(1, steps - first), seed + SEEDS // 2)
        growth = peak_memory() / before
        if growth > MAX_GROWTH:
            failure = failure or f"the peak of memory grew by {growth - 1:.0%} after a fifth of the steps"
    except Exception as error:  # noqa: BLE001  the parent reports it
        failure = repr(error)
    results.put(failure)


def beside_reference(play: Play) -> Callable[[int, random.Random], Iterator[str]]:
    """The attack that divides steps among one process for each core. One step fails for each process that fails."""

    def make(count: int, rng: random.Random) -> Iterator[str]:
        context = multiprocessing.get_context("spawn")
        results, num_processes, first_seed = context.Queue(), min(count, os.cpu_count() or 1), rng.randrange(2**29)
        processes = [
            context.Process(
                target=measure, args=(play, -(-count // num_processes), (first_seed + k * SEEDS) % 2**30, results)
            )
            for k in range(num_processes)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        failures = ["" if not process.exitcode else f"exit code {process.exitcode}" for process in processes]
        failures = [failure or results.get(timeout=60) for failure in failures]
        for k in range(count):
            yield failures[k] if k < num_processes else ""

    return make


WORLDS = {"Crafter": play_crafter, "Heist": play_heist, "MiniGrid": play_minigrid, "Walker": play_walker}
for world, play_world in WORLDS.items():
    attack(f"equal steps, {world}", full=10_000_000, short=0)(beside_reference(play_world))
