"""Measures how often the first sleep of an episode of Crafter succeeds, how long it takes, and its discounted reward.

The levels differ in energy, zombies and time at the start. Each player walks at random, and sleeps as soon as its
energy is below its maximum. Prints the table of docs/envgen.md.

    python benchmarks/crafter_sleep.py --episodes 1024
"""

import argparse
from contextlib import closing
from typing import Any

import numpy as np

from envgen.worlds.crafter.constants import ENERGY, MAX_ITEM_COUNT
from envgen.worlds.crafter.world import Crafter

LEVELS: dict[str, dict[str, Any]] = {
    "the original": {},
    "energy 6": {"vitals": {"energy": 6}},
    "energy 4": {"vitals": {"energy": 4}},
    "energy 2": {"vitals": {"energy": 2}},
    "energy 4, zombies common": {"vitals": {"energy": 4}, "zombies": "common"},
    "energy 4, at night": {"vitals": {"energy": 4}, "time_of_day": 180},
}
MAX_STEPS = 600
WOKE_UP, DIED = 1, 2


def first_sleep(level: dict[str, Any], episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """How the first sleep of each episode ended (0 if it did not end), and how many steps it took."""
    world = Crafter()
    skill, sleep = [s.name for s in world.skills].index("wake_up"), world.actions.index("sleep")
    moves = [world.actions.index(f"move_{direction}") for direction in ("left", "right", "up", "down")]
    rng = np.random.default_rng(0)
    result, steps, asleep = np.zeros(episodes, np.int64), np.zeros(episodes, np.int64), np.zeros(episodes, np.bool_)
    with closing(world.make([level], num_envs=episodes, seed=0, observation="symbols")) as envs:
        envs.reset()
        for _ in range(MAX_STEPS):
            can_sleep = envs.engine.envs["inventory"][:, ENERGY] < MAX_ITEM_COUNT
            actions = np.where(can_sleep, sleep, rng.choice(moves, episodes))
            playing = result == 0
            asleep |= can_sleep & playing
            steps += asleep & playing
            _, _, terminated, truncated, infos = envs.step(actions)
            ended = terminated | truncated
            counts = infos["achievements"][:, skill].copy()
            if ended.any():
                counts[ended] = infos["final_info"]["achievements"][ended, skill]
            result[playing & (counts > 0)] = WOKE_UP
            result[playing & ended & (counts == 0)] = DIED
            if result.all():
                break
    return result, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--gamma", type=float, default=0.95, help="discount of the learner preset fast")
    args = parser.parse_args()
    print("| start | wakes up | dies first | steps asleep, median | discounted reward |\n|---|---:|---:|---:|---:|")
    for name, level in LEVELS.items():
        result, steps = first_sleep(level, args.episodes)
        slept = result[steps > 0]
        rewards = np.where(result == WOKE_UP, args.gamma**steps, 0)[steps > 0]
        print(
            f"| {name} | {100 * (slept == WOKE_UP).mean():.0f}% | {100 * (slept == DIED).mean():.0f}% | "
            f"{np.median(steps[result == WOKE_UP]):.0f} | {rewards.mean():.2f} |"
        )


if __name__ == "__main__":
    main()
