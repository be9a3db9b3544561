"""The speed of the PyPI package `crafter`: `python benchmarks/crafter_reference.py SECONDS` prints steps per second."""

import sys
import time
from collections.abc import Callable

import crafter
import numpy as np


def make_reference_benchmark() -> Callable[[float], float]:
    """A function that takes random actions for `seconds` and returns steps per second, resets included."""
    env = crafter.Env(seed=0)
    env.reset()
    rng = np.random.default_rng(0)

    def run(seconds: float) -> float:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            if env.step(int(rng.integers(17)))[2]:
                env.reset()
            steps += 1
        return steps / (time.perf_counter() - start)

    return run


if __name__ == "__main__":
    print(make_reference_benchmark()(float(sys.argv[1])))
