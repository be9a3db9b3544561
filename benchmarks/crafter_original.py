"""PyPI `crafter`'s speed: `python benchmarks/crafter_original.py SECONDS` prints steps per second, resets included."""

import sys
import time
from collections.abc import Callable

import crafter
import numpy as np


def original() -> Callable[[float], float]:
    """A function that plays at random for about `seconds` and returns steps per second."""
    env = crafter.Env(seed=0)
    env.reset()
    rng = np.random.default_rng(0)

    def play(seconds: float) -> float:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            if env.step(int(rng.integers(17)))[2]:
                env.reset()
            steps += 1
        return steps / (time.perf_counter() - start)

    return play


if __name__ == "__main__":
    print(original()(float(sys.argv[1])))
