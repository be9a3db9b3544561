"""Which methods keep trying rare actions? PPO in the original Crafter, tested in levels with everything at hand.

    python benchmarks/crafter_exploration.py --seeds 10 11 12 13 14
    python benchmarks/crafter_exploration.py --page        # train nothing, write the page from the existing results

An agent that has never made, say, an iron pickaxe has no reason to keep trying the action that makes one. Levels in
which the ingredients are at hand show whether it could still discover it: an untrained agent succeeds there as often as
random actions do, and one that has stopped trying the action succeeds less often. Every method trains in the original
only, and plays these levels after 0, 0.25, 0.5 and 1 million steps. Results are JSON files under
docs/results/crafter-exploration/, from which the page is made. Finished runs are not repeated.
"""

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from envgen.agents.ppo import PPO
from envgen.curriculum.evaluate import evaluate
from envgen.curriculum.plan import PracticeSettings
from envgen.curriculum.practice import PracticeVectorEnv
from envgen.runs.statistics import iqm_with_ci
from envgen.runs.store import write_json
from envgen.worlds.crafter.world import Crafter
from training_runs import (
    EVALUATION_SEED,
    add_options,
    describe_machine,
    load_groups,
    num_threads,
    read_discussion,
    run_tasks,
    to_file_name,
)  # fmt: skip

EPISODES, LEVEL_EPISODES = 1024, 512
EVALUATION_STEPS = (0, 250_000, 500_000, 1_000_000)  # of training, after which the levels are played

TOOLS = {"wood_pickaxe": 1, "wood_sword": 1}
STONE_TOOLS = TOOLS | {"stone_pickaxe": 1, "stone_sword": 1}
LEVELS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {  # a level and the skills that are at hand there
    "stone tools": (
        {"near": {"table": True}, "inventory": {"wood": 5, "stone": 5, **TOOLS}, "length": 100},
        ("make_stone_pickaxe", "make_stone_sword"),
    ),
    "furnace": (
        {"near": {"table": True}, "inventory": {"wood": 5, "stone": 9, **STONE_TOOLS}, "length": 100},
        ("place_furnace",),
    ),
    "iron tools": (
        {
            "near": {"table": True, "furnace": True},
            "inventory": {"wood": 5, "stone": 5, "coal": 5, "iron": 5, **STONE_TOOLS},
            "length": 100,
        },
        ("make_iron_pickaxe", "make_iron_sword"),
    ),
    "ripe plant": ({"near": {"plant": "ripe"}, "length": 100}, ("eat_plant",)),
    "sleep": ({"vitals": {"energy": 2}, "length": 300}, ("wake_up",)),
}
METHODS: dict[str, dict[str, Any]] = {  # the settings of PPO that differ; under "practice", those of practice
    "PPO": {},
    "entropy 0.02": {"ent_coef": 0.02},
    "unimix 0.01": {"network": {"unimix": 0.01}},
    "uniform KL 0.001": {"uniform_kl_coef": 0.001},
    "uniform KL 0.003": {"uniform_kl_coef": 0.003},
    "uniform KL 0.01": {"uniform_kl_coef": 0.01},
    "learning rate 3e-4": {"learning_rate": 3e-4},
    "practice 0.2": {"practice": {"share": 0.2}},
    "practice 0.2, uniform KL 0.003": {"practice": {"share": 0.2}, "uniform_kl_coef": 0.003},
    "practice 0.4, unimix 0.01": {"practice": {"share": 0.4}, "network": {"unimix": 0.01}},  # as in the preset far
}


def run(method: str, seed: int, results: Path, threads: int) -> str:
    """Train with one method and one seed, unless its results already exist; return what happened."""
    import torch

    file = results / f"{to_file_name(method, seed)}.json"
    if file.exists():
        return f"{file.name} already exists"
    torch.set_num_threads(threads)
    world, overrides = Crafter(), dict(METHODS[method])
    practice = overrides.pop("practice", None)
    with closing(world.make(num_envs=1, observation="symbols")) as single:
        settings = PPO.settings_for(single.single_observation_space, **{**world.ppo_defaults, **overrides})
    envs = world.make(num_envs=settings.num_envs, observation="symbols")
    if practice:
        envs = PracticeVectorEnv(envs, world.skills, PracticeSettings(**practice), seed)
    learner = PPO.for_envs(envs, settings, seed=seed)
    points = []
    with closing(envs):
        for steps in EVALUATION_STEPS:
            if steps:
                learner.train(envs, steps - learner.steps, seed=1000 * seed + steps)
            points.append({"steps": learner.steps, "skills": success_at_hand(learner, world)})
    final = evaluate(learner, world, None, EPISODES, EVALUATION_SEED)
    write_json(file, {"method": method, "seed": seed, "at_hand": points, "final": final.model_dump(mode="json")})
    return f"{file.name}: score {final.score}"


def success_at_hand(learner: PPO, world: Crafter) -> dict[str, float]:
    """The success rate of each skill in the level where it is at hand, in percent."""
    rates = {}
    for level, skills in LEVELS.values():
        result = evaluate(learner, world, level, LEVEL_EPISODES, EVALUATION_SEED)
        rates |= {skill: result.skills[skill].value for skill in skills}
    return rates


def load_results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of all runs by method, in the order of METHODS."""
    return load_groups(folder, lambda result: result["method"], METHODS)


def format_table(groups: dict[str, list[dict[str, Any]]]) -> str:
    """The scores, and the success at hand after the last training step."""
    skills = [skill for _, skills in LEVELS.values() for skill in skills]
    rows = [
        "| method | seeds | score | reward | " + " | ".join(skills) + " |",
        "|---|---:" + "|---:" * (len(skills) + 2) + "|",
    ]
    untrained = [point for results in groups.values() for result in results for point in result["at_hand"][:1]]
    cells = [f"{iqm_with_ci([point['skills'][skill] for point in untrained]).value:.1f}" for skill in skills]
    rows.append("| untrained | | | | " + " | ".join(cells) + " |")
    for method, results in groups.items():
        final = [iqm_with_ci([result["final"][name]["value"] for result in results]) for name in ("score", "reward")]
        cells = [iqm_with_ci([result["at_hand"][-1]["skills"][skill] for result in results]) for skill in skills]
        rows.append("| " + " | ".join(map(str, [method, len(results), *final, *cells])) + " |")
    return "\n".join(rows)


def format_success_over_time(groups: dict[str, list[dict[str, Any]]]) -> str:
    """The success at hand of two skills over the training."""
    over_time = ("make_stone_sword", "make_iron_pickaxe")
    columns = [f"{skill}, {steps / 1e6:g}M" for skill in over_time for steps in EVALUATION_STEPS]
    rows = ["| method | " + " | ".join(columns) + " |"]
    rows.append("|---" + "|---:" * 2 * len(EVALUATION_STEPS) + "|")
    for method, results in groups.items():
        cells = [
            f"{iqm_with_ci([result['at_hand'][k]['skills'][skill] for result in results]).value:.1f}"
            for skill in over_time
            for k in range(len(EVALUATION_STEPS))
        ]
        rows.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def write_page(folder: Path) -> str:
    groups = load_results(folder)
    text = f"""# Which methods keep trying rare actions?

`python benchmarks/crafter_exploration.py`, {describe_machine()}

PPO from symbols trains for a million steps in the original Crafter. The columns of skills are their success rates, in
percent of {LEVEL_EPISODES} episodes, in levels where everything that the skill needs is at hand from the first step
(100 steps; 300 for `wake_up`). No method trains in these levels. Score and reward are those of the final policies in
{EPISODES:,} episodes of the original. Interquartile means over seeds with 95% bootstrap intervals.

{format_table(groups)}

{format_success_over_time(groups)}

{read_discussion(folder)}
"""
    (folder / "README.md").write_text(text.rstrip() + "\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add_options(parser, "crafter-exploration", seeds=range(10, 15))
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    if not args.page:
        fixed = (args.results, num_threads(args))
        run_tasks(run, [(method, seed, *fixed) for seed in args.seeds for method in args.methods], args.jobs)
    print(write_page(args.results))


if __name__ == "__main__":
    main()
