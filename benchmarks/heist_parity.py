"""Play ours beside the original for as long as wanted: every bit of every state, and of every picture with --frames.

    make oracle
    python benchmarks/heist_parity.py --steps 1000000
    python benchmarks/heist_parity.py --levels 10000           # only how levels begin

The players are random ones, experts, and what is between (reference.players).
"""

import argparse
import sys
import time

import numpy as np

from envgen.worlds.heist.original import OriginalHeist, PlayRequest, difference, play, players

MODES = ("easy", "hard", "memory")
NUM, LONG = 16, 500  # environments and steps of one comparison


def compare(oracle: OriginalHeist, asked: PlayRequest, steps: int, frames: bool) -> tuple[int, int]:
    """Episodes that ended and gems that were stolen; exits with words if there is a difference."""
    ours = play(asked, steps, players(asked.num, asked.rand_seed), "procgen" if frames else None)
    wrong = difference(ours, *oracle.play(asked._replace(frames=frames), ours.actions))
    if wrong:
        sys.exit(f"{asked}: {wrong}")
    return int(ours.seen["first"][1:].sum()), int((ours.seen["reward"] > 0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="in all, over all modes")
    parser.add_argument("--levels", type=int, help="compare the first state of so many levels of each mode, no steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--frames", action="store_true", help="the pictures too (set ENVGEN_PROCGEN to the textures)")
    args = parser.parse_args()
    start = time.time()
    with OriginalHeist() as oracle:
        for k, mode in enumerate(MODES):
            if args.levels:
                compare(oracle, PlayRequest(mode, args.levels, args.seed), 0, args.frames)
                print(f"{mode}: {args.levels:,} levels, no difference")
                continue
            rounds = max(1, round(args.steps / len(MODES) / NUM / LONG))
            ended = np.zeros(2, np.int64)
            for n in range(rounds):
                few = PlayRequest(mode, NUM, 1000 * args.seed + 3 * n + k, 50 * (n % 2), 1000 * n)
                ended += compare(oracle, few, LONG, args.frames)
            print(f"{mode}: {rounds * NUM * LONG:,} steps, {ended[0]} episodes, {ended[1]} gems, no difference")
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
