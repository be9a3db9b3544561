"""Measures EnvPool's speed for heist_speed.py, which runs it with the Python in .peers.

    python heist_envpool.py MODE NUM_ENVS SECONDS

Runs one round for every line on stdin and prints its steps per second. EnvPool's Procgen needs Qt 5 (libqt5gui5).
"""

import sys
import time

import envpool  # pyright: ignore[reportMissingImports]
import numpy as np


def main() -> None:
    mode, num_envs, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    env = envpool.make_gymnasium(f"Heist{mode.capitalize()}-v0", num_envs=num_envs, num_threads=1, seed=0)
    env.reset()
    actions = np.random.default_rng(0).integers(0, 15, (64, num_envs)).astype(np.int32)
    for k in range(500):
        env.step(actions[k % 64])
    for _ in sys.stdin:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            env.step(actions[steps % 64])
            steps += 1
        print(steps * num_envs / (time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
