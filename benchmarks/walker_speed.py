"""How fast walkers step: Gymnasium's, ours in one process, and ours in worker processes.

    python benchmarks/walker_speed.py --num-workers 2

The speed of workers is compared with `num_workers` independent processes that step the same number of environments at
the same time and never wait for each other: the best that this machine allows while other programs run. All are
measured in turn, several times, and the medians of the ratios are printed. The actions are uniformly random, and resets
are included.
"""

import argparse
import multiprocessing
import statistics
import time
from typing import Any

import gymnasium
import numpy as np

from envgen.worlds.walker.world import Walker


def random_actions(num_envs: int, steps: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (steps, num_envs, 4)).astype(np.float32)


def time_steps(envs: Any, num_envs: int, steps: int) -> float:
    """Environment steps per second."""
    envs.reset(seed=0)
    actions = random_actions(num_envs, steps)
    start = time.perf_counter()
    for row in actions:
        envs.step(row)
    speed = num_envs * steps / (time.perf_counter() - start)
    envs.close()
    return speed


def independent_process(num_envs: int, steps: int, barrier: Any, results: Any) -> None:
    envs = Walker().make(num_envs=num_envs, num_workers=1)
    envs.reset(seed=0)
    barrier.wait()
    results.put(time_steps(envs, num_envs, steps))


def time_independent(num_envs: int, steps: int, count: int) -> float:
    """The sum of the speeds of `count` processes without communication."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(count), context.Queue()
    processes = [
        context.Process(target=independent_process, args=(num_envs // count, steps, barrier, results))
        for _ in range(count)
    ]
    for process in processes:
        process.start()
    speeds = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(speeds)


def time_gymnasium(kind: str, num_envs: int, steps: int) -> float:
    make = [lambda: gymnasium.make("BipedalWalker-v3")] * num_envs
    if kind == "sync":
        return time_steps(gymnasium.vector.SyncVectorEnv(make), num_envs, steps)
    return time_steps(gymnasium.vector.AsyncVectorEnv(make, context="spawn"), num_envs, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    n, steps, workers = args.num_envs, args.steps, args.num_workers
    measurements = {
        "Gymnasium, SyncVectorEnv": lambda: time_gymnasium("sync", n, steps),
        "Gymnasium, AsyncVectorEnv": lambda: time_gymnasium("async", n, steps),
        "envgen, 1 process": lambda: time_steps(Walker().make(num_envs=n, num_workers=1), n, steps),
        f"envgen, {workers} workers": lambda: time_steps(Walker().make(num_envs=n, num_workers=workers), n, steps),
        f"{workers} independent processes": lambda: time_independent(n, steps, workers),
    }
    speeds: dict[str, list[float]] = {name: [] for name in measurements}
    for k in range(args.rounds):
        for name, measure in measurements.items():
            speeds[name].append(measure())
            print(f"round {k + 1}: {name}: {speeds[name][-1]:,.0f} steps/s", flush=True)
    reference = speeds[f"{workers} independent processes"]
    print("\n| | steps/s | relative to independent processes |\n|---|---:|---:|")
    for name, values in speeds.items():
        ratio = statistics.median(a / b for a, b in zip(values, reference, strict=True))
        print(f"| {name} | {statistics.median(values):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
