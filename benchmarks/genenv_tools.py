"""GenEnv's question on function calling: does it pay to train the environment, at equal rollouts and equal tokens?

    python benchmarks/genenv_tools.py                 # runs, then writes docs/results/genenv-tools/

Every proposer, and GenEnv at three aims, begins with the same models of a seed and spends the same rollouts. A run that
was interrupted goes on where it was; one that is finished is not done again. `--only` does some of the runs, so that
several processes can share them.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envgen.coevolve.display import CoevolveDisplay
from envgen.coevolve.domains.tools.domain import ToolsDomain
from envgen.coevolve.pretraining import Warmup, warm
from envgen.coevolve.settings import Curriculum
from envgen.coevolve.tiny_models import Size
from envgen.coevolve.train import CoevolveRequest, coevolve
from envgen.report.coevolution import accuracy_at, paired_difference, plot_runs, read_summary, steps_to_match, tokens
from envgen.runs.compare import compare
from envgen.runs.store import read_progress
from envgen.runs.tables import markdown_table

VARIANTS: dict[str, dict[str, Any]] = {
    "uniform": {"proposer": "uniform"},
    "dapo": {"proposer": "dapo"},
    "greedy": {"proposer": "greedy"},
    "static": {"proposer": "static"},
    "random": {"proposer": "random"},
    "genenv": {"proposer": "genenv"},
    "genenv-grpo": {"proposer": "genenv-grpo"},
    "genenv alpha 0.3": {"proposer": "genenv", "curriculum": Curriculum(alpha=0.3)},
    "genenv alpha 0.7": {"proposer": "genenv", "curriculum": Curriculum(alpha=0.7)},
    "genenv-grpo varied": {"proposer": "genenv-grpo", "curriculum": Curriculum(repetition=1.0)},
}
PLAIN = "uniform"
BASELINES = ("uniform", "dapo", "greedy", "static", "random")
KEPT = ("run.json", "summary.json")
UNITS = {"rollouts": "rollouts", "tokens": "tokens of both", "proposed": "tasks generated"}


def run(name: str, seed: int, runs: Path, models: Path) -> Path:
    folder, began = runs / f"{name.replace(' ', '-')}-{seed}", time.perf_counter()
    lies = warm(ToolsDomain(), models, seed, Size(), Warmup(), say=print)
    asked = CoevolveRequest(**VARIANTS[name], agent="", environment="", seed=seed)
    made = {"size": {}, "warmup": {}, "seed": seed}
    with CoevolveDisplay(asked.plan.rollouts, asked.curriculum.alpha) as display:
        found = coevolve(folder, ToolsDomain(), asked, made, (str(lies[0]), str(lies[1])), show=display)
    print(
        f"{name}, seed {seed}: {found.first:.1f}% to {found.final:.1f}%, {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return folder


def paired(groups: Mapping[str, Sequence[Path]]) -> str:
    """Each group against the baseline, seed by seed: at the end, over the run, and where the leanest run had ended."""
    plain = groups[PLAIN]
    least = min(tokens(folder) for folders in groups.values() for folder in folders)
    measures: dict[str, Callable[[Path], float]] = {
        "at the end": lambda folder: read_summary(folder)["final"],
        "mean of all tests": lambda folder: read_summary(folder)["mean"],
        f"after {least:,} tokens": lambda folder: accuracy_at(folder, least),
    }
    others = {name: folders for name, folders in groups.items() if name != PLAIN}
    rows = [
        [name, *(str(paired_difference(folders, plain, of)) for of in measures.values())]
        for name, folders in others.items()
    ]
    return markdown_table([f"points more than {PLAIN}", *measures], rows)


def late(groups: Mapping[str, Sequence[Path]]) -> str:
    """What tasks each group asked in the last quarter of its steps."""
    measures: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "p of proposed tasks": lambda line: line["p"],
        "their difficulty": lambda line: line["difficulty"],
        "bits of `steps`": lambda line: line["diversity"]["entropy"]["steps"],
        "bits of `links`": lambda line: line["diversity"]["entropy"]["links"],
        "groups not flat": lambda line: 1 - line["flat"],
        "specs learned from": lambda line: line["environment"].get("rows", 0.0),
    }
    rows = []
    for name, folders in groups.items():
        steps = [[line for line in read_progress(folder) if line["step"]] for folder in folders]
        last = [line for lines in steps for line in lines[-(len(lines) // 4) :]]
        rows.append([name, *(f"{np.mean([*map(of, last)]):.2f}" for of in measures.values())])
    return markdown_table(["", *measures], rows)


def reached(groups: Mapping[str, Sequence[Path]]) -> str:
    """How much each group needed to come where each baseline ended: the paper's data efficiency."""
    tables = []
    for unit, said in UNITS.items():
        rows = []
        for name in BASELINES:
            found = [steps_to_match(folders, groups[name], unit) for folders in groups.values()]
            rows.append([name, *(f"{np.mean(at):,.0f} ({len(at)})" if at else "-" for at in found)])
        tables.append(markdown_table([f"{said} to come where ... ended", *groups], rows))
    return "\n\n".join(tables)


def page(groups: Mapping[str, Sequence[Path]], seeds: Sequence[int], meaning: str) -> str:
    about = json.loads((next(iter(groups.values()))[0] / "run.json").read_text())
    libraries = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    plan = about["request"]["plan"]
    return f"""# Does it pay to train the environment? Function calling with small models

`python benchmarks/genenv_tools.py --seeds {" ".join(map(str, seeds))}`, {datetime.date.today()},
{len(seeds)} seeds each, {os.cpu_count()} shared cores ({platform.machine()}), {libraries}.

Both models are made on the spot, the same for all runs of a seed. {plan["rollouts"]:,} rollouts of the agent each,
{plan["tasks"]} tasks a step: {plan["fresh"]:.1%} proposed, {plan["replay"]:.1%} earlier ones, the rest base tasks,
of which there are {plan["base"]}. Accuracy is that of the likeliest reply on {plan["test"]} held-out tasks, uniform
over all fields.

{meaning.strip()}

![curves](curves.png)

{compare([folder for folders in groups.values() for folder in folders]).markdown()}

## Seed by seed

The runs of a seed begin with the same two models and are tested on the same tasks. What they came to beyond the uniform
run of their seed is therefore known better than what they came to:

{paired(groups)}

## What was asked

Means over the last quarter of all steps. A group of replies is flat if all scored the same, and then teaches nothing;
fields spread evenly have {np.log2(5):.1f} bits of `steps` and about 1.5 of `links`.

{late(groups)}

## Data efficiency, counted honestly

How much it took until the first test that was as good as the last one of the baseline's run of the same seed: the mean
over the seeds that came there, and how many these were. The paper counts only the base samples of GenEnv; here
everything that was generated counts.

{reached(groups)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(3)))
    parser.add_argument("--only", nargs="+", choices=VARIANTS, help="do these runs, and write no page")
    parser.add_argument("--runs", type=Path, default=Path("out/genenv-tools"))
    parser.add_argument("--models", type=Path, default=Path("out/models"))
    parser.add_argument("--results", type=Path, default=Path("docs/results/genenv-tools"))
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    groups: dict[str, list[Path]] = {name: [] for name in args.only or VARIANTS}
    for seed in args.seeds:
        for name in groups:
            groups[name].append(run(name, seed, args.runs, args.models))
    if args.only:
        return
    args.results.mkdir(parents=True, exist_ok=True)
    for folder in (folder for folders in groups.values() for folder in folders):
        copy = args.results / "runs" / folder.name
        copy.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            shutil.copy(folder / name, copy / name)
    plot_runs(groups, args.results / "curves.png")
    meaning = args.results / "meaning.md"  # written by a person who looked at the figures
    (args.results / "README.md").write_text(page(groups, args.seeds, meaning.read_text() if meaning.exists() else ""))


if __name__ == "__main__":
    main()
