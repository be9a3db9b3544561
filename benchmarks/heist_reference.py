"""Measures the speed of the reference for heist_speed.py, which runs it with the Python in .procgen.

    python heist_reference.py MODE NUM_ENVS SECONDS

Runs one round for every line on stdin and prints its steps per second.
"""

import sys
import time

import numpy as np
from procgen import ProcgenGym3Env  # pyright: ignore[reportMissingImports]


def main() -> None:
    mode, num_envs, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    env = ProcgenGym3Env(num=num_envs, env_name="heist", rand_seed=0, distribution_mode=mode, num_threads=0)
    actions = np.random.default_rng(0).integers(0, 15, (64, num_envs)).astype(np.int32)
    for k in range(64):
        env.act(actions[k])
        env.observe()
    for _ in sys.stdin:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            env.act(actions[steps % 64])
            env.observe()
            steps += 1
        print(steps * num_envs / (time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
