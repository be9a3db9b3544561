"""What every setting of a HeistLevel does to its mazes, as the Markdown table of docs/heist.md.

python benchmarks/heist_census.py --worlds 300
"""

import argparse

from envgen.designers.level_space import setting_values, unflatten
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.heist.level_stats import take_census

UNSEEN = ("speed", "length", "key_reward", "door_reward")  # settings that change no maze
SKILLS = ("take_blue_key", "open_red_door", "steal_gem")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=300)
    seeds = range(parser.parse_args().worlds)
    print("| setting | value | free cells | dead ends | doors | moves to the blue key | to the red door | to the gem |")
    print("|---|---|" + "---:|" * 6)
    for setting, values in setting_values(HeistLevel).items():
        if setting in UNSEEN:
            continue
        for value in values:
            if value == values[0] and setting != "mode":
                continue  # the original
            census = take_census(unflatten({setting: value}), seeds)
            moves = [census.moves[skill] for skill in SKILLS]
            cells = [census.cells[name] for name in ("free cells", "dead ends", "doors")]
            told = " | ".join("-" if one is None else f"{one:.1f}" for one in (*cells, *moves))
            print(f"| {setting} | {value} | {told} |")


if __name__ == "__main__":
    main()
