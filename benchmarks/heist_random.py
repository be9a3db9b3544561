"""Measure how often random actions and the scripted expert succeed: the starting point and the upper bound of learning.

    python benchmarks/heist_random.py --episodes 2000

Prints two Markdown tables: for each mode, the percentage of episodes in which the gem is stolen, by uniformly random
actions (with its 95% interval) and by the scripted expert; and for each skill, how often random actions achieved it, as
a percentage of the episodes in which it was possible (info "possible").
"""

import argparse
from collections.abc import Callable

import numpy as np

from envgen.worlds.heist.constants import ACTIONS, MODES, SKILLS
from envgen.worlds.heist.env import HeistVectorEnv
from envgen.worlds.heist.expert_policy import expert_actions

NUM_ENVS = 256


def run_episodes(
    mode: str, num_episodes: int, choose_actions: Callable[[HeistVectorEnv], np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Play episodes; return which skills were achieved and which were possible, (episodes, skills), and the lengths.

    Every environment contributes the same number of episodes, so short episodes are not overrepresented.
    """
    envs = HeistVectorEnv(NUM_ENVS, {"mode": mode}, "symbols")
    envs.reset(seed=0)
    remaining = np.full(NUM_ENVS, -(-num_episodes // NUM_ENVS))
    achieved, possible, lengths = [], [], []
    while remaining.any():
        _, _, terminated, truncated, infos = envs.step(choose_actions(envs))
        ended = np.flatnonzero((terminated | truncated) & (remaining > 0))
        remaining[ended] -= 1
        if ended.size:
            final_info = infos["final_info"]
            achieved.append(final_info["achievements"][ended] > 0)
            possible.append(final_info["possible"][ended])
            lengths.append(final_info["episode_length"][ended])
    return np.concatenate(achieved), np.concatenate(possible), np.concatenate(lengths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    num_episodes = parser.parse_args().episodes
    rng = np.random.default_rng(0)
    print("| mode | random, % | expert, % | expert's steps, mean (median, maximum) |\n|---|---:|---:|---:|")
    rates = {}
    for mode in MODES:
        achieved, possible, _ = run_episodes(mode, num_episodes, lambda envs: rng.integers(0, len(ACTIONS), NUM_ENVS))
        rates[mode] = [100 * achieved[possible[:, k], k].mean() for k in range(len(SKILLS))]
        stolen = achieved[:, -1]
        error = 196 * np.sqrt(stolen.mean() * (1 - stolen.mean()) / len(stolen))
        solved, _, lengths = run_episodes(
            mode, min(num_episodes, 2 * NUM_ENVS), lambda envs: expert_actions(envs.engine)
        )
        steps = f"{lengths.mean():.0f} ({np.median(lengths):.0f}, {lengths.max()})"
        print(f"| {mode} | {100 * stolen.mean():.1f} ± {error:.1f} | {100 * solved[:, -1].mean():.1f} | {steps} |")
    print("\n| skill, where it is possible, % | " + " | ".join(MODES) + " |\n|---|" + "---:|" * len(MODES))
    for k, skill in enumerate(SKILLS):
        print(f"| {skill.name} | " + " | ".join(f"{rates[mode][k]:.1f}" for mode in MODES) + " |")


if __name__ == "__main__":
    main()
