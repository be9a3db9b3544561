"""How many grids of MiniGrid's environments can be solved, according to the solver (worlds/minigrid/solver.py).

python benchmarks/minigrid_solvability.py --grids 200
"""

import argparse
from collections import defaultdict

from envgen.worlds.minigrid.package_levels import PACKAGE_IDS, package_level
from envgen.worlds.minigrid.world import MiniGrid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=int, default=200, help="grids of each environment")
    seeds = range(parser.parse_args().grids)
    fractions: dict[str, list[float]] = defaultdict(list)
    for env_id in PACKAGE_IDS:
        answers = MiniGrid().level_stats(package_level(env_id), seeds).answers
        for name, fraction in answers.items():
            fractions[name].append(fraction)
        if answers["solvable"] < 1:
            print(f"{env_id}: {', '.join(f'{100 * answers[name]:.1f}% {name}' for name in answers)}")
    means = (f"{100 * sum(values) / len(values):.2f}% {name}" for name, values in fractions.items())
    print(f"{len(PACKAGE_IDS)} environments, {len(seeds)} grids each: {', '.join(means)}")


if __name__ == "__main__":
    main()
