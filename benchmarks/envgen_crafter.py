"""EnvGen's question on Crafter, from symbols: does it matter who designs the levels?

    python benchmarks/envgen_crafter.py              # runs, then writes docs/results/envgen-crafter-symbols/

Every designer trains with the paper's plan, the same number of steps, over the same seeds. A run that was interrupted
goes on where it was; one that is finished is not done again. What it came to is copied beside the page, so that
`envgen compare docs/results/envgen-crafter-symbols/runs` prints its tables. `--more` puts further runs beside them,
such as those of a language model, with their ledgers.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import time
from pathlib import Path

from envgen.curriculum.live import Display
from envgen.curriculum.loop import train
from envgen.curriculum.plan import Plan
from envgen.designers.catalogue import build
from envgen.report.curves import draw
from envgen.runs.compare import compare
from envgen.worlds.crafter.world import Crafter

DESIGNERS = ("none", "random", "expert", "alpha", "easy-to-hard", "adversarial")
KEPT = ("run.json", "summary.json", "cycles/*/levels.json", "ledger.jsonl")  # of each run, beside the page


def run(designer: str, seed: int, runs: Path) -> Path:
    world, plan, folder = Crafter(), Plan(), runs / f"{designer}-{seed}"
    began = time.perf_counter()
    with Display([skill.name for skill in world.skills], plan.steps) as display:
        found = train(folder, world, build(designer, folder), plan, seed=seed, show=display, say=print)
    print(f"{designer}, seed {seed}: final score {found.final.score}, {time.perf_counter() - began:.0f} s", flush=True)
    return folder


def keep(folder: Path, results: Path) -> None:
    for pattern in KEPT:
        for file in folder.glob(pattern):
            copy = results / "runs" / folder.name / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text("\n".join(json.dumps(value) for value in values_in(file)) + "\n")


def values_in(file: Path) -> list:
    text = file.read_text()
    return [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]


def page(folders: dict[str, list[Path]], seeds: list[int], meaning: str) -> str:
    first = json.loads((next(iter(folders.values()))[0] / "run.json").read_text())
    libraries = ", ".join(f"{name} {number}" for name, number in first["versions"].items())
    return f"""# Who designs the levels? Crafter from symbols

`python benchmarks/envgen_crafter.py --seeds {" ".join(map(str, seeds))}`, {datetime.date.today()},
{len(seeds)} seeds each, {os.cpu_count()} shared cores ({platform.machine()}), {libraries}.

The paper's plan: 4 cycles of 120,000 steps in 4 levels and 120,000 in the original, then 1,000,000 in the original; for
`none` all 1,960,000 in the original. Steps of throw-away agents come on top where designers rank levels. *In training*:
all training episodes of the last 1,000,000 steps, as published (reward: the last 100,000). *Final*:
{Plan().episodes} fresh episodes of the policy that came out, in the original.

{meaning.strip()}

![curves](curves.png)

{compare([folder for group in folders.values() for folder in group]).markdown()}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(3)))
    parser.add_argument("--designers", nargs="+", default=list(DESIGNERS), choices=DESIGNERS)
    parser.add_argument("--runs", type=Path, default=Path("out/envgen-crafter-symbols"))
    parser.add_argument("--results", type=Path, default=Path("docs/results/envgen-crafter-symbols"))
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="finished runs called NAME-SEED")
    args = parser.parse_args()
    folders: dict[str, list[Path]] = {designer: [] for designer in args.designers}
    for seed in args.seeds:
        for designer in args.designers:
            folders[designer].append(run(designer, seed, args.runs))
    for folder in args.more:
        folders.setdefault(folder.name.rpartition("-")[0], []).append(folder)
    args.results.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(args.results / "runs", ignore_errors=True)
    for group in folders.values():
        for folder in group:
            keep(folder, args.results)
    draw(folders, args.results / "curves.png")
    meaning = args.results / "meaning.md"  # written by a person who looked at the figures
    (args.results / "README.md").write_text(page(folders, args.seeds, meaning.read_text() if meaning.exists() else ""))


if __name__ == "__main__":
    main()
