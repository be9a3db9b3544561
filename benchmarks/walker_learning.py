"""Train the default PPO in the original walker; print the curve and the steps until its mean return was above 300.

    python benchmarks/walker_learning.py out/walker-learning --seed 0

BipedalWalker-v3 counts as solved at a return of 300. Training episodes have sampled actions; the final policy is also
evaluated with the most likely ones. An interrupted run continues where it stopped.
"""

import argparse
import json
from pathlib import Path

import envgen
from envgen.runs.store import read_progress
from training_runs import EVALUATION_SEED, split_progress

SOLVED = 300
WINDOW = 100  # episodes


def make_curve(folder: Path, num_points: int = 20) -> list[tuple[int, float, float, int]]:
    """For each part of the training: steps, mean return and mean length of its episodes, and their number."""
    points = []
    for steps, window in split_progress([line for line in read_progress(folder) if line["episodes"]], num_points):
        episodes = sum(line["episodes"] for line in window)
        mean_return, mean_length = (
            sum(line[name] for line in window) / episodes for name in ("return_sum", "length_sum")
        )
        points.append((steps, mean_return, mean_length, episodes))
    return points


def steps_to_solve(folder: Path) -> int | None:
    """The steps after which the mean return of the last `WINDOW` or more episodes was first above 300."""
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
    parser.add_argument(
        "--ppo", type=json.loads, default={}, help="PPO settings that differ from the defaults, as JSON"
    )
    parser.add_argument("--only-curve", action="store_true", help="print the curve of a run in progress")
    args = parser.parse_args()
    if not args.only_curve:
        run = envgen.train(
            "walker", "none", folder=args.folder, seed=args.seed, hyperparameters=args.ppo,
            plan={"cycles": 0, "final_steps": args.steps, "episodes": args.episodes},
        )  # fmt: skip
        print(run.report())
        most_likely = envgen.evaluate(args.folder, args.episodes, seed=EVALUATION_SEED, deterministic=True)
        print(f"return with the most likely actions: {most_likely.reward}")
    print("| steps | return | length | episodes |\n|---:|---:|---:|---:|")
    for steps, mean_return, length, episodes in make_curve(args.folder):
        print(f"| {steps:,} | {mean_return:.1f} | {length:.0f} | {episodes} |")
    print(f"steps until the mean return of {WINDOW} episodes was above {SOLVED}: {steps_to_solve(args.folder)}")


if __name__ == "__main__":
    main()
