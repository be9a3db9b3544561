"""What raises the four rarest skills of Crafter? A trained policy trains on, with one change in each run.

    python benchmarks/crafter_rare_skills.py --seeds 20
    python benchmarks/crafter_rare_skills.py --page        # train nothing, write the page from the existing results

The policy `crafter-far` rarely collects diamonds and never eats a plant. Each run starts from its weights and trains
for four million steps in the original, or with half of the environments in levels. Results are JSON
files under docs/results/crafter-rare-skills/, from which the page is made. Finished runs are not repeated, and
interrupted ones resume.
"""

import argparse
import functools
from pathlib import Path
from typing import Any

import envgen
from envgen.designers.chains import derive_chain
from envgen.runs.statistics import iqm_with_ci
from envgen.runs.store import write_json
from envgen.worlds.crafter.world import Crafter
from training_runs import (
    CONSTANT_HORIZON,
    EVALUATION_SEED,
    add_options,
    describe_machine,
    load_groups,
    num_threads,
    read_discussion,
    run_tasks,
    to_file_name,
)  # fmt: skip

POLICY = Path("policies/crafter-far")
EPISODES, DIAGNOSIS_EPISODES = 1024, 512
STEPS, CYCLES = 4_000_000, 4
RARE_SKILLS = ("make_iron_pickaxe", "make_iron_sword", "collect_diamond", "eat_plant")
WORLD = Crafter()
OTHERS_DONE = {"done": [skill.name for skill in WORLD.skills if skill.name != "eat_plant"]}
LONG_HORIZON = {"gamma": 0.997, "gae_lambda": 0.95}
LONG_PRACTICE = {"practice": {"share": 0.4}, "hyperparameters": LONG_HORIZON}
TOOLS = {"wood_pickaxe": 1, "stone_pickaxe": 1, "stone_sword": 1, "stone": 9, "sapling": 1}
TIRED = {  # only the rare skills and waking up are rewarded
    "inventory": TOOLS,
    "done": [skill.name for skill in WORLD.skills if skill.name not in ("wake_up", *RARE_SKILLS)],
}
TIRED_LEVELS = [
    {"time_of_day": 180, "vitals": {"energy": 3}, **TIRED},
    {"time_of_day": 120, "vitals": {"energy": 4}, **TIRED},
    {"vitals": {"energy": 2}, **TIRED},
    {"time_of_day": 180, "vitals": {"energy": 3}, "zombies": "common", **TIRED},
]
NEEDY_LEVELS = [
    {"time_of_day": 180, "vitals": {"energy": 2}},
    {"vitals": {"drink": 2, "food": 5}},
    {"vitals": {"drink": 5, "food": 2}},
    {"time_of_day": 120, "vitals": {"drink": 3, "food": 3, "energy": 3}},
    {"time_of_day": 150, "vitals": {"energy": 3}, "zombies": "common"},
]
NIGHT_LEVELS = [
    {"time_of_day": 150},
    {"time_of_day": 200},
    {"time_of_day": 180, "inventory": {"stone": 9, "wood_pickaxe": 1}},
]
FAST_PLANTS = [{"growth": growth} for growth in (32, 16, 8, 4, 2)]


def chain(skill: str) -> dict[str, Any]:
    return {"chain": {"skill": skill}}


def plant_chain_without_other_rewards() -> dict[str, Any]:
    """The chain for `eat_plant`, in which every other skill counts as achieved."""
    stages = derive_chain("eat_plant", WORLD.Level, WORLD.skills, WORLD.skill_levels)
    return {"chain": {"skill": "eat_plant", "levels": [stage.to_overrides() | OTHERS_DONE for stage in stages]}}


def guarded_plant_chain() -> dict[str, Any]:
    """A chain for `eat_plant` with all creatures, and stones to build a fence around the plant."""
    start = {"inventory": {"sapling": 2, "stone": 9, "wood_pickaxe": 1, "stone_sword": 1}, **OTHERS_DONE}
    ages = ("ripe", "nearly ripe", "half grown", "sapling")
    stages = [{"near": {"plant": age}, **start} for age in ages]
    return {"chain": {"skill": "eat_plant", "levels": [*stages, start, OTHERS_DONE]}}


def slower_plants_chain() -> dict[str, Any]:
    """A chain for `eat_plant`, in which every other skill counts as achieved and plants grow ever more slowly."""
    stages = [level | OTHERS_DONE for level in [*FAST_PLANTS, {}]]
    return {"chain": {"skill": "eat_plant", "levels": [*stages, {}], "cutoff": 2.0}}


REMEDIES: dict[str, dict[str, Any]] = {  # arguments of envgen.train
    "none": {},
    "practice 0.4": {"practice": {"share": 0.4}},
    "gamma 0.997, lambda 0.95": {"hyperparameters": LONG_HORIZON},
    "practice 0.4, gamma 0.997": LONG_PRACTICE,
    "uniform KL 0.003": {"hyperparameters": {"uniform_kl_coef": 0.003}},
    "expert": {"designer": "expert"},
    "expert, next stage at 20%": {"designer": "expert", "designer_options": {"advance_at": 20.0}},
    "chains of the four skills": {"levels": [chain(skill) for skill in RARE_SKILLS]},
    "chain for diamonds": {"levels": [chain("collect_diamond")]},
    "chain for plants": {"levels": [chain("eat_plant")]},
    "chain for plants, gamma 0.997": {"levels": [chain("eat_plant")], "hyperparameters": LONG_HORIZON},
    "chain for plants without other rewards": {"levels": [plant_chain_without_other_rewards()]},
    "chain for plants without other rewards, gamma 0.997": {
        "levels": [plant_chain_without_other_rewards()],
        "hyperparameters": LONG_HORIZON,
    },
    "chain for plants with stones, gamma 0.997": {
        "levels": [guarded_plant_chain()],
        "hyperparameters": LONG_HORIZON,
    },
    "plants grow 2 to 32 times as fast, practice 0.4, gamma 0.997": {"levels": FAST_PLANTS, **LONG_PRACTICE},
    "plants grow 2 to 32 times as fast, practice 0.4, gamma 0.999": {
        "levels": FAST_PLANTS,
        "practice": {"share": 0.4},
        "hyperparameters": {"gamma": 0.999, "gae_lambda": 0.97},
    },
    "chain of ever slower plants without other rewards, practice 0.4, gamma 0.997": {
        "levels": [slower_plants_chain()],
        **LONG_PRACTICE,
    },
    "tired at night with stones, practice 0.4, gamma 0.997": {"levels": TIRED_LEVELS, **LONG_PRACTICE},
    "begin hungry, thirsty or tired, practice 0.4, gamma 0.997": {"levels": NEEDY_LEVELS, **LONG_PRACTICE},
    "begin at night, practice 0.4, gamma 0.997": {"levels": NIGHT_LEVELS, **LONG_PRACTICE},
    "levels without zombies": {"levels": [{"zombies": "none"}]},
}


@functools.cache
def initial_score() -> float:
    policy = envgen.load_policy(POLICY)
    return round(envgen.evaluate(policy, EPISODES, world="crafter", seed=EVALUATION_SEED).score.value, 1)


def run(remedy: str, seed: int, runs: Path, results: Path, threads: int) -> str:
    """Train with one remedy and one seed, unless its results already exist; return what happened."""
    import torch

    name = to_file_name(remedy, seed)
    file = results / f"{name}.json"
    if file.exists():
        return f"{file.name} already exists"
    torch.set_num_threads(threads)
    arguments = dict(REMEDIES[remedy])
    levels = arguments.pop("levels", [])
    designer = arguments.pop("designer", "fixed" if levels else "none")
    hyperparameters = {"learning_rate": 2e-4} | CONSTANT_HORIZON | arguments.pop("hyperparameters", {})
    plan = {"cycles": CYCLES, "cycle_steps": STEPS // CYCLES, "final_steps": 0, "mixing": "mixed", "episodes": EPISODES}
    plan |= {"levels": len(levels)} if levels else {}
    trained = envgen.train(
        "crafter", designer, plan=plan, seed=seed, folder=runs / name, levels=levels, learner_preset="far",
        hyperparameters=hyperparameters, practice={"share": 0.0} | arguments.pop("practice", {}),
        initial_policy=POLICY, verbose=False, **arguments,
    )  # fmt: skip
    final = envgen.evaluate(trained.policy(), EPISODES, world="crafter", seed=EVALUATION_SEED)
    diagnosis = envgen.diagnose(trained.policy(), DIAGNOSIS_EPISODES, world="crafter", seed=EVALUATION_SEED)
    write_json(file, {
        "remedy": remedy, "seed": seed, "steps": STEPS, "initial_score": initial_score(),
        "final": final.model_dump(mode="json"),
        "diagnosis": diagnosis.model_dump(mode="json"),
    })  # fmt: skip
    return f"{file.name}: score {final.score}"


def load_results(folder: Path) -> dict[tuple[float, str], list[dict[str, Any]]]:
    """The results of all runs by the score of the policy that they started from, and by remedy."""
    groups = load_groups(folder, lambda result: (result["initial_score"], result["remedy"]))
    order = list(REMEDIES)
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]))))


def format_table(groups: dict[tuple[float, str], list[dict[str, Any]]]) -> str:
    """One row per initial score and remedy: interquartile means over seeds with 95% intervals."""
    rows = [
        "| score before | change | seeds | score | reward | steps per episode | " + " | ".join(RARE_SKILLS) + " |",
        "|---:|---|" + "---:|" * (len(RARE_SKILLS) + 4),
    ]
    for (initial_score, remedy), results in groups.items():
        finals = [result["final"] for result in results]
        values = [[final[name]["value"] for final in finals] for name in ("score", "reward", "length")]
        values += [[final["skills"][skill]["value"] for final in finals] for skill in RARE_SKILLS]
        row = [initial_score, remedy, len(results), *map(iqm_with_ci, values)]
        rows.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(rows)


def write_page(folder: Path) -> str:
    groups = load_results(folder)
    text = f"""# What raises the four rarest skills?

`python benchmarks/crafter_rare_skills.py`, {describe_machine()}

Each run starts from the weights of [`crafter-far`](../../../policies/crafter-far/README.md), which was replaced on
2026-11-27, as the scores before the runs show. It trains for {STEPS:,} further steps with the settings of the preset
`far`, but a learning rate of 2e-4 that falls to 5e-5, a constant horizon (a discount of 0.99 and a lambda of 0.8), no
practice, and the change that the row names. With levels or a designer, half of the environments play levels and the
others the original. The results are those of the final policies in {EPISODES:,} episodes of the original.

{format_table(groups)}

{read_discussion(folder)}
"""
    (folder / "README.md").write_text(text.rstrip() + "\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--remedies", nargs="+", choices=list(REMEDIES), default=list(REMEDIES))
    parser.add_argument("--runs", type=Path, default=Path("out/crafter-rare-skills"))
    add_options(parser, "crafter-rare-skills", seeds=[20])
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    if not args.page:
        fixed = (args.runs, args.results, num_threads(args))
        run_tasks(run, [(remedy, seed, *fixed) for seed in args.seeds for remedy in args.remedies], args.jobs)
    print(write_page(args.results))


if __name__ == "__main__":
    main()
