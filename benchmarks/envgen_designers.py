"""EnvGen's question, from symbols: does it matter who designs the levels?

    python benchmarks/envgen_designers.py crafter     # runs, then writes docs/results/envgen-crafter-symbols/
    python benchmarks/envgen_designers.py heist

Every designer trains with the same plan, for the same number of steps, over the same seeds. A run that was interrupted
goes on where it was; one that is finished is not done again. What it came to is copied beside the page, so that
`envgen compare docs/results/envgen-<world>-symbols/runs` prints its tables. `--more` puts further runs beside them,
such as those of a language model, with their ledgers.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from envgen.curriculum.display import TrainDisplay
from envgen.curriculum.evaluate import evaluate
from envgen.curriculum.loop import train
from envgen.curriculum.plan import EVALUATION_SEED, TrainingPlan
from envgen.designers.registry import build_designer
from envgen.report.curves import plot_curves
from envgen.runs.compare import compare
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.world import World


@dataclass(frozen=True)
class Study:
    world: World
    plan: TrainingPlan
    designers: tuple[str, ...]
    told: str  # of the plan, on the page


CRAFTER = """\
The paper's plan: 4 cycles of 120,000 steps in 4 levels and 120,000 in the original, then 1,000,000 in the original; for
`none` all 1,960,000 in the original. Steps of throw-away agents come on top where designers rank levels. *In training*:
all training episodes of the last 1,000,000 steps, as published (reward: the last 100,000). *Final*:
256 fresh episodes of the policy that came out, in the original."""
HEIST = """\
Hard mode. 4 cycles of 250,000 steps in 4 levels and 250,000 in the original, then 2,000,000 in the original; for `none`
all 4,000,000 in the original. *In training*: all training episodes of the last 2,000,000 steps. *Final*: 1,024 fresh
episodes of the policy that came out, in the original. A skill's rate counts the mazes that have its key or door; the
score is the geometric mean of all skills' rates, as Crafter has it. What EnvGen reports for Heist is the rate of
`steal_gem`."""
STUDIES = {
    "crafter": Study(
        Crafter(), TrainingPlan(), ("none", "random", "expert", "alpha", "easy-to-hard", "adversarial"), CRAFTER
    ),
    "heist": Study(
        Heist(), TrainingPlan(cycle_steps=500_000, final_steps=2_000_000, episodes=1024),
        ("none", "random", "expert"), HEIST,
    ),
}  # fmt: skip
YARDSTICK_EPISODES = 4096
KEPT = ("run.json", "summary.json", "cycles/*/levels.json", "ledger.jsonl")  # of each run, beside the page


class Chance:
    """A player that presses any key."""

    def __init__(self, world: World):
        self.actions = len(world.actions)

    def act(self, observations: np.ndarray, random: np.random.Generator | None = None) -> np.ndarray:
        assert random is not None
        return random.integers(self.actions, size=len(observations))


def run(study: Study, designer: str, seed: int, runs: Path) -> Path:
    world, plan, folder = study.world, study.plan, runs / f"{designer}-{seed}"
    began = time.perf_counter()
    with TrainDisplay([skill.name for skill in world.skills], plan.total_steps) as display:
        found = train(
            folder, world, build_designer(designer, folder), plan, seed=seed, on_progress=display, on_message=print
        )
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


def page(study: Study, folders: dict[str, list[Path]], seeds: list[int], meaning: str) -> str:
    first = json.loads((next(iter(folders.values()))[0] / "run.json").read_text())
    libraries = ", ".join(f"{name} {number}" for name, number in first["versions"].items())
    name = study.world.name
    chance = evaluate(Chance(study.world), study.world, None, YARDSTICK_EPISODES, EVALUATION_SEED)
    return f"""# Who designs the levels? {name.capitalize()} from symbols

`python benchmarks/envgen_designers.py {name} --seeds {" ".join(map(str, seeds))}`, {datetime.date.today()},
{len(seeds)} seeds each, {os.cpu_count()} shared cores ({platform.machine()}), {libraries}.

{study.told}

{meaning.strip()}

![curves](curves.png)

{compare([folder for group in folders.values() for folder in group]).markdown()}

## Players that act at random

```text
{chance}
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", choices=STUDIES)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(3)))
    parser.add_argument("--designers", nargs="+", help="all of the study if left out")
    parser.add_argument("--runs", type=Path, help="out/envgen-<world>-symbols")
    parser.add_argument("--results", type=Path, help="docs/results/envgen-<world>-symbols")
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="finished runs called NAME-SEED")
    args = parser.parse_args()
    study, name = STUDIES[args.world], f"envgen-{args.world}-symbols"
    runs, results = args.runs or Path("out") / name, args.results or Path("docs/results") / name
    designers = args.designers or study.designers
    folders: dict[str, list[Path]] = {designer: [] for designer in designers}
    for seed in args.seeds:
        for designer in designers:
            folders[designer].append(run(study, designer, seed, runs))
    for folder in args.more:
        folders.setdefault(folder.name.rpartition("-")[0], []).append(folder)
    results.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(results / "runs", ignore_errors=True)
    for group in folders.values():
        for folder in group:
            keep(folder, results)
    plot_curves(folders, results / "curves.png")
    meaning = results / "meaning.md"  # written by a person who looked at the figures
    told = meaning.read_text() if meaning.exists() else ""
    (results / "README.md").write_text(page(study, folders, args.seeds, told))


if __name__ == "__main__":
    main()
