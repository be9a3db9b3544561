"""Measure the speed of MiniGrid side by side with the package `minigrid`, on one thread.

    pip install '.[test]'
    python benchmarks/minigrid_speed.py

Environment steps per second of CPU time with random actions, resets included, after a warm-up that spreads the
environments over their episodes. Both run several rounds in turn, so that other load on the machine slows both alike.
The median round is reported. The package steps one environment; its images are those of RGBImgPartialObsWrapper. Prints
Markdown.
"""

import argparse
import datetime
import os
import platform
import time
import warnings

import gymnasium
import numpy as np

from envgen.worlds.minigrid.env import MiniGridVectorEnv
from envgen.worlds.minigrid.package_levels import package_level
from envgen.worlds.minigrid.reference import make_reference

ENVIRONMENTS = ("Empty-8x8-v0", "DoorKey-8x8-v0", "FourRooms-v0", "MultiRoom-N6-v0", "KeyCorridorS6R3-v0",
                "ObstructedMaze-Full-v1")  # fmt: skip
WARM_UP_STEPS = 300


class OwnEngine:
    def __init__(self, env_id: str, num_envs: int, observation: str, seconds: float):
        self.envs = MiniGridVectorEnv(num_envs, package_level(env_id), observation, threads=1)
        self.envs.reset(seed=0)
        self.actions = np.random.default_rng(0).integers(0, 7, (64, num_envs))
        self.num_envs, self.seconds = num_envs, seconds
        for k in range(WARM_UP_STEPS):
            self.envs.step(self.actions[k % 64])

    def run_round(self) -> float:
        steps, start = 0, time.process_time()
        while time.process_time() - start < self.seconds:
            self.envs.step(self.actions[steps % 64])
            steps += 1
        return steps * self.num_envs / (time.process_time() - start)


class Package:
    def __init__(self, env_id: str, observation: str, seconds: float):
        self.env: gymnasium.Env = make_reference(env_id)
        if observation == "pixels":
            from minigrid.wrappers import RGBImgPartialObsWrapper

            self.env = RGBImgPartialObsWrapper(self.env, tile_size=8)
        self.env.reset(seed=0)
        self.actions = np.random.default_rng(0).integers(0, 7, 4096)
        self.seconds = seconds

    def run_round(self) -> float:
        steps, start = 0, time.process_time()
        while time.process_time() - start < self.seconds:
            _, _, terminated, truncated, _ = self.env.step(self.actions[steps % 4096])
            if terminated or truncated:
                self.env.reset()
            steps += 1
        return steps / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU time of a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", ".*out of date", DeprecationWarning)
    runners: dict[tuple[str, str, int], OwnEngine | Package] = {}
    for name in ENVIRONMENTS:
        for observation in ("symbols", "pixels"):
            runners[name, observation, 1] = Package(f"MiniGrid-{name}", observation, args.seconds)
            runners[name, observation, 256] = OwnEngine(f"MiniGrid-{name}", 256, observation, args.seconds)
    rounds = [{key: runner.run_round() for key, runner in runners.items()} for _ in range(args.rounds)]
    rates = {key: float(np.median([results[key] for results in rounds])) for key in runners}
    print(f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}\n")  # fmt: skip
    print("| environment | observation | minigrid | envgen | ratio |")
    print("|---|---|---:|---:|---:|")
    for name in ENVIRONMENTS:
        for observation in ("symbols", "pixels"):
            package, own = rates[name, observation, 1], rates[name, observation, 256]
            print(f"| {name} | {observation} | {package:,.0f} | {own:,.0f} | {own / package:,.0f} |")


if __name__ == "__main__":
    main()
