"""Measures how settings of CrafterLevel change its maps; prints the Markdown tables of docs/crafter.md.

python benchmarks/crafter_level_stats.py --maps 100
"""

import argparse

from envgen.worlds.crafter.level_stats import CrafterLevelStats, compute_level_stats

OPTIONS = ("none", "rare", "original", "common", "very common")
MEASURED = {
    "trees": "tree", "water": "water", "coal": "coal", "iron": "iron", "diamonds": "diamond", "lava": "lava",
    "tunnels": "path", "cows": "cow", "zombies": "zombie", "skeletons": "skeleton",
}  # fmt: skip
BIOMES = ("natural", "grassland", "mountain", "beach")
BIOME_COLUMNS = (
    "water", "grass", "tree", "sand", "stone", "path", "coal", "iron", "diamond", "lava", "cow", "skeleton",
)  # fmt: skip


def count(stats: CrafterLevelStats, name: str) -> float:
    return {**stats.cells, **stats.creatures}[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, default=100, help="maps per setting")
    seeds = range(parser.parse_args().maps)
    print("| setting | measured | " + " | ".join(OPTIONS) + " |\n|---|---|" + "---:|" * len(OPTIONS))
    for setting, name in MEASURED.items():
        cells = []
        for option in OPTIONS:
            stats = compute_level_stats({setting: option}, seeds)
            distance = stats.nearest_distances[name]
            cells.append(f"{count(stats, name):.1f}" + (f" ({distance:.0f})" if distance else ""))
        print(f"| {setting} | {name} | " + " | ".join(cells) + " |")
    print("\n| biome | " + " | ".join(BIOME_COLUMNS) + " |\n|---|" + "---:|" * len(BIOME_COLUMNS))
    for biome in BIOMES:
        stats = compute_level_stats({"biome": biome}, seeds)
        print(f"| {biome} | " + " | ".join(f"{count(stats, name):.0f}" for name in BIOME_COLUMNS) + " |")


if __name__ == "__main__":
    main()
