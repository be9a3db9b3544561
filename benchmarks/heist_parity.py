"""Compare Heist with the reference, bit by bit: every state, and with --frames every image.

    make procgen
    python benchmarks/heist_parity.py --steps 1000000
    python benchmarks/heist_parity.py --mazes 10000            # only the start of each episode

The policies are random, expert, and mixtures of both (reference.mixed_policies).
"""

import argparse
import sys
import time

import numpy as np

from envgen.worlds.heist.reference import (
    ReferenceHeist,
    RolloutRequest,
    first_difference,
    mixed_policies,
    record_engine_rollout,
)

MODES = ("easy", "hard", "memory")
NUM_ENVS, STEPS_PER_ROUND = 16, 500


def compare(reference: ReferenceHeist, request: RolloutRequest, steps: int, with_frames: bool) -> tuple[int, int]:
    """Returns (finished episodes, stolen gems); exits with a message if there is a difference."""
    policies = mixed_policies(request.num_envs, request.rand_seed)
    actual = record_engine_rollout(request, steps, policies, "procgen" if with_frames else None)
    states, frames = reference.rollout(request._replace(with_frames=with_frames), actual.actions)
    if difference := first_difference(actual, states, frames):
        sys.exit(f"{request}: {difference}")
    return int(actual.states["first"][1:].sum()), int((actual.states["reward"] > 0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="total over all modes")
    parser.add_argument("--mazes", type=int, help="compare only the first state of this many mazes of each mode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--frames", action="store_true", help="compare images too (with ENVGEN_PROCGEN set)")
    args = parser.parse_args()
    start = time.time()
    with ReferenceHeist() as reference:
        for k, mode in enumerate(MODES):
            if args.mazes:
                compare(reference, RolloutRequest(mode, args.mazes, args.seed), 0, args.frames)
                print(f"{mode}: {args.mazes:,} mazes, no difference")
                continue
            rounds = max(1, round(args.steps / len(MODES) / NUM_ENVS / STEPS_PER_ROUND))
            totals = np.zeros(2, np.int64)
            for n in range(rounds):
                request = RolloutRequest(mode, NUM_ENVS, 1000 * args.seed + 3 * n + k, 50 * (n % 2), 1000 * n)
                totals += compare(reference, request, STEPS_PER_ROUND, args.frames)
            steps = rounds * NUM_ENVS * STEPS_PER_ROUND
            print(f"{mode}: {steps:,} steps, {totals[0]} episodes, {totals[1]} gems, no difference")
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
