"""Compare designers: does it matter who designs the levels?

    python benchmarks/envgen_designers.py crafter     # runs, then writes docs/results/envgen-crafter-symbols/
    python benchmarks/envgen_designers.py heist
    python benchmarks/envgen_designers.py crafter-long     # 20 million steps for each run

All designers are compared with the same plan, number of steps and seeds; `practice` is `none` with a fifth of the
environments practicing. Interrupted runs resume, and finished runs are not repeated. The results of each run are copied
to the results folder, so that `envgen compare docs/results/envgen-<study>-symbols/runs` prints the tables. `--more`
adds further runs, such as those of a language model, with their ledgers.
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
from envgen.curriculum.plan import EVALUATION_SEED, TrainingPlan, learner_preset, plan_for
from envgen.designers.registry import build_designer
from envgen.report.figures import plot_training_runs
from envgen.runs.compare import compare
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.world import World


@dataclass(frozen=True)
class Study:
    world: World
    plan: TrainingPlan
    designers: tuple[str, ...]
    description: str  # of the plan, for the results page
    learner_preset: str = "fast"  # without its practice


CRAFTER = """\
The paper's plan: 4 cycles of 120,000 steps in 4 levels and 120,000 in the original, then 1,000,000 in the original; for
`none` all 1,960,000 in the original. Designers that rank levels also train scoring agents. *In training*: all
training episodes of the last 1,000,000 steps, the published measure (reward: the last 100,000). *Final*: 256 fresh
episodes of the final policy in the original."""
LONG = """\
20 cycles of 1,000,000 steps. A fifth of the environments plays the original and the others designed levels, in the same
batches and until the end; for `none` and `practice` all play the original. The learner has the settings of the preset
`far`. *In training*: the episodes in the original of the last cycle. *Final*: 1,024 fresh episodes of the final policy
in the original."""
HEIST = """\
Hard mode. 4 cycles of 250,000 steps in 4 levels and 250,000 in the original, then 2,000,000 in the original; for `none`
all 4,000,000 in the original. *In training*: all training episodes of the last 2,000,000 steps. *Final*: 1,024 fresh
episodes of the final policy in the original. The rate of a skill counts the mazes that have its key or door; the score
is the geometric mean of the rates, as in Crafter. EnvGen reports the rate of `steal_gem` for Heist."""
STUDIES = {
    "crafter": Study(
        Crafter(), TrainingPlan(),
        ("none", "practice", "dr", "plr", "accel", "sfl", "random", "expert", "alpha", "easy-to-hard", "adversarial"),
        CRAFTER,
    ),
    "crafter-long": Study(
        Crafter(), plan_for("long"), ("none", "practice", "dr", "plr", "accel", "sfl", "expert"), LONG, "far"
    ),
    "heist": Study(
        Heist(), TrainingPlan(cycle_steps=500_000, final_steps=2_000_000, episodes=1024),
        ("none", "practice", "dr", "plr", "accel", "sfl", "random", "expert"), HEIST,
    ),
}  # fmt: skip
RANDOM_EPISODES = 4096
PRACTICE_SHARE = 0.2  # of the row `practice`
RESULT_FILES = (  # copied from each run
    "run.json", "summary.json", "cycles/*/levels.json", "cycles/*/archive.json", "ledger.jsonl",
)  # fmt: skip


class RandomPolicy:
    """Uniformly random actions."""

    def __init__(self, world: World):
        self.num_actions = len(world.actions)

    def act(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        assert rng is not None
        return rng.integers(self.num_actions, size=len(obs))


def run_designer(study: Study, designer: str, seed: int, runs: Path) -> Path:
    world, plan, folder = study.world, study.plan, runs / f"{designer}-{seed}"
    settings, _ = learner_preset(study.learner_preset, world)
    is_practice = designer == "practice"
    built = build_designer("none" if is_practice else designer, folder)
    start = time.perf_counter()
    with TrainDisplay([skill.name for skill in world.skills], plan.total_steps) as display:
        summary = train(
            folder, world, built, plan, seed=seed, learner_settings=settings, on_progress=display, on_message=print,
            practice={"share": PRACTICE_SHARE} if is_practice else None,
        )  # fmt: skip
    print(
        f"{designer}, seed {seed}: final score {summary.final.score}, {time.perf_counter() - start:.0f} s", flush=True
    )
    return folder


def copy_results(folder: Path, results: Path) -> None:
    for pattern in RESULT_FILES:
        for file in folder.glob(pattern):
            copy = results / "runs" / folder.name / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text("\n".join(json.dumps(value) for value in read_values(file)) + "\n")


def read_values(file: Path) -> list:
    text = file.read_text()
    return [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]


def results_page(name: str, study: Study, folders: dict[str, list[Path]], seeds: list[int], discussion: str) -> str:
    first = json.loads((next(iter(folders.values()))[0] / "run.json").read_text())
    libraries = ", ".join(f"{name} {number}" for name, number in first["versions"].items())
    world = study.world.name
    random_evaluation = evaluate(RandomPolicy(study.world), study.world, None, RANDOM_EPISODES, EVALUATION_SEED)
    return f"""# Who designs the levels? {world.capitalize()} from symbols

`python benchmarks/envgen_designers.py {name} --seeds {" ".join(map(str, seeds))}`, {datetime.date.today()},
{len(seeds)} seeds each, {os.cpu_count()} shared cores ({platform.machine()}), {libraries}.

{study.description}

{discussion.strip()}

![curves](curves.png)

{compare([folder for group in folders.values() for folder in group]).markdown()}

## Random actions

```text
{random_evaluation}
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(3)))
    parser.add_argument("--designers", nargs="+", help="default: all designers of the study")
    parser.add_argument("--runs", type=Path, help="default: out/envgen-<study>-symbols")
    parser.add_argument("--results", type=Path, help="default: docs/results/envgen-<study>-symbols")
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="finished runs to add, in folders NAME-SEED")
    args = parser.parse_args()
    study, name = STUDIES[args.study], f"envgen-{args.study}-symbols"
    runs, results = args.runs or Path("out") / name, args.results or Path("docs/results") / name
    designers = args.designers or study.designers
    folders: dict[str, list[Path]] = {designer: [] for designer in designers}
    for seed in args.seeds:
        for designer in designers:
            folders[designer].append(run_designer(study, designer, seed, runs))
    for folder in args.more:
        folders.setdefault(folder.name.rpartition("-")[0], []).append(folder)
    results.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(results / "runs", ignore_errors=True)
    for group in folders.values():
        for folder in group:
            copy_results(folder, results)
    plot_training_runs(folders, results / "curves.png")
    discussion_file = results / "discussion.md"  # written by hand
    discussion = discussion_file.read_text() if discussion_file.exists() else ""
    (results / "README.md").write_text(results_page(args.study, study, folders, args.seeds, discussion))


if __name__ == "__main__":
    main()
