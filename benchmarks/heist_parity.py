"""Compare our Heist with the original, bit by bit: every state, and with --frames every picture.

    make procgen
    python benchmarks/heist_parity.py --steps 1000000
    python benchmarks/heist_parity.py --levels 10000           # only the start of each episode

The players are random, expert, and mixtures of both (original.mixed_players).
"""

import argparse
import sys
import time

import numpy as np

from envgen.worlds.heist.original import OriginalHeist, PlayRequest, first_difference, mixed_players, play_ours

MODES = ("easy", "hard", "memory")
NUM_ENVS, STEPS_PER_ROUND = 16, 500


def compare(original: OriginalHeist, request: PlayRequest, steps: int, with_frames: bool) -> tuple[int, int]:
    """Returns (finished episodes, stolen gems); exits with a message if there is a difference."""
    players = mixed_players(request.num_envs, request.rand_seed)
    ours = play_ours(request, steps, players, "procgen" if with_frames else None)
    states, frames = original.play(request._replace(with_frames=with_frames), ours.actions)
    if difference := first_difference(ours, states, frames):
        sys.exit(f"{request}: {difference}")
    return int(ours.states["first"][1:].sum()), int((ours.states["reward"] > 0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="total over all modes")
    parser.add_argument("--levels", type=int, help="compare only the first state of this many levels of each mode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--frames", action="store_true", help="compare pictures too (set ENVGEN_PROCGEN)")
    args = parser.parse_args()
    start = time.time()
    with OriginalHeist() as original:
        for k, mode in enumerate(MODES):
            if args.levels:
                compare(original, PlayRequest(mode, args.levels, args.seed), 0, args.frames)
                print(f"{mode}: {args.levels:,} levels, no difference")
                continue
            rounds = max(1, round(args.steps / len(MODES) / NUM_ENVS / STEPS_PER_ROUND))
            totals = np.zeros(2, np.int64)
            for n in range(rounds):
                request = PlayRequest(mode, NUM_ENVS, 1000 * args.seed + 3 * n + k, 50 * (n % 2), 1000 * n)
                totals += compare(original, request, STEPS_PER_ROUND, args.frames)
            steps = rounds * NUM_ENVS * STEPS_PER_ROUND
            print(f"{mode}: {steps:,} steps, {totals[0]} episodes, {totals[1]} gems, no difference")
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
