"""Measure how the settings of HeistLevel change its mazes; prints the Markdown table of docs/heist.md.

python benchmarks/heist_level_stats.py --mazes 300
"""

import argparse

from envgen.settings import unflatten
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.heist.level_stats import compute_level_stats
from envgen.worlds.level_space import setting_values

NO_EFFECT = ("speed", "length", "key_reward", "door_reward")  # settings that do not change the maze
SKILLS = ("take_blue_key", "open_red_door", "steal_gem")
CELLS = ("free cells", "dead ends", "doors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mazes", type=int, default=300, help="mazes per value")
    seeds = range(parser.parse_args().mazes)
    print("| setting | value | free cells | dead ends | doors | moves to the blue key | to the red door | to the gem |")
    print("|---|---|" + "---:|" * 6)
    for setting, values in setting_values(HeistLevel).items():
        if setting in NO_EFFECT:
            continue
        for value in values:
            if value == values[0] and setting != "mode":
                continue  # the original
            stats = compute_level_stats(unflatten({setting: value}), seeds)
            columns = [stats.cells[name] for name in CELLS] + [stats.mean_moves[skill] for skill in SKILLS]
            formatted = " | ".join("-" if column is None else f"{column:.1f}" for column in columns)
            print(f"| {setting} | {value} | {formatted} |")


if __name__ == "__main__":
    main()
