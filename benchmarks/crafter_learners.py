"""Compares learners in the original Crafter: encoders, memory, history, distillation and practice.

    python benchmarks/crafter_learners.py --variants symbols symbols-gru --seeds 10 11 12 --steps 1000000 1960000
    python benchmarks/crafter_learners.py --page        # train nothing, write the page from the existing results

Each run trains without a designer and writes a run directory. Its final policy plays 1,024 episodes on maps that are
common to all runs, and 128 of the same in the `crafter` package. The results of each run are a JSON file under
docs/results/crafter-learners/, from which the page and the figure are made. Finished runs are not repeated,
and interrupted ones resume. `--jobs` runs are trained at a time, which share the cores.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import envgen
from envgen.curriculum.evaluate import evaluate
from envgen.curriculum.trainer import training_stats
from envgen.runs.statistics import iqm_with_ci, score
from envgen.runs.store import read_progress, write_json
from envgen.worlds.crafter.world import Crafter
from run_figures import line_style
from training_runs import (
    CONSTANT_HORIZON,
    EVALUATION_SEED,
    add_options,
    describe_machine,
    describe_machines,
    load_groups,
    num_threads,
    read_discussion,
    run_tasks,
    split_progress,
)

EPISODES, PACKAGE_EPISODES = 1024, 128
DEFAULT_STEPS = [1_000_000, 1_960_000]
LONG_STEPS = 20_000_000
VARIANTS: dict[str, dict[str, Any]] = {  # arguments of envgen.train
    "symbols": {},
    "symbols-gru": {"network": {"memory": "gru"}},
    "symbols-mingru": {"network": {"memory": "mingru"}},
    "symbols-history": {"network": {"history": True}},
    "symbols-unlocked": {"observation": "symbols+unlocked"},
    "symbols-unimix": {"network": {"unimix": 0.01}},
    "symbols-history-unimix": {"network": {"history": True, "unimix": 0.01}},
    "symbols-distillation": {"learner": "distillation"},
    "symbols-practice": {"practice": {"share": 0.2}},
    "symbols-far": {"learner_preset": "far"},
    # the preset far with one change
    "symbols-far-no-practice": {"learner_preset": "far", "practice": {"share": 0.0}},
    "symbols-far-practice-0.2": {"learner_preset": "far", "practice": {"share": 0.2}},
    "symbols-far-no-history": {"learner_preset": "far", "network": {"history": False}},
    "symbols-far-no-unimix": {"learner_preset": "far", "network": {"unimix": 0.0}},
    "symbols-far-constant-gamma": {"learner_preset": "far", "hyperparameters": CONSTANT_HORIZON},
    "symbols-far-gamma-0.95": {
        "learner_preset": "far",
        "hyperparameters": {"gamma": 0.95, "gae_lambda": 0.65, **CONSTANT_HORIZON},
    },
    "symbols-far-gamma-0.997": {
        "learner_preset": "far",
        "hyperparameters": {"gamma": 0.997, "gae_lambda": 0.95, **CONSTANT_HORIZON},
    },
    "symbols-far-constant-lr": {"learner_preset": "far", "hyperparameters": {"final_learning_rate": 4e-4}},
    "symbols-far-gru": {"learner_preset": "far", "network": {"memory": "gru"}},
    "symbols-far-mingru": {"learner_preset": "far", "network": {"memory": "mingru"}},
    "tiles": {"observation": "pixels", "network": {"encoder": "tiles"}},
    "tiles-gru": {"observation": "pixels", "network": {"encoder": "tiles", "memory": "gru"}},
    "tiles-practice": {
        "observation": "pixels",
        "network": {"encoder": "tiles", "unimix": 0.01},
        "practice": {"share": 0.4},
    },
    "tiles-far": {
        "observation": "pixels",
        "network": {"encoder": "tiles", "history": True, "unimix": 0.01},
        "hyperparameters": {"final_learning_rate": 5e-5},
        "practice": {"share": 0.4},
    },
    "tiles-distillation": {"observation": "pixels", "network": {"encoder": "tiles"}, "learner": "distillation"},
}
# measured before 2026-11-30, when the encoder also saw whether the last step was an achievement
EARLIER_VARIANTS = ("symbols-distillation-bit", "tiles-distillation-bit")
RECENT_STEPS = 1_000_000
PUBLISHED = {  # from images: steps, name, score, reward (EnvGen, table 1)
    "PPO, 1M": (1_000_000, 15.5, 10.5),
    "PPO, 1.96M": (1_960_000, 26.4, 12.1),
    "Achievement Distillation, 1M": (1_000_000, 21.8, 12.6),
    "Achievement Distillation, 1.96M": (1_960_000, 31.8, 13.3),
    "Achievement Distillation with EnvGen": (1_960_000, 35.3, 13.7),
}


def run(variant: str, seed: int, all_steps: list[int], runs: Path, results: Path, threads: int, device: str) -> str:
    """Train and evaluate one run, unless its results already exist; return what happened.

    With several numbers of steps, the run is evaluated after the smallest and then continues.
    """
    import torch

    files = {steps: results / f"{variant}-{steps}-{seed}.json" for steps in sorted(all_steps)}
    if all(file.exists() for file in files.values()):
        return f"{variant}, seed {seed}: the results already exist"
    torch.set_num_threads(threads)
    anneal_steps = max(all_steps)
    for file in files.values():
        trained_for = json.loads(file.read_text()).get("anneal_steps", anneal_steps) if file.exists() else anneal_steps
        if trained_for != anneal_steps:
            raise RuntimeError(
                f"{file} is from a run of {trained_for:,} steps, not {anneal_steps:,}; pass other --results"
            )
    start = time.perf_counter()
    folder = runs / f"{variant}-{anneal_steps}" / str(seed)
    arguments = {**VARIANTS[variant], "device": device}
    arguments["hyperparameters"] = {"anneal_steps": anneal_steps, **arguments.get("hyperparameters", {})}
    scores = []
    for k, (steps, file) in enumerate(files.items()):
        plan = {"cycles": 0, "final_steps": steps, "episodes": EPISODES}
        is_done = _trained_steps(folder) > steps  # an earlier call trained beyond these steps before it was interrupted
        if not is_done:
            extend = k > 0 and (folder / "summary.json").exists()
            envgen.train(
                "crafter", "none", plan=plan, seed=seed, folder=folder, extend=extend, verbose=False, **arguments
            )
        if not file.exists() and not is_done:
            result = describe_run(variant, seed, steps, folder, threads, device)
            write_json(file, result | {"anneal_steps": anneal_steps, "machine": describe_machine()})
        if not file.exists():
            scores.append(f"none after {steps:,} steps, because {folder} has been trained further")
        else:
            scores.append(f"{json.loads(file.read_text())['final']['score']['value']:.1f}")
    return f"{variant}, seed {seed}: scores {', '.join(scores)}, {time.perf_counter() - start:.0f} s"


def _trained_steps(folder: Path) -> int:
    """The `final_steps` of the plan of a run; 0 if there is none yet."""
    file = folder / "run.json"
    return json.loads(file.read_text())["request"]["plan"]["final_steps"] if file.exists() else 0


def describe_run(variant: str, seed: int, steps: int, folder: Path, threads: int, device: str) -> dict[str, Any]:
    """The results of a trained run, with an evaluation of its policy."""
    observation = VARIANTS[variant].get("observation", "symbols")
    world, policy = Crafter(), envgen.load_policy(folder, device)
    final = envgen.evaluate(policy, EPISODES, world="crafter", seed=EVALUATION_SEED)
    envs = world.reference_envs(64, EVALUATION_SEED, observation, PACKAGE_EPISODES)
    package = evaluate(policy, world, None, PACKAGE_EPISODES, EVALUATION_SEED, envs=envs)
    lines = list(read_progress(folder))
    stats = training_stats(lines, [skill.name for skill in world.skills])
    assert stats is not None
    return {
        "variant": variant, "seed": seed, "steps": steps, "threads": threads, "device": device_name(device),
        "seconds": round(sum(line["seconds"] for line in lines)),
        "training": stats.model_dump(mode="json"),
        "final": final.model_dump(mode="json"),
        "package": package.model_dump(mode="json"),
        "curve": make_curve(lines),
    }  # fmt: skip


def device_name(device: str) -> str:
    """The name of a GPU; `cpu` otherwise."""
    import torch

    return torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else device


def make_curve(lines: list[dict]) -> list[dict[str, Any]]:
    """Sums over consecutive windows of the training: steps, episodes, returns and successes of each skill."""
    return [
        {
            "steps": steps,
            "episodes": sum(line["episodes"] for line in window),
            "return_sum": round(sum(line["return_sum"] for line in window), 3),
            "succeeded": np.sum([line["succeeded"] for line in window], axis=0).tolist(),
        }
        for steps, window in split_progress(lines)
    ]


# ------------------------------------------------------------------------------------------------------- the results


def load_results(folder: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The results of all runs by variant and number of steps, in the order of VARIANTS and EARLIER_VARIANTS."""
    groups = load_groups(folder, lambda result: (result["variant"], result["steps"]))
    order = [*VARIANTS, *EARLIER_VARIANTS]
    return dict(sorted(groups.items(), key=lambda item: (item[0][1], order.index(item[0][0]))))


def format_table(groups: dict[tuple[str, int], list[dict[str, Any]]]) -> str:
    """One row per variant: interquartile means over seeds with 95% intervals, and the median time.

    The time is that of the runs on a GPU, where most seeds were trained on one.
    """
    rows = [
        "| steps | variant | seeds | training score | in the last 1M steps | training reward | score | reward "
        "| score in `crafter` | time |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (variant, steps), results in groups.items():
        scores = [result["training"]["score"] for result in results]
        rewards = [result["training"]["reward"] for result in results]
        training = [iqm_with_ci(values) for values in (scores, [*map(recent_score, results)], rewards)]
        final = [iqm_with_ci([result["final"][name]["value"] for result in results]) for name in ("score", "reward")]
        package = iqm_with_ci([result["package"]["score"]["value"] for result in results])
        on_gpu = [result.get("device", "cpu") != "cpu" for result in results]
        is_gpu_time = 2 * sum(on_gpu) > len(results)
        seconds = [r["seconds"] for r, is_on_gpu in zip(results, on_gpu, strict=True) if is_on_gpu == is_gpu_time]
        time_cell = f"{np.median(seconds) / 60:.1f} min{' (GPU)' if is_gpu_time else ''}"
        cells = [f"{steps:,}", f"`{variant}`", len(results), *training, *final, package, time_cell]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def recent_score(result: dict[str, Any]) -> float:
    """The score of the training episodes in the windows of a run's curve that lie in its last million steps."""
    curve = result["curve"]
    starts = [0, *(point["steps"] for point in curve[:-1])]
    first = result["steps"] - RECENT_STEPS
    points = [point for start, point in zip(starts, curve, strict=True) if start >= first] or curve[-1:]
    succeeded = np.sum([point["succeeded"] for point in points], axis=0)
    return float(score(100 * succeeded / sum(point["episodes"] for point in points)))


def format_skills(groups: dict[tuple[str, int], list[dict[str, Any]]]) -> str:
    """The success rates of the final policies, a column per variant and number of steps, for long runs."""
    longest = max(steps for _, steps in groups)
    chosen = {
        f"`{variant}`, {steps / 1e6:g}M steps": results
        for (variant, steps), results in groups.items()
        if steps >= min(longest, LONG_STEPS)
    }
    rows = ["| skill | " + " | ".join(chosen) + " |"]
    rows.append("|---" * (len(chosen) + 1) + "|")
    for skill in (skill.name for skill in Crafter().skills):
        rates = [iqm_with_ci([r["final"]["skills"][skill]["value"] for r in results]) for results in chosen.values()]
        rows.append(f"| {skill} | " + " | ".join(f"{rate.value:.1f}" for rate in rates) + " |")
    return "\n".join(rows)


def plot_curves(groups: dict[tuple[str, int], list[dict[str, Any]]], file: Path) -> None:
    """Score of the training episodes over steps, one panel per number of steps, with the range over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    all_steps = sorted({steps for _, steps in groups})
    variants = list(dict.fromkeys(variant for variant, _ in groups))
    styles = {variant: line_style(k) for k, variant in enumerate(variants)}
    figure, axes = plt.subplots(1, len(all_steps), figsize=(6 * len(all_steps), 4), squeeze=False, layout="constrained")
    for axis, steps in zip(axes[0], all_steps, strict=True):
        for (variant, count), results in groups.items():
            if count != steps:
                continue
            curves = [
                [score(100 * np.array(point["succeeded"]) / point["episodes"]) for point in result["curve"]]
                for result in results
            ]
            length = min(len(curve) for curve in curves)
            values = np.array([curve[:length] for curve in curves])
            x = np.array([point["steps"] for point in results[0]["curve"][:length]]) / 1e6
            axis.plot(x, np.median(values, 0), label=variant, **styles[variant])
            axis.fill_between(x, values.min(0), values.max(0), alpha=0.15, color=styles[variant]["color"], linewidth=0)
        axis.set(xlabel="million steps", ylabel="score of training episodes, %", title=f"{steps / 1e6:g}M steps")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=7, loc="lower right", ncols=1 + (len(axis.lines) > 10))
    figure.savefig(file, dpi=110)


def format_commands(groups: dict[tuple[str, int], list[dict[str, Any]]]) -> str:
    """The commands that made the results, and their seeds."""
    first_seed = min(result["seed"] for results in groups.values() for result in results)
    text = "`python benchmarks/crafter_learners.py`, with the variants and numbers of seeds in the table"
    for steps in sorted({steps for _, steps in groups}.difference(DEFAULT_STEPS)):
        variants = " ".join(variant for variant, count in groups if count == steps)
        text += f"; for {steps:,} steps with\n`--variants {variants} --steps {steps}`"
    return f"{text}; the first seed is {first_seed}"


def write_page(folder: Path) -> str:
    groups = load_results(folder)
    plot_curves(groups, folder / "curves.png")
    published = "\n".join(
        f"| {steps:,} | {name} (published, from images) | | | {value} | {reward} | | | | |"
        for name, (steps, value, reward) in PUBLISHED.items()
    )
    published += "\n| | human experts (published, from images) | | | | | 50.5 | 14.3 | | |"
    privileged = ""
    if any("-unlocked" in variant for variant, _ in groups):
        privileged = " `-unlocked` sees which achievements are unlocked, which is privileged information."
    text = f"""# Learners in the original Crafter

{format_commands(groups)}; {describe_machines(result for results in groups.values() for result in results)}

Training without a designer. The training score is that of all training episodes, and of those in the last million
steps, which is what the published scores count (EnvGen, table 4). It is computed from the windows of the curves, a
fiftieth of a run each, that lie within the last million steps (in runs of 60 million, from the last window). The
training reward is that of the last 100,000 steps. Score and reward are those of the final policies in {EPISODES:,}
episodes on maps common to all runs; {PACKAGE_EPISODES} of these were also played in the `crafter` package.
Interquartile means over seeds with 95% bootstrap intervals; times are medians.{privileged}

{format_table(groups)}
{published}

{read_discussion(folder)}

![Training curves; bands are the range over seeds](curves.png)

{format_skills(groups)}
"""
    (folder / "README.md").write_text(text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument(
        "--steps", type=int, nargs="+", default=DEFAULT_STEPS, help="after each of these a run is evaluated"
    )
    parser.add_argument("--device", default="cpu", help="device of the network")
    parser.add_argument("--runs", type=Path, default=Path("out/crafter-learners"))
    add_options(parser, "crafter-learners", seeds=range(10, 18))
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    if not args.page:
        fixed = (args.steps, args.runs, args.results, num_threads(args), args.device)
        run_tasks(run, [(variant, seed, *fixed) for seed in args.seeds for variant in args.variants], args.jobs)
    print(write_page(args.results))


if __name__ == "__main__":
    main()
