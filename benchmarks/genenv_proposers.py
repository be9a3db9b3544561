"""GenEnv with small models: does training the environment policy pay off, at equal rollouts and at equal tokens?

    python benchmarks/genenv_proposers.py tools       # runs, then writes docs/results/genenv-tools/
    python benchmarks/genenv_proposers.py alfworld    # the same for multi-turn household tasks

Compares proposers, `genenv` also with alpha 0.3 and 0.7, and `genenv-grpo` also with a repetition penalty and with a
bonus for the entropy of features. All runs of a seed start with the same models and have the same budget of rollouts,
which `dapo` may exceed in its last step. Interrupted runs resume, and finished ones are not repeated. `--only` selects
some of the runs, so that several processes can share the work; `--page` only writes the page, of the variants whose
runs are there.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envgen.coevolution.display import CoevolutionDisplay
from envgen.coevolution.domains.alfworld.domain import AlfworldDomain
from envgen.coevolution.domains.tools.domain import ToolsDomain
from envgen.coevolution.metrics import spec_diversity
from envgen.coevolution.pretraining import pretrain
from envgen.coevolution.settings import (
    AgentSettings,
    AlphaCurriculumSettings,
    CoevolutionPlan,
    ModelSize,
    PretrainSettings,
)
from envgen.coevolution.tasks import Domain
from envgen.coevolution.train import CoevolveRequest, coevolve
from envgen.runs.store import read_progress
from envgen.runs.tables import markdown_table
from run_figures import (
    accuracy_at,
    cost_to_match,
    paired_difference,
    plot_coevolution_runs,
    read_summary,
    tokens,
)
from training_runs import read_discussion, results_table

VARIANTS: dict[str, dict[str, Any]] = {
    "uniform": {"proposer": "uniform"},
    "dapo": {"proposer": "dapo"},
    "greedy": {"proposer": "greedy"},
    "learnability": {"proposer": "learnability"},
    "static": {"proposer": "static"},
    "random": {"proposer": "random"},
    "genenv": {"proposer": "genenv"},
    "genenv-grpo": {"proposer": "genenv-grpo"},
    "genenv alpha 0.3": {"proposer": "genenv", "curriculum": AlphaCurriculumSettings(alpha=0.3)},
    "genenv alpha 0.7": {"proposer": "genenv", "curriculum": AlphaCurriculumSettings(alpha=0.7)},
    "genenv-grpo varied": {"proposer": "genenv-grpo", "curriculum": AlphaCurriculumSettings(repetition_penalty=1.0)},
    "genenv-grpo entropy": {"proposer": "genenv-grpo", "curriculum": AlphaCurriculumSettings(feature_entropy_coef=1.0)},
}
BASELINE = "uniform"
MATCHED = ("uniform", "dapo", "greedy", "learnability", "static", "random")  # their final accuracy is to be matched


@dataclass(frozen=True)
class Study:
    title: str
    domain: Callable[[], Domain]
    plan: CoevolutionPlan
    variants: tuple[str, ...]
    features: tuple[str, ...]  # whose entropies are shown


STUDIES = {
    "tools": Study(
        "Function calling with small models", ToolsDomain, CoevolutionPlan(), tuple(VARIANTS), ("steps", "links")
    ),
    "alfworld": Study(
        "Multi-turn household tasks with small models", AlfworldDomain,
        CoevolutionPlan(rollouts=10_240, eval_every=8),
        ("uniform", "dapo", "greedy", "genenv", "genenv-grpo", "genenv-grpo varied"), ("task", "receptacles"),
    ),
}  # fmt: skip
COPIED_FILES = ("run.json", "summary.json", "progress.jsonl")
ENTROPY_SAMPLES = 2_000
UNITS = {
    "rollouts": "rollouts",
    "tokens": "tokens generated and trained on, by both models,",
    "tasks_proposed": "proposed tasks",
}


def run_variant(study: Study, name: str, seed: int, runs: Path, models: Path) -> None:
    start, domain = time.perf_counter(), study.domain()
    agent, environment = pretrain(domain, models, seed, ModelSize(), PretrainSettings(), report=print)
    agent_settings = AgentSettings(loss_agg=domain.loss_agg)
    request = CoevolveRequest(
        **VARIANTS[name], plan=study.plan, agent="", environment="", agent_settings=agent_settings, seed=seed
    )
    recipe = {"model_size": {}, "pretrain": {}, "seed": seed}
    with CoevolutionDisplay(request.plan.rollouts, request.curriculum.alpha) as display:
        folder = run_folder(runs, name, seed)
        summary = coevolve(folder, domain, request, recipe, (str(agent), str(environment)), on_progress=display)
    print(
        f"{name}, seed {seed}: {summary.initial_accuracy:.1f}% to {summary.final_accuracy:.1f}%, "
        f"{time.perf_counter() - start:.0f} s",
        flush=True,
    )


def run_folder(runs: Path, name: str, seed: int) -> Path:
    return runs / f"{name.replace(' ', '-')}-{seed}"


def paired_table(groups: Mapping[str, Sequence[Path]]) -> str:
    """Each group minus the baseline, paired by seed: final accuracy, mean of all evaluations, and the accuracy after as
    many tokens as the cheapest run used."""
    min_tokens = min(tokens(folder) for folders in groups.values() for folder in folders)
    measures: dict[str, Callable[[Path], float]] = {
        "final": lambda folder: read_summary(folder)["final_accuracy"],
        "mean of all evaluations": lambda folder: read_summary(folder)["mean_accuracy"],
        f"after {min_tokens:,} tokens": lambda folder: accuracy_at(folder, min_tokens),
    }
    rows = [
        [name, *(str(paired_difference(folders, groups[BASELINE], measure)) for measure in measures.values())]
        for name, folders in groups.items()
        if name != BASELINE
    ]
    return markdown_table([f"points above {BASELINE}", *measures], rows)


def task_table(groups: Mapping[str, Sequence[Path]], features: Sequence[str]) -> str:
    """The tasks that each group proposed in the last quarter of its steps."""
    measures: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
        "p of proposed tasks": lambda line: line["proposed_success_rate"],
        "difficulty": lambda line: line["difficulty"],
        **{
            f"entropy of {name}": lambda line, name=name: line["diversity"]["entropy"].get(name, 0.0)
            for name in features
        },
        "groups with a gradient": lambda line: 1 - line["zero_variance_fraction"],
        "specs trained on, with replay": lambda line: line["environment"].get("num_specs", 0.0),
    }
    rows = []
    for name, folders in groups.items():
        steps = [[line for line in read_progress(folder) if line["step"]] for folder in folders]
        last_quarter = [line for lines in steps for line in lines[-(len(lines) // 4) :]]
        rows.append([name, *(mean_cell(map(measure, last_quarter)) for measure in measures.values())])
    return markdown_table(["", *measures], rows)


def mean_cell(values: Iterable[float | None]) -> str:
    """The mean over the steps that have a value: without an accepted proposal, some have none."""
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.2f}" if known else "-"


def efficiency_tables(groups: Mapping[str, Sequence[Path]]) -> str:
    """How much each group needed to match the final accuracy of each baseline: the paper's data efficiency."""
    tables = []
    for unit, description in UNITS.items():
        rows = []
        for name in (name for name in MATCHED if name in groups):
            costs = [cost_to_match(folders, groups[name], unit) for folders in groups.values()]
            rows.append([name, *(f"{np.mean(values):,.0f} ({len(values)})" if values else "-" for values in costs)])
        tables.append(markdown_table([f"{description} to match", *groups], rows))
    return "\n\n".join(tables)


def results_page(domain: str, groups: Mapping[str, Sequence[Path]], date: str, discussion: str) -> str:
    study, seeds = STUDIES[domain], len(groups[BASELINE])
    run = json.loads((groups[BASELINE][0] / "run.json").read_text())
    libraries = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    plan, is_whole = study.plan, len(groups) == len(study.variants)
    part = "" if is_whole else f" ({len(groups)} of its {len(study.variants)} variants)"
    return f"""# Does training the environment policy help? {study.title}

`python benchmarks/genenv_proposers.py {domain}`{part}, {date},
{seeds} seeds each, {os.cpu_count()} shared cores ({platform.machine()}), {libraries}.

Both models are created from scratch and are the same for all runs of a seed. Each run spends {plan.rollouts:,}
rollouts of the agent (`dapo` up to one step more), with {plan.tasks_per_step} tasks per step:
{plan.fresh_fraction:.1%} proposed, {plan.replay_fraction:.1%} replayed, and the rest from
{plan.num_base_tasks} base tasks. Accuracy is that of greedy replies on {plan.num_eval_tasks} held-out tasks,
uniform over all features.

{discussion}

![curves](curves.png)

{results_table(domain, groups)}

## Paired by seed

The runs of a seed start with the same two models and are evaluated on the same tasks. Differences from the uniform run
of the same seed therefore vary less than the accuracies themselves:

{paired_table(groups)}

## Proposed tasks

Means over the last quarter of all steps. A group of replies has a gradient if their scores differ. Entropies are in
bits, over the specs of one step; over {ENTROPY_SAMPLES:,} uniform specs, they are {specs_entropy(study)}.

{task_table(groups, study.features)}

## Data efficiency

How many rollouts, tokens and proposed tasks a variant needed until an evaluation first reached the final accuracy of a
baseline with the same seed: the mean over the seeds that reached it, with their number in parentheses. Means over
different numbers of seeds cannot be compared, because seeds that never reach it are left out. The paper counts only the
base samples of GenEnv; here all rollouts, proposed tasks and tokens count, except those of prompts.

{efficiency_tables(groups)}
"""


def specs_entropy(study: Study) -> str:
    """The entropies of the features of uniform specs."""
    domain, rng = study.domain(), np.random.default_rng(0)
    features = [domain.features(domain.sample(rng)) for _ in range(ENTROPY_SAMPLES)]
    entropy = spec_diversity([""] * len(features), features)["entropy"]
    return " and ".join(f"{entropy[name]:.1f} for `{name}`" for name in study.features)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domain", choices=STUDIES)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--only", nargs="+", choices=VARIANTS, help="train only these variants, and write no page")
    parser.add_argument("--page", action="store_true", help="write the page of the variants whose runs are there")
    parser.add_argument("--runs", type=Path, help="default: out/genenv-DOMAIN")
    parser.add_argument("--models", type=Path, default=Path("out/models"))
    parser.add_argument("--results", type=Path, help="default: docs/results/genenv-DOMAIN")
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    study = STUDIES[args.domain]
    results = args.results or Path(f"docs/results/genenv-{args.domain}")
    default_runs = Path(f"out/genenv-{args.domain}")
    runs = args.runs or (results / "runs" if args.page and not default_runs.exists() else default_runs)
    if not args.page:
        for seed in args.seeds:
            for name in args.only or study.variants:
                run_variant(study, name, seed, runs, args.models)
    if args.only:
        return
    groups = {name: [run_folder(runs, name, seed) for seed in args.seeds] for name in study.variants}
    groups = {
        name: folders
        for name, folders in groups.items()
        if all((folder / file).exists() for folder in folders for file in COPIED_FILES)
    }
    if BASELINE not in groups:
        raise SystemExit(f"{runs} has no finished runs of {BASELINE} with the seeds {args.seeds}")
    for folder in (folder for folders in groups.values() for folder in folders):
        copy = results / "runs" / folder.name
        copy.mkdir(parents=True, exist_ok=True)
        for name in COPIED_FILES:
            if (folder / name).resolve() != (copy / name).resolve():
                shutil.copy(folder / name, copy / name)
    plot_coevolution_runs(groups, results / "curves.png")
    page, date = results / "README.md", str(datetime.date.today())
    if args.page and page.exists():
        date = re.findall(r"(\d{4}-\d{2}-\d{2}),$", page.read_text(), re.MULTILINE)[0]
    page.write_text(results_page(args.domain, groups, date, read_discussion(results)))


if __name__ == "__main__":
    main()
