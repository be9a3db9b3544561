"""Evaluate trained agents in held-out mazes (envgen.worlds.minigrid.held_out), maze by maze.

    envgen train minigrid --designer expert --folder out/minigrid/expert-0
    python benchmarks/minigrid_mazes.py out/minigrid/*

All agents play the same episodes. Prints the percentage of solved episodes with its 95% interval, the mean over mazes,
and what random actions and the scripted expert reach.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import envgen
from envgen.worlds.minigrid import constants as const
from envgen.worlds.minigrid.env import MiniGridVectorEnv
from envgen.worlds.minigrid.expert_policy import expert_actions
from envgen.worlds.minigrid.held_out import HELD_OUT_LEVELS
from envgen.worlds.minigrid.level import MiniGridLevel

EVALUATION_SEED = 9_000_000_000  # the same episodes for all agents


def solved_by(policy: str, level: MiniGridLevel, episodes: int) -> float:
    """The percentage of first episodes that random actions or the expert solve."""
    envs = MiniGridVectorEnv(episodes, level, "symbols", autoreset_mode="NextStep")
    envs.reset(seed=EVALUATION_SEED)
    rng = np.random.default_rng(0)
    solved, playing = np.zeros(episodes, np.bool_), np.ones(episodes, np.bool_)
    while playing.any():
        actions = rng.integers(len(const.ACTIONS), size=episodes) if policy == "random" else expert_actions(envs.engine)
        _, rewards, terminated, truncated, _ = envs.step(actions)
        solved |= playing & (rewards > 0)
        playing &= ~(terminated | truncated)
    envs.close()
    return 100 * float(solved.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--episodes", type=int, default=256)
    args = parser.parse_args()
    rows: dict[str, list[str]] = {}
    values: dict[str, list[float]] = {str(run): [] for run in args.runs}
    for name, overrides in HELD_OUT_LEVELS.items():
        level: Any = MiniGridLevel.parse(overrides)
        skill = const.skill_name("random walls" if level.task == "mixed" else level.task)
        rows[name] = [f"{solved_by(policy, level, args.episodes):.1f}" for policy in ("random", "expert")]
        for run in args.runs:
            rate = envgen.evaluate(run, args.episodes, level=level, seed=EVALUATION_SEED).skills[skill]
            values[str(run)].append(rate.value)
            rows[name].append(str(rate))
    print("| maze |", " | ".join(["random", "expert", *values]), "|")
    print("|---|" + "---:|" * (2 + len(values)))
    for name, cells in rows.items():
        print(f"| {name} |", " | ".join(cells), "|")
    if values:
        print("| mean | | |", " | ".join(f"{np.mean(rates):.1f}" for rates in values.values()), "|")


if __name__ == "__main__":
    main()
