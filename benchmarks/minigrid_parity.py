"""Compare MiniGrid with the package `minigrid`, step by step, in each of its environments.

    pip install '.[test]'
    python benchmarks/minigrid_parity.py --steps 1000000

Grids, observations, missions, rewards and the ends of episodes must be equal. Episodes are played with random actions,
by the scripted expert, and by mixtures of both (minigrid.reference.compare_environment).
"""

import argparse
import sys
import time
import warnings

import numpy as np

from envgen.worlds.minigrid.package_levels import PACKAGE_IDS
from envgen.worlds.minigrid.reference import compare_environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="total over all environments")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", ".*out of date", DeprecationWarning)  # of the package's old ids
    start, totals = time.time(), np.zeros(3, np.int64)
    for k, env_id in enumerate(PACKAGE_IDS):
        result = compare_environment(env_id, -(-args.steps // len(PACKAGE_IDS)), 1_000_000 * args.seed + 10_000 * k)
        if result.difference:
            sys.exit(result.difference)
        totals += result[:3]
        print(f"{env_id}: {result.steps:,} steps, {result.episodes} episodes, {result.successes} solved, no difference")
    steps, episodes, successes = totals.tolist()
    counts = f"{steps:,} steps, {episodes:,} episodes, {successes:,} solved"
    print(f"{len(PACKAGE_IDS)} environments: {counts}, no difference, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
