"""EnvPool's rate, for heist_speed.py: runs in .peers' Python and prints steps per second for each round.

python heist_envpool.py MODE ENVIRONMENTS SECONDS: plays a round for every line it is sent. EnvPool's Procgen needs Qt 5
(libqt5gui5).
"""

import sys
import time

import envpool  # pyright: ignore[reportMissingImports]
import numpy as np


def main() -> None:
    mode, num, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    env = envpool.make_gymnasium(f"Heist{mode.capitalize()}-v0", num_envs=num, num_threads=1, seed=0)
    env.reset()
    actions = np.random.default_rng(0).integers(0, 15, (64, num)).astype(np.int32)
    for k in range(500):
        env.step(actions[k % 64])
    for _ in sys.stdin:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            env.step(actions[steps % 64])
            steps += 1
        print(steps * num / (time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
