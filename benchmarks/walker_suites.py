"""Evaluate trained agents in the walker's held-out terrains (envgen.worlds.walker.held_out).

    envgen train walker --designer accel --folder out/walker/accel-0
    python benchmarks/walker_suites.py out/walker/* --suite accel

All agents play the same episodes. Prints the mean return of each with its 95% interval, and how often it arrives at the
end of the course, beside the return of Gymnasium's scripted walker and, for the suite `accel`, published returns.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import envgen
from envgen.worlds.walker.held_out import HELD_OUT_LEVELS, POET_LEVELS, PUBLISHED_RETURNS, SUITES, extremely_challenging
from envgen.worlds.walker.level import WalkerLevel
from envgen.worlds.walker.world import Walker

EVALUATION_SEED = 9_000_000_000  # the same episodes for all agents
NUM_CHALLENGING = 5  # levels of the suite `challenging`


def suite_levels(suite: str) -> dict[str, WalkerLevel]:
    if suite == "challenging":
        return {f"Challenging-{k + 1}": level for k, level in enumerate(extremely_challenging(NUM_CHALLENGING))}
    levels = {**HELD_OUT_LEVELS, **POET_LEVELS}
    return {name: WalkerLevel.parse(levels[name]) for name in SUITES[suite]}


def scripted_returns(world: Walker, level: WalkerLevel, episodes: int) -> np.ndarray:
    """The returns of the first episodes of Gymnasium's scripted walker."""
    envs: Any = world.make([level], episodes, EVALUATION_SEED)
    envs.reset()
    returns, playing = np.zeros(episodes), np.ones(episodes, np.bool_)
    while playing.any():
        _, rewards, terminated, truncated, _ = envs.step(world.expert_actions(envs))
        returns += rewards
        playing &= ~(terminated | truncated)
        envs.set_active(playing)
    envs.close()
    return returns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--suite", choices=[*SUITES, "challenging"], default="accel")
    parser.add_argument("--episodes", type=int, default=100)
    args = parser.parse_args()
    world = Walker()
    published = PUBLISHED_RETURNS if args.suite == "accel" else {}
    columns = [*published, "scripted", *map(str, args.runs)]
    print("| terrain |", " | ".join(columns), "|")
    print("|---|" + "---:|" * len(columns))
    for name, level in suite_levels(args.suite).items():
        cells = [f"{returns[name]:.0f}" for returns in published.values()]
        cells.append(f"{scripted_returns(world, level, args.episodes).mean():.0f}")
        for run in args.runs:
            result = envgen.evaluate(run, args.episodes, level=level, seed=EVALUATION_SEED)
            cells.append(f"{result.reward}, {result.skills['walk_100'].value:.0f}% arrive")
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
