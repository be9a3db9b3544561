"""Plays this engine and the PyPI package `crafter` side by side and compares every byte at every step.

    python benchmarks/crafter_parity.py --steps 1000000 --workers 2

Three policies take turns: random actions, the scripted expert with some random actions, and mostly sleeping. Prints
what was covered, and fails if a skill or a kind of entity never occurred.
"""

import argparse
import collections
import multiprocessing
import sys
import time

import numpy as np

from envgen.worlds.crafter.constants import ACTIONS, ENTITIES, SKILLS, SLEEP
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.reference import ParityChecker

EPISODE_LENGTHS = (10_000, 10_000, 10_000, 400)  # mostly the original's; a few short ones are truncated
RANDOM, EXPERT, SLEEPER = range(3)  # policies


def choose_action(policy: int, checker: ParityChecker, rng: np.random.Generator) -> int:
    if policy == RANDOM or rng.random() < 0.1:
        return int(rng.integers(len(ACTIONS)))
    if policy == SLEEPER and rng.random() < 0.7:
        return SLEEP
    return int(expert_actions(checker.env.engine)[0])


def run_worker(job: tuple[int, int]) -> collections.Counter:
    """Play `steps` steps over many seeds, starting with `first_seed`, and count what was covered."""
    first_seed, steps = job
    counts: collections.Counter = collections.Counter()
    rng = np.random.default_rng(first_seed)
    seed = first_seed
    while counts["steps"] < steps:
        policy, length = seed % 3, EPISODE_LENGTHS[seed % len(EPISODE_LENGTHS)]
        checker = ParityChecker(seed, length=length)
        checker.reset()
        for _ in range(min(4000, steps - counts["steps"])):
            env = checker.env.engine.state.envs[0]
            counts["night steps"] += int(env["daylight"] < 0.5)
            counts["steps asleep"] += int(env["sleeping"] != 0)
            for kind in np.unique(checker.env.engine.state.entities[0][: env["num_entities"]]["kind"]):
                counts[f"steps with {ENTITIES[kind]}"] += 1
            ended = checker.step(choose_action(policy, checker, rng))
            counts["steps"] += 1
            if ended:
                report = checker.env.engine.results.report[0]
                counts["truncated episodes" if report["discount"] else "deaths"] += 1
                for skill, count in zip(SKILLS, report["achievements"].tolist(), strict=True):
                    counts[f"episodes with {skill.name}"] += int(count > 0)
                checker.reset()
                counts["later episodes"] += 1
        seed += 1
        counts["seeds"] += 1
        if counts["seeds"] % 10 == 0:
            print(f"  worker with seeds from {first_seed}: {counts['steps']:,} equal steps", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    steps_per_worker = -(-args.steps // args.workers)
    jobs = [(args.seed + 1_000_000 * k, steps_per_worker) for k in range(args.workers)]
    start = time.time()
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        counts = sum(pool.map(run_worker, jobs), collections.Counter())
    for name in sorted(counts):
        print(f"{name:32} {counts[name]:>10,}")
    required = [f"episodes with {skill.name}" for skill in SKILLS] + [f"steps with {kind}" for kind in ENTITIES[1:]]
    required += ["night steps", "steps asleep", "deaths", "truncated episodes"]
    missing = [name for name in required if not counts[name]]
    print(f"{counts['steps']:,} equal steps in {time.time() - start:.0f} s; missing: {', '.join(missing) or 'nothing'}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
