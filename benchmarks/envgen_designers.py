"""Compare designers: does it matter who designs the levels?

    python benchmarks/envgen_designers.py crafter     # runs, then writes docs/results/envgen-crafter-symbols/
    python benchmarks/envgen_designers.py crafter-tiles     # from images, with the encoder tiles
    python benchmarks/envgen_designers.py crafter-tiles-distillation     # with Achievement Distillation
    python benchmarks/envgen_designers.py heist
    python benchmarks/envgen_designers.py heist-long     # 10 million steps for each run
    python benchmarks/envgen_designers.py minigrid
    python benchmarks/envgen_designers.py walker
    python benchmarks/envgen_designers.py crafter-long     # 20 million steps for each run
    python benchmarks/envgen_designers.py crafter-forgetting     # what keeps the skill wake_up in random levels

All designers are compared with the same plan, number of steps and seeds; `practice` is `none` with practice: that of
the learner preset, or a share of a fifth if it has none. The results of each run are copied to the results folder, so
that `envgen compare docs/results/envgen-<study>-<observation>/runs` prints the tables, with settings as the labels of
variants. Interrupted runs resume, and runs in the results folder are not repeated: a study can be extended by further
seeds, and the page is written from all of its runs. `--more` adds runs such as those of a language model, with their
ledgers.
"""

import argparse
import datetime
import json
import math
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from envgen.curriculum.display import TrainDisplay
from envgen.curriculum.evaluate import evaluate
from envgen.curriculum.loop import train
from envgen.curriculum.plan import EVALUATION_SEED, TrainingPlan, learner_preset, plan_for
from envgen.designers.registry import build_designer
from envgen.runs.kinds import get_path
from envgen.runs.statistics import Aggregate
from envgen.runs.store import read_json
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.minigrid.world import MiniGrid
from envgen.worlds.walker.world import Walker
from envgen.worlds.world import World, sample_actions
from run_figures import paired_difference, plot_training_runs, read_summary
from training_runs import read_discussion, results_table


@dataclass(frozen=True)
class Study:
    world: World
    plan: TrainingPlan
    designers: tuple[str, ...]  # or variants of them
    description: str  # of the plan, for the results page
    title: str = "Does the designer matter?"
    observation: str = ""  # default: that of the world
    learner: str = "ppo"
    learner_preset: str = "fast"  # without its practice
    learner_settings: dict[str, Any] = field(default_factory=dict)
    skills: tuple[str, ...] = ()  # whose success rates after each cycle are a table of the page
    shows_levels: bool = False  # whether those in the levels of a language model are a table, too

    @property
    def observed(self) -> str:
        return self.observation or self.world.default_observation


@dataclass(frozen=True)
class Variant:
    """A designer with other settings around it."""

    designer: str
    settings: dict[str, Any] = field(default_factory=dict)  # of the designer
    plan: dict[str, Any] = field(default_factory=dict)
    learner: dict[str, Any] = field(default_factory=dict)
    practice: dict[str, Any] | None = None


CRAFTER = """\
The plan of the EnvGen paper: 4 cycles of 120,000 steps in 4 levels and 120,000 in the original, then 1,000,000 in the
original; for `none` all 1,960,000 in the original. In the cycles of the designers that choose the level of every
episode, a fifth of the environments plays the original. The steps that a designer takes to rank levels (`ranking`) are
additional. *In training*: all training episodes of the last 1,000,000 steps, the published measure (reward: the last
100,000). *Final*: 1,024 fresh episodes of the final policy in the original."""
CRAFTER_TILES = f"""\
{CRAFTER} The agent sees images only, with the encoder `tiles`."""
LONG = """\
20 cycles of 1,000,000 steps. A fifth of the environments plays the original and the others designed levels, in the same
batches and until the end; for `none` and `practice` all play the original. The learner has the settings of the preset
`far`, whose practice (in 40% of the environments that play the original) only `practice`, `expert-practice` and
`llm-practice` have. In the latter two, half of the environments play the original. `expert-practice` also goes on to
the next stage of a chain at 30% instead of 50%, and truncates episodes early. `llm-practice` is a language model that
answered the requests of `--llm manual` and saw nothing else. *In training*: the episodes in the original of the last
cycle. *Final*: 1,024 fresh episodes of the final policy in the original."""
HEIST = """\
Hard mode. 4 cycles of 250,000 steps in 4 levels and 250,000 in the original, then 2,000,000 in the original; for `none`
all 4,000,000 in the original. *In training*: all training episodes of the last 2,000,000 steps. *Final*: 1,024 fresh
episodes of the final policy in the original. The rate of a skill counts the mazes that have its key or door; the score
is the geometric mean of the rates, as in Crafter. EnvGen reports the rate of `steal_gem` for Heist."""
HEIST_LONG = """\
Hard mode. 10 cycles of 1,000,000 steps. A fifth of the environments plays the original and the others designed levels,
in the same batches and until the end; for `none` and `practice` all play the original. *In training*: the episodes in
the original of the last cycle. *Final*: 1,024 fresh episodes of the final policy in the original. The rate of a skill
counts the mazes that have its key or door; the score is the geometric mean of the rates, as in Crafter. EnvGen reports
the rate of `steal_gem` for Heist."""
MINIGRID = """\
4 cycles of 240,000 steps, then 1,000,000 in the original, which draws one of 23 tasks for each episode; for `none` all
1,960,000 in the original. In the cycles, `expert` trains for one half of the steps in 4 levels and for the other in the
original; for the designers that choose the level of every episode, a fifth of the environments plays the original.
`plr-maps` and `accel-maps` replay levels with the maps of their first episodes. *In training*: all training episodes of
the last 1,000,000 steps. *Final*: 1,024 fresh episodes of the final policy in the original."""
WALKER = """\
10 cycles of 500,000 steps with levels until the end. A fifth of the environments plays the original, the slightly
rough terrain of `BipedalWalker-v3` without obstacles, and the others play levels, in the same batches; for `none` all
play the original. *In training*: the training episodes in the original in the last cycle. *Final*: 128 fresh
episodes of the final policy in the original."""
FORGETTING = """\
4 cycles of 120,000 steps in 4 levels and 120,000 in the original, one after the other; with `random-mixed`, the
levels and the original are in the same batches; with `random-unimix`, 1% of a uniform distribution is mixed into the
policy. *In training*: the episodes of the last cycle in the original. *Final*: 1,024 fresh episodes of the final policy
in the original."""
STUDIES = {
    "crafter": Study(
        Crafter(), TrainingPlan(episodes=1024),
        ("none", "practice", "dr", "plr", "accel", "sfl", "random", "expert", "alpha", "easy-to-hard", "adversarial"),
        CRAFTER, skills=("wake_up",),
    ),
    "crafter-tiles": Study(
        Crafter(), TrainingPlan(episodes=1024),
        ("none", "practice", "dr", "plr", "accel", "sfl", "expert"), CRAFTER_TILES,
        observation="pixels", learner_settings={"network": {"encoder": "tiles"}}, skills=("wake_up",),
    ),
    "crafter-tiles-distillation": Study(
        Crafter(), TrainingPlan(episodes=1024), ("none", "expert"), CRAFTER_TILES,
        title="Does the designer matter to Achievement Distillation?", observation="pixels", learner="distillation",
        learner_settings={"network": {"encoder": "tiles"}}, skills=("wake_up",),
    ),
    "crafter-long": Study(
        Crafter(), plan_for("long"), ("none", "practice", "dr", "plr", "accel", "sfl", "expert", "expert-practice"),
        LONG, learner_preset="far",
        skills=("make_iron_pickaxe", "make_iron_sword", "collect_diamond", "eat_plant"), shows_levels=True,
    ),
    "crafter-forgetting": Study(
        Crafter(), TrainingPlan(final_steps=0, episodes=1024), ("none", "random", "random-mixed", "random-unimix"),
        FORGETTING, title="Do random levels make agents unlearn `wake_up`?", skills=("wake_up",),
    ),
    "minigrid": Study(
        MiniGrid(), TrainingPlan(episodes=1024),
        ("none", "dr", "plr", "accel", "plr-maps", "accel-maps", "sfl", "expert"), MINIGRID,
    ),
    "walker": Study(
        Walker(), plan_for("long", Walker(), cycles=10, cycle_steps=500_000, ratio=4.0, feedback_episodes=2),
        ("none", "dr", "plr", "accel", "sfl", "expert"), WALKER,
    ),
    "heist": Study(
        Heist(), TrainingPlan(cycle_steps=500_000, final_steps=2_000_000, episodes=1024),
        ("none", "practice", "dr", "plr", "accel", "sfl", "random", "expert"), HEIST,
    ),
    "heist-long": Study(
        Heist(), plan_for("long", Heist(), cycles=10), ("none", "practice", "dr", "plr", "sfl", "expert"), HEIST_LONG,
        skills=("steal_gem",),
    ),
}  # fmt: skip
VARIANTS = {
    "practice": Variant("none", practice={"share": 0.2}),
    "expert-practice": Variant(
        "expert", settings={"advance_at": 30.0, "cutoff": 2.0}, plan={"ratio": 1.0}, practice={"share": 0.2}
    ),
    "plr-maps": Variant("plr", settings={"replay_maps": True}),
    "accel-maps": Variant("accel", settings={"replay_maps": True}),
    "random-mixed": Variant("random", plan={"mixing": "mixed"}),
    "random-unimix": Variant("random", learner={"network": {"unimix": 0.01}}),
}
RESULT_FILES = (  # copied from each run
    "run.json", "cycles/*/levels.json", "cycles/*/archive.json", "cycles/*/evaluation.json", "ledger.jsonl",
    "progress.jsonl", "summary.json",
)  # fmt: skip
PROGRESS_KEYS = ("phase", "steps", "episodes", "return_sum", "length_sum", "succeeded", "possible")  # for curves
MIN_STAGE_EPISODES = 20  # of a stage in a cycle, for its success rate to be shown


class RandomPolicy:
    """Uniformly random actions."""

    def __init__(self, world: World, observation: str):
        with closing(world.make([world.original], 1, observation=observation)) as envs:
            self.space = envs.single_action_space

    def act(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        assert rng is not None
        return sample_actions(self.space, len(obs), rng)


def run_designer(study: Study, name: str, seed: int, runs: Path) -> Path:
    """Train with a designer or a variant, unless this is done already, and return the run directory."""
    world, folder = study.world, runs / f"{name}-{seed}"
    variant = VARIANTS.get(name, Variant(name))
    plan = study.plan.model_copy(update=variant.plan)
    settings, practice = learner_preset(study.learner_preset, world)
    start = time.perf_counter()
    with TrainDisplay([skill.name for skill in world.skills], plan.total_steps) as display:
        summary = train(
            folder, world, build_designer(variant.designer, folder, settings=variant.settings), plan, seed=seed,
            observation=study.observed, learner=study.learner,
            learner_settings=settings | study.learner_settings | variant.learner, on_progress=display,
            on_message=print, practice=variant.practice and (practice or variant.practice),
        )  # fmt: skip
    print(f"{name}, seed {seed}: final score {summary.final.score}, {time.perf_counter() - start:.0f} s", flush=True)
    return folder


def copy_results(folder: Path, results: Path) -> None:
    for pattern in RESULT_FILES:
        for file in folder.glob(pattern):
            copy = results / "runs" / folder.name / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            values = read_values(file)
            if file.name == "progress.jsonl":
                values = [{key: line[key] for key in PROGRESS_KEYS if key in line} for line in values]
            copy.write_text("\n".join(json.dumps(value) for value in values) + "\n")


def read_values(file: Path) -> list:
    text = file.read_text()
    return [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]


def cycle_table(title: str, folders: dict[str, list[Path]], path: Sequence[str]) -> str:
    """The means over seeds of a value of the evaluations in the original, after each cycle and at the end."""
    rows = []
    for name, group in folders.items():
        values = [
            [get_path(evaluation, *path) for evaluation in (*evaluations_after_cycles(run), read_summary(run)["final"])]
            for run in group
        ]
        means = [f"{np.mean(column):.1f}" for column in zip(*values, strict=True)]
        rows.append(f"| {name} | {len(group)} | {', '.join(means[:-1])} | {means[-1]} |")
    return "\n".join([f"| {title} | seeds | after each cycle | final |", "| --- | --: | --- | --: |", *rows])


def stage_table(skill: str, folders: dict[str, list[Path]]) -> str:
    """The success in each stage of the chain for a skill during each cycle, over all runs; empty without chains."""
    rows = []
    for name, group in folders.items():
        episodes: Counter[tuple[int, int]] = Counter()  # of a stage in a cycle
        successes: Counter[tuple[int, int]] = Counter()
        for cycle, chain in (entry for run in group for entry in chains_of(run, skill)):
            for stage, counts in enumerate(zip(chain["episodes"], chain["successes"], strict=True), 1):
                episodes[stage, cycle] += counts[0]
                successes[stage, cycle] += counts[1]
        shown = {key for key, count in episodes.items() if count >= MIN_STAGE_EPISODES}
        cycles, num_stages = range(1, num_cycles(group) + 1), max((stage for stage, _ in episodes), default=0)
        for stage in sorted({stage for stage, _ in shown}):
            keys = [(stage, cycle) for cycle in cycles]
            cells = [f"{100 * successes[key] / episodes[key]:.0f}" if key in shown else "-" for key in keys]
            rows.append(f"| {name} | {stage} of {num_stages} | {', '.join(cells)} |")
    header = [f"| success % in the chain for {skill} | stage | in each cycle |", "| --- | --: | --- |"]
    return "\n".join([*header, *rows]) if rows else ""


def num_cycles(group: Sequence[Path]) -> int:
    """The number of cycles of the longest run of a group."""
    return max(file["cycle"]["number"] for run in group for file in files_after_cycles(run))


def chains_of(folder: Path, skill: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The cycles of a run that trained in a chain for a skill, and the episodes and successes of its stages."""
    for cycle in (file["cycle"] for file in files_after_cycles(folder)):
        for proposed, outcome in zip(cycle["proposal"]["levels"], cycle["outcomes"], strict=True):
            if outcome and outcome.get("chain") and proposed["chain"]["skill"] == skill:
                yield cycle["number"], outcome["chain"]


def level_table(skills: Sequence[str], folders: dict[str, list[Path]]) -> str:
    """The success during each cycle in the levels for a skill that are not chains; empty without such levels."""
    rows = []
    for name, group in folders.items():
        for run in group:
            for skill in skills:
                if rates := dict(level_rates(run, skill)):
                    cells = [f"{rates[k]:.0f}" if k in rates else "-" for k in range(1, num_cycles([run]) + 1)]
                    rows.append(f"| {name}, seed {run.name.rpartition('-')[2]} | {skill} | {', '.join(cells)} |")
    header = ["| success % in levels for a skill | skill | in each cycle |", "| --- | --- | --- |"]
    return "\n".join([*header, *rows]) if rows else ""


def level_rates(folder: Path, skill: str) -> Iterator[tuple[int, float]]:
    """The cycles of a run with levels that list the skill and are not chains, and the success in them, in percent."""
    for cycle in (file["cycle"] for file in files_after_cycles(folder)):
        outcomes = [
            outcome
            for proposed, outcome in zip(cycle["proposal"]["levels"], cycle["outcomes"], strict=True)
            if outcome and outcome["episodes"] and skill in proposed.get("skills", ()) and not proposed.get("chain")
        ]
        if outcomes:
            episodes = [outcome["episodes"] for outcome in outcomes]
            yield cycle["number"], np.average([outcome["skills"][skill] for outcome in outcomes], weights=episodes)


def evaluations_after_cycles(folder: Path) -> list[dict[str, Any]]:
    return [file["evaluation"] for file in files_after_cycles(folder)]


def files_after_cycles(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("cycles/*/evaluation.json"), key=lambda file: int(file.parent.name))
    return [read_json(file) for file in files]


def difference_table(folders: dict[str, list[Path]], baseline: str = "none") -> str:
    """What each designer gains over `baseline`, paired by seed: interquartile means with 95% bootstrap intervals."""
    measures = {
        "score in training": ("training", "score"),
        "final score": ("final", "score", "value"),
        "final reward": ("final", "reward", "value"),
    }
    rows = []
    for name, group in folders.items():
        if name == baseline:
            continue
        results = [
            paired_difference(group, folders.get(baseline, []), lambda run, path=path: summary_value(run, path))
            for path in measures.values()
        ]
        num_seeds = max(result.n if result else 0 for result in results)
        rows.append(f"| {name} | {num_seeds} | {' | '.join(map(format_difference, results))} |")
    header = f"| minus {baseline}, paired | seeds | {' | '.join(measures)} |"
    return "\n".join([header, "| --- | --: |" + " --: |" * len(measures), *rows])


def summary_value(folder: Path, path: Sequence[str]) -> float:
    value = get_path(read_summary(folder), *path)
    return math.nan if value is None else value


def format_difference(result: Aggregate | None) -> str:
    if result is None or result.low is None or math.isnan(result.value):
        return "-"
    return f"{result.value:+.1f} [{result.low:+.1f}, {result.high:+.1f}]"


def format_seed_counts(folders: dict[str, list[Path]]) -> str:
    counts = sorted({len(group) for group in folders.values()})
    if counts == [1]:
        return "one seed"
    return f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def results_page(study: Study, folders: dict[str, list[Path]], options: str, date: str, discussion: str) -> str:
    first = json.loads((next(iter(folders.values()))[0] / "run.json").read_text())
    libraries = ", ".join(f"{name} {number}" for name, number in first["versions"].items())
    random_evaluation = evaluate(
        RandomPolicy(study.world, study.observed), study.world, None, 4 * study.plan.episodes, EVALUATION_SEED,
        study.observed,
    )  # fmt: skip
    cycle_episodes = study.plan.feedback_groups * study.plan.feedback_episodes
    after_cycles = [cycle_table("score in the original", folders, ("score", "value"))]
    after_cycles += [
        cycle_table(f"success % of {skill}", folders, ("skills", skill, "value")) for skill in study.skills
    ]
    return f"""# {study.title} {type(study.world).__name__} with `{study.observed}` observations

`python benchmarks/envgen_designers.py {options}`, {date},
{format_seed_counts(folders)} each, {os.cpu_count()} shared cores ({platform.machine()}), {libraries}.

{study.description}

{discussion}

![curves](curves.png)

{results_table(study.world.name, folders)}
{format_differences(folders)}
## After each cycle

{(2 * chr(10)).join(after_cycles)}

Means over seeds, from {cycle_episodes} episodes after each cycle and {study.plan.episodes:,} at the end.
{format_stages(study, folders)}{format_levels(study, folders)}
## Random actions

```text
{random_evaluation}
```
"""


def format_differences(folders: dict[str, list[Path]]) -> str:
    """The section about differences from no designer; empty if there were no runs without one."""
    if "none" not in folders:
        return ""
    return f"""
## Differences

{difference_table(folders)}

Interquartile means over the seeds that both have, with 95% bootstrap intervals over seeds.
"""


def format_levels(study: Study, folders: dict[str, list[Path]]) -> str:
    """The section about the levels for the study's skills that are not chains; empty if there were none."""
    groups = {name: group for name, group in folders.items() if name.startswith("llm")}
    table = level_table(study.skills, groups) if study.shows_levels else ""
    if not table:
        return ""
    return f"""
## In the levels of the language model

{table}

Over the training episodes in the levels that were designed for the skill, without chains; a dash where there were none.
"""


def format_stages(study: Study, folders: dict[str, list[Path]]) -> str:
    """The section about the chains of the study's skills; empty if none was trained in."""
    tables = [table for skill in study.skills if (table := stage_table(skill, folders))]
    if not tables:
        return ""
    return f"""
## In the stages of the chains

{(2 * chr(10)).join(tables)}

Over the training episodes of all seeds; a dash where a stage had fewer than {MIN_STAGE_EPISODES} in a cycle, and no row
where it had fewer in every cycle. Stage 1 is the easiest, and the last stage is the original.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(3)))
    parser.add_argument("--designers", nargs="+", help="default: all designers of the study")
    parser.add_argument("--runs", type=Path, help="default: out/envgen-<study>-<observation>")
    parser.add_argument("--results", type=Path, help="default: docs/results/envgen-<study>-<observation>")
    parser.add_argument("--page", action="store_true", help="train nothing, write the page")
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="finished runs to add, in folders NAME-SEED")
    args = parser.parse_args()
    study, name = STUDIES[args.study], f"envgen-{args.study}-{STUDIES[args.study].observed}"
    runs, results = args.runs or Path("out") / name, args.results or Path("docs/results") / name
    for seed in args.seeds if not args.page else ():
        for designer in args.designers or study.designers:
            if not (results / "runs" / f"{designer}-{seed}" / "summary.json").exists():
                copy_results(run_designer(study, designer, seed, runs), results)
    for folder in args.more:
        copy_results(folder, results)
    write_page(study, args.study, results, keep_date=args.page)


def group_results(study: Study, results: Path) -> dict[str, list[Path]]:
    """The runs in a results folder by the name of the designer or variant: those of the study first, in its order."""
    groups: dict[str, list[Path]] = {designer: [] for designer in study.designers}
    for folder in sorted((results / "runs").iterdir()):
        groups.setdefault(folder.name.rpartition("-")[0], []).append(folder)
    return {name: folders for name, folders in groups.items() if folders}


def write_page(study: Study, name: str, results: Path, keep_date: bool = False) -> None:
    groups = group_results(study, results)
    plot_training_runs(groups, results / "curves.png")
    trained = [folder for designer in study.designers for folder in groups.get(designer, ())]
    seeds = sorted({int(folder.name.rpartition("-")[2]) for folder in trained})
    options = f"{name} --seeds {' '.join(map(str, seeds))}"
    of_study = [designer for designer in study.designers if designer in groups]
    if len(of_study) < len(study.designers):
        options += f" --designers {' '.join(of_study)}"
    page, date = results / "README.md", str(datetime.date.today())
    if keep_date and page.exists():
        date = re.findall(r"`, (\d{4}-\d{2}-\d{2}),$", page.read_text(), re.MULTILINE)[0]
    page.write_text(results_page(study, groups, options, date, read_discussion(results)))


if __name__ == "__main__":
    main()
