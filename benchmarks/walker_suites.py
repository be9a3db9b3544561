"""Evaluate trained agents in the walker's held-out terrains (envgen.worlds.walker.held_out).

    envgen train walker --designer accel --folder out/walker/accel-0
    python benchmarks/walker_suites.py out/walker/* --suite accel

All agents play the same episodes. Runs in folders NAME-SEED are grouped by name. Prints the mean return of each group,
an interquartile mean over its seeds with a 95% interval, beside that of Gymnasium's scripted walker and, for the suite
`accel`, published returns; and the percentage of episodes that arrive at the end of the course. `--out` also writes the
tables (.md) and the values of each run (.json) to files. Values that it already has are kept, not computed again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import envgen
from envgen.worlds.walker.held_out import HELD_OUT_LEVELS, POET_LEVELS, PUBLISHED_RETURNS, SUITES, extremely_challenging
from envgen.worlds.walker.level import WalkerLevel
from envgen.worlds.walker.world import Walker
from minigrid_mazes import format_table
from training_runs import EVALUATION_SEED

NUM_CHALLENGING = 5  # levels of the suite `challenging`
Values = dict[str, dict[str, float]]


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


def saved_values(out: Path | None, suite: str, episodes: int) -> tuple[Values, Values]:
    """The returns and the percentages of arrivals that an earlier call has written, by terrain and agent."""
    if out is None or not out.with_suffix(".json").exists():
        return {}, {}
    saved = json.loads(out.with_suffix(".json").read_text())
    if (saved["suite"], saved["episodes"]) != (suite, episodes):
        raise SystemExit(f"{out.with_suffix('.json')} has {saved['episodes']} episodes of the suite {saved['suite']}")
    return saved["returns"], saved["arrivals"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--suite", choices=[*SUITES, "challenging"], default="accel")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
    world, levels = Walker(), suite_levels(args.suite)
    returns, arrivals = saved_values(args.out, args.suite, args.episodes)  # by terrain and agent
    for name, level in levels.items():
        if name not in returns:
            published = PUBLISHED_RETURNS if args.suite == "accel" else {}
            returns[name] = {f"published {designer}": values[name] for designer, values in published.items()}
            returns[name]["scripted"] = float(scripted_returns(world, level, args.episodes).mean())
            arrivals[name] = {}
        for run in args.runs:
            if run.name not in arrivals[name]:
                evaluation = envgen.evaluate(run, args.episodes, level=level, seed=EVALUATION_SEED)
                returns[name][run.name] = evaluation.reward.value
                arrivals[name][run.name] = evaluation.skills["walk_100"].value
        if args.out:
            values = {"suite": args.suite, "episodes": args.episodes, "returns": returns, "arrivals": arrivals}
            args.out.with_suffix(".json").write_text(json.dumps(values, indent=1) + "\n")
    text = format_table("mean return", returns)
    if any(arrivals.values()):
        text += f"\n\n{format_table('% of episodes that arrive', arrivals)}"
    print(text)
    if args.out:
        args.out.with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
