"""EnvGen's question on Crafter, with symbols and no language model: does it matter who designs the levels?

    python benchmarks/envgen_crafter.py              # runs, then writes docs/results/envgen-crafter-symbols/

Every designer trains with the paper's plan, the same number of steps, over the same seeds. A run that was interrupted
goes on where it was; one that is finished is not done again.
"""

import argparse
import time
from pathlib import Path

from envgen.curriculum.live import Display
from envgen.curriculum.loop import train
from envgen.curriculum.plan import Plan
from envgen.designers.catalogue import build
from envgen.worlds.crafter.world import Crafter

DESIGNERS = ("none", "random", "expert", "alpha", "easy-to-hard", "adversarial")


def run(designer: str, seed: int, runs: Path) -> Path:
    world, plan, folder = Crafter(), Plan(), runs / f"{designer}-{seed}"
    began = time.perf_counter()
    with Display([skill.name for skill in world.skills], plan.steps) as display:
        found = train(folder, world, build(designer, folder), plan, seed=seed, show=display, say=print)
    print(f"{designer}, seed {seed}: final score {found.final.score}, {time.perf_counter() - began:.0f} s", flush=True)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(3)))
    parser.add_argument("--designers", nargs="+", default=list(DESIGNERS), choices=DESIGNERS)
    parser.add_argument("--runs", type=Path, default=Path("out/envgen-crafter-symbols"))
    args = parser.parse_args()
    for seed in args.seeds:
        for designer in args.designers:
            run(designer, seed, args.runs)


if __name__ == "__main__":
    main()
