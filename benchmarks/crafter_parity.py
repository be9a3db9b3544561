"""The long soak: ours and PyPI `crafter` side by side, every byte compared at every step.

    python benchmarks/crafter_parity.py --steps 1000000 --workers 2

Three kinds of players take turns: random ones, the scripted expert with some random actions, and sleepers. Prints what
was reached, and fails if any skill or kind of entity was never met.
"""

import argparse
import collections
import multiprocessing
import sys
import time

import numpy as np

from envgen.worlds.crafter.constants import ACTIONS, ENTITIES, SKILLS, SLEEP
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.original import ParityChecker

LENGTHS = (10_000, 10_000, 10_000, 400)  # of episodes: mostly the original's, some that end by time


def choose(player: int, pair: ParityChecker, rng: np.random.Generator) -> int:
    if player == 0 or rng.random() < 0.1:
        return int(rng.integers(len(ACTIONS)))
    if player == 2 and rng.random() < 0.7:
        return SLEEP
    return int(expert_actions(pair.env.engine)[0])


def soak(job: tuple[int, int]) -> collections.Counter:
    """`steps` steps over many seeds, beginning with seed `first`; counts what was met."""
    first, steps = job
    met: collections.Counter = collections.Counter()
    rng = np.random.default_rng(first)
    seed = first
    while met["steps"] < steps:
        player, length = seed % 3, LENGTHS[seed % len(LENGTHS)]
        pair = ParityChecker(seed, length=length)
        pair.reset()
        for _ in range(min(4000, steps - met["steps"])):
            env = pair.env.engine.state.envs[0]
            met["night steps"] += int(env["daylight"] < 0.5)
            met["steps asleep"] += int(env["sleeping"] != 0)
            entities = pair.env.engine.state.entities[0][: env["num_entities"]]["kind"]
            for kind in np.unique(entities):
                met[f"steps with {ENTITIES[kind]}"] += 1
            ended = pair.step(choose(player, pair, rng))
            met["steps"] += 1
            if ended:
                now = pair.env.engine.results.report[0]
                met["time-outs" if now["discount"] else "deaths"] += 1
                for skill, count in zip(SKILLS, now["achievements"].tolist(), strict=True):
                    met[f"episodes with {skill.name}"] += int(count > 0)
                pair.reset()
                met["later episodes"] += 1
        seed += 1
        met["seeds"] += 1
        if met["seeds"] % 10 == 0:
            print(f"  worker from seed {first}: {met['steps']:,} equal steps", flush=True)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    share = -(-args.steps // args.workers)
    start = time.time()
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        met = sum(
            pool.map(soak, [(args.seed + 1_000_000 * k, share) for k in range(args.workers)]), collections.Counter()
        )
    for what in sorted(met):
        print(f"{what:32} {met[what]:>10,}")
    wanted = [f"episodes with {skill.name}" for skill in SKILLS] + [f"steps with {kind}" for kind in ENTITIES[1:]]
    missing = [what for what in [*wanted, "night steps", "steps asleep", "deaths", "time-outs"] if not met[what]]
    print(f"{met['steps']:,} equal steps in {time.time() - start:.0f} s; never met: {', '.join(missing) or 'nothing'}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
