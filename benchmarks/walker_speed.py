"""How fast walkers step: Gymnasium's, ours in one process, and ours in worker processes.

    python benchmarks/walker_speed.py --num-workers 2

The speed of workers is compared with that of one process, and with `num_workers` independent processes that together
step as many environments at the same time and never wait for each other: the best that this machine allows. All are
measured in turn, in many short rounds, because other programs change the speed of a machine from second to second. The
medians of the ratios within a round are printed. The actions are uniformly random, and resets are included.
"""

import argparse
import multiprocessing
import statistics
import time
from typing import Any

import gymnasium
import numpy as np

from envgen.worlds.walker.world import Walker


class Stepper:
    """Steps a vector environment."""

    def __init__(self, envs: Any, num_envs: int):
        self.envs, self.num_envs, self.rng = envs, num_envs, np.random.default_rng(0)
        envs.reset(seed=0)

    def measure(self, steps: int) -> float:
        """Environment steps per second."""
        actions = self.rng.uniform(-1, 1, (steps, self.num_envs, 4)).astype(np.float32)
        start = time.perf_counter()
        for row in actions:
            self.envs.step(row)
        return self.num_envs * steps / (time.perf_counter() - start)

    def close(self) -> None:
        self.envs.close()


class IndependentProcesses:
    """Processes that step their own environments without communication."""

    def __init__(self, num_envs: int, count: int):
        context = multiprocessing.get_context("spawn")
        self.barrier, self.pipes, self.processes = context.Barrier(count), [], []
        for _ in range(count):
            ours, theirs = context.Pipe()
            self.processes.append(context.Process(target=answer, args=(num_envs // count, self.barrier, theirs)))
            self.processes[-1].start()
            self.pipes.append(ours)

    def measure(self, steps: int) -> float:
        """The sum of the speeds of the processes."""
        for pipe in self.pipes:
            pipe.send(steps)
        return sum(pipe.recv() for pipe in self.pipes)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(0)
        for process in self.processes:
            process.join()


def answer(num_envs: int, barrier: Any, pipe: Any) -> None:
    stepper = Stepper(Walker().make(num_envs=num_envs, num_workers=1), num_envs)
    while steps := pipe.recv():
        barrier.wait()
        pipe.send(stepper.measure(steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument("--steps", type=int, default=50, help="steps of a round")
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    n, workers = args.num_envs, args.num_workers
    make = [lambda: gymnasium.make("BipedalWalker-v3")] * n
    one, independent = "envgen, 1 process", f"{workers} independent processes"
    steppers = {
        "Gymnasium, SyncVectorEnv": Stepper(gymnasium.vector.SyncVectorEnv(make), n),
        "Gymnasium, AsyncVectorEnv": Stepper(gymnasium.vector.AsyncVectorEnv(make, context="spawn"), n),
        one: Stepper(Walker().make(num_envs=n, num_workers=1), n),
        f"envgen, {workers} workers": Stepper(Walker().make(num_envs=n, num_workers=workers), n),
        independent: IndependentProcesses(n, workers),
    }
    speeds: dict[str, list[float]] = {name: [] for name in steppers}
    for k in range(args.rounds + 1):
        for name, stepper in steppers.items():
            speed = stepper.measure(args.steps)
            if k:  # the first round warms up
                speeds[name].append(speed)
    print(f"| {n} environments | steps/s | relative to {one} | relative to {independent} |\n|---|---:|---:|---:|")
    for name, values in speeds.items():
        ratios = [
            statistics.median(a / b for a, b in zip(values, speeds[other], strict=True)) for other in (one, independent)
        ]
        print(f"| {name} | {statistics.median(values):,.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    for stepper in steppers.values():
        stepper.close()


if __name__ == "__main__":
    main()
