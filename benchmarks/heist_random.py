"""How often a player who presses anything steals the gem, by mode and by level: where learning starts from.

    python benchmarks/heist_random.py --episodes 2000

Prints Markdown: success of uniformly random actions in percent of episodes with its 95 % interval, and of the scripted
player; then for every skill how often it happened, of the episodes whose maze had it (info "possible").
"""

import argparse
from collections.abc import Callable

import numpy as np

from envgen.worlds.heist.constants import ACTIONS, MODES, SKILLS
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.vector import HeistVectorEnv

NUM = 256


def episodes(mode: str, count: int, choose: Callable[[HeistVectorEnv], np.ndarray]) -> tuple[np.ndarray, ...]:
    """(episodes, skills) whether each happened and whether it was possible, and (episodes,) lengths.

    As many from every environment: who finishes early does not count more often.
    """
    envs = HeistVectorEnv(NUM, {"mode": mode}, "symbols")
    envs.reset(seed=0)
    each = -(-count // NUM)
    left = np.full(NUM, each)
    done, possible, lengths = [], [], []
    while left.any():
        _, _, terminated, truncated, infos = envs.step(choose(envs))
        ended = np.flatnonzero((terminated | truncated) & (left > 0))
        left[ended] -= 1
        if ended.size:
            last = infos["final_info"]
            done.append(last["achievements"][ended] > 0)
            possible.append(last["possible"][ended])
            lengths.append(last["episode_length"][ended])
    return np.concatenate(done), np.concatenate(possible), np.concatenate(lengths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    count = parser.parse_args().episodes
    chance = np.random.default_rng(0)
    print("| mode | random, % | scripted, % | its steps, mean (median, most) |\n|---|---:|---:|---:|")
    rates = {}
    for mode in MODES:
        happened, possible, _ = episodes(mode, count, lambda envs: chance.integers(0, len(ACTIONS), NUM))
        rates[mode] = [100 * happened[possible[:, k], k].mean() for k in range(len(SKILLS))]
        stolen = happened[:, -1]
        error = 196 * np.sqrt(stolen.mean() * (1 - stolen.mean()) / len(stolen))
        solved, _, steps = episodes(mode, min(count, 2 * NUM), lambda envs: expert_actions(envs.engine))
        told = f"{steps.mean():.0f} ({np.median(steps):.0f}, {steps.max()})"
        print(f"| {mode} | {100 * stolen.mean():.1f} ± {error:.1f} | {100 * solved[:, -1].mean():.1f} | {told} |")
    print("\n| skill, where the maze has it, % | " + " | ".join(MODES) + " |\n|---|" + "---:|" * len(MODES))
    for k, skill in enumerate(SKILLS):
        print(f"| {skill.name} | " + " | ".join(f"{rates[mode][k]:.1f}" for mode in MODES) + " |")


if __name__ == "__main__":
    main()
