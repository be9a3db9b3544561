"""Train the default PPO in the original walker until its mean return is above 300, and print the curve.

    python benchmarks/walker_learning.py out/walker-learning --seed 0

BipedalWalker-v3 counts as solved at a return of 300. An interrupted run continues where it stopped.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import envgen
from envgen.runs.store import read_progress

SOLVED = 300
WINDOW = 100  # episodes


def curve(folder: Path, num_points: int = 20) -> list[tuple[int, float, float, int]]:
    """Steps, mean return and mean length of the episodes of each part of the training, and their number."""
    lines = [line for line in read_progress(folder) if line["episodes"]]
    points = []
    for part in np.array_split(np.arange(len(lines)), min(num_points, len(lines))):
        own = [lines[k] for k in part]
        episodes = sum(line["episodes"] for line in own)
        totals = [sum(line[name] for line in own) / episodes for name in ("return_sum", "length_sum")]
        points.append((own[-1]["steps"], totals[0], totals[1], episodes))
    return points


def steps_to_solve(folder: Path) -> int | None:
    """The steps after which the mean return of at least the last `WINDOW` episodes was first above 300."""
    recent: list[tuple[int, float]] = []
    for line in read_progress(folder):
        recent.append((line["episodes"], line["return_sum"]))
        while sum(count for count, _ in recent[1:]) >= WINDOW:
            recent.pop(0)
        count = sum(count for count, _ in recent)
        if count >= WINDOW and sum(total for _, total in recent) / count > SOLVED:
            return line["steps"]
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--episodes", type=int, default=100, help="of the evaluation of the final policy")
    parser.add_argument("--ppo", type=json.loads, default={}, help="PPO settings that differ from the defaults")
    parser.add_argument("--only-curve", action="store_true", help="print the curve of a run in progress")
    args = parser.parse_args()
    if not args.only_curve:
        run = envgen.train(
            "walker", "none", folder=args.folder, seed=args.seed, hyperparameters=args.ppo,
            plan={"cycles": 0, "final_steps": args.steps, "episodes": args.episodes},
        )  # fmt: skip
        print(run.report())
    print("| steps | return | length | episodes |\n|---:|---:|---:|---:|")
    for steps, mean_return, length, episodes in curve(args.folder):
        print(f"| {steps:,} | {mean_return:.1f} | {length:.0f} | {episodes} |")
    print(f"steps until the mean return of {WINDOW} episodes was above {SOLVED}: {steps_to_solve(args.folder)}")


if __name__ == "__main__":
    main()
