"""Evaluate trained agents in held-out mazes (envgen.worlds.minigrid.held_out), maze by maze.

    envgen train minigrid --designer expert --folder out/minigrid/expert-0
    python benchmarks/minigrid_mazes.py out/minigrid/*
    python benchmarks/minigrid_mazes.py out/minigrid/* --out docs/results/envgen-minigrid-symbols/held-out

All agents play the same episodes. Runs in folders NAME-SEED are grouped by name. Prints the percentage of episodes that
each group solves, an interquartile mean over its seeds with a 95% interval, the mean over mazes, what random actions
and the scripted expert reach, and the published percentages. `--out` also writes the table and the percentages of each
run to files.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

import envgen
from envgen.runs.statistics import iqm_with_ci
from envgen.worlds.minigrid import constants as const
from envgen.worlds.minigrid.env import MiniGridVectorEnv
from envgen.worlds.minigrid.expert_policy import expert_actions
from envgen.worlds.minigrid.held_out import HELD_OUT_LEVELS, PUBLISHED_SOLVED
from envgen.worlds.minigrid.level import MiniGridLevel
from training_runs import EVALUATION_SEED


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
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
    solved: dict[str, dict[str, float]] = {}  # by maze and agent
    for name, overrides in HELD_OUT_LEVELS.items():
        level: Any = MiniGridLevel.parse(overrides)
        skill = const.skill_name("random walls" if level.task == "mixed" else level.task)
        solved[name] = {f"published {key}": values[name] for key, values in PUBLISHED_SOLVED.items() if name in values}
        solved[name] |= {policy: solved_by(policy, level, args.episodes) for policy in ("random", "scripted expert")}
        for run in args.runs:
            evaluation = envgen.evaluate(run, args.episodes, level=level, seed=EVALUATION_SEED)
            solved[name][run.name] = evaluation.skills[skill].value
    text = format_table("maze", solved)
    print(text)
    if args.out:
        args.out.with_suffix(".md").write_text(text + "\n")
        args.out.with_suffix(".json").write_text(
            json.dumps({"episodes": args.episodes, "solved": solved}, indent=1) + "\n"
        )


def format_table(title: str, results: dict[str, dict[str, float]]) -> str:
    """A row for each level and the mean over levels, a column for each group of runs. Some agents may lack levels."""
    agents = list(dict.fromkeys(agent for values in results.values() for agent in values))
    groups = {group_of(agent): [other for other in agents if group_of(other) == group_of(agent)] for agent in agents}
    complete = [agent for agent in agents if all(agent in values for values in results.values())]
    results = {
        **results,
        "mean": {agent: float(np.mean([values[agent] for values in results.values()])) for agent in complete},
    }
    lines = [f"| {title} | {' | '.join(groups)} |", "|---|" + "---:|" * len(groups)]
    for level, values in results.items():
        cells = [
            str(iqm_with_ci([values[agent] for agent in members])) if set(members) <= values.keys() else "-"
            for members in groups.values()
        ]
        lines.append(f"| {level} | {' | '.join(cells)} |")
    return "\n".join(lines)


def group_of(agent: str) -> str:
    return re.sub(r"-\d+$", "", agent)


if __name__ == "__main__":
    main()
