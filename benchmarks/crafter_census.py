"""What every setting of a CrafterLevel does to its worlds, as the Markdown table of docs/crafter.md.

python benchmarks/crafter_census.py --worlds 100
"""

import argparse

from envgen.worlds.crafter.level_stats import CrafterLevelStats, compute_level_stats

WORDS = ("none", "rare", "original", "common", "very common")
COUNTED = {
    "trees": "tree", "water": "water", "coal": "coal", "iron": "iron", "diamonds": "diamond", "lava": "lava",
    "tunnels": "path", "cows": "cow", "zombies": "zombie", "skeletons": "skeleton",
}  # fmt: skip
BIOMES = ("natural", "grassland", "mountain", "beach")
SHOWN = ("water", "grass", "tree", "sand", "stone", "path", "coal", "iron", "diamond", "lava", "cow", "skeleton")


def count(census: CrafterLevelStats, name: str) -> float:
    return {**census.cells, **census.creatures}[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=100)
    seeds = range(parser.parse_args().worlds)
    print("| setting | counted | " + " | ".join(WORDS) + " |\n|---|---|" + "---:|" * len(WORDS))
    for setting, name in COUNTED.items():
        row = [compute_level_stats({setting: word}, seeds) for word in WORDS]
        cells = [f"{count(c, name):.1f}" + (f" ({c.nearest[name]:.0f})" if c.nearest[name] else "") for c in row]
        print(f"| {setting} | {name} | " + " | ".join(cells) + " |")
    print("\n| biome | " + " | ".join(SHOWN) + " |\n|---|" + "---:|" * len(SHOWN))
    for biome in BIOMES:
        census = compute_level_stats({"biome": biome}, seeds)
        print(f"| {biome} | " + " | ".join(f"{count(census, name):.0f}" for name in SHOWN) + " |")


if __name__ == "__main__":
    main()
