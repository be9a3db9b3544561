"""Trains plain PPO in the original Crafter for a million steps, over several seeds.

    python benchmarks/crafter_learning.py            # from symbols; writes docs/results/crafter-ppo-symbols/
    python benchmarks/crafter_learning.py --observation pixels --network tiles    # docs/results/crafter-ppo-tiles/

Reports two measures. As published: the score over all training episodes, and the mean reward of the episodes that
ended in the last 100,000 steps. Of the final policy: evaluation episodes, in envgen and in the `crafter` package.
An interrupted benchmark resumes where it stopped.
"""

import argparse
import datetime
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from envgen.api import load_policy
from envgen.curriculum.display import TrainDisplay
from envgen.curriculum.evaluate import evaluate, score
from envgen.curriculum.loop import train
from envgen.curriculum.plan import TrainingPlan
from envgen.curriculum.trainer import REWARD_WINDOW, training_stats
from envgen.designers.baselines import NoDesigner
from envgen.runs.store import read_progress
from envgen.worlds.crafter.world import Crafter
from training_runs import describe_machine, split_progress

PUBLISHED = {"score": 15.5, "reward": 10.5}  # from images, with a network of 4M parameters (EnvGen, table 1)


def run_seed(
    folder: Path,
    observation: str,
    learner_settings: dict[str, Any],
    seed: int,
    steps: int,
    episodes: int,
    package_episodes: int,
) -> dict:
    world, start = Crafter(), time.perf_counter()
    with TrainDisplay([skill.name for skill in world.skills], steps) as display:
        plan = TrainingPlan(cycles=0, final_steps=steps, episodes=episodes)
        final = train(
            folder, world, NoDesigner(), plan, observation, seed, "ppo", learner_settings, on_progress=display
        ).final
    agent = load_policy(folder)
    lines = list(read_progress(folder))
    training_seconds = steps / np.median([line["steps_per_second"] for line in lines])
    envs = world.reference_envs(min(64, package_episodes), final.seed, observation, package_episodes)
    package = evaluate(agent, world, None, package_episodes, final.seed, envs=envs)
    print(f"seed {seed}: {training_seconds:.0f} s of training, {time.perf_counter() - start:.0f} s in total")
    return {
        "seed": seed,
        "seconds": round(training_seconds),
        **training_results(lines),
        "final": final,
        "package": package,
    }


def training_results(lines: list[dict]) -> dict:
    """Score and reward of the training episodes as published, and their curves."""
    stats = training_stats(lines, [skill.name for skill in Crafter().skills])
    assert stats is not None, "no episode ended"
    curve = []
    for steps, window in split_progress(lines):
        count = sum(line["episodes"] for line in window)
        rates = 100 * np.sum([line["succeeded"] for line in window], axis=0) / count
        curve.append([steps, sum(line["return_sum"] for line in window) / count, score(rates)])
    return {
        "score": stats.score,
        "reward": stats.reward,
        "rates": list(stats.skills.values()),
        "curve": np.round(curve, 3).tolist(),
    }


def format_interval(values: list[float]) -> str:
    """Mean and 95% interval over seeds (Student's t)."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    half_width = float(student_t.ppf(0.975, len(values) - 1)) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.1f} ± {half_width:.1f}"


def format_table(seeds: list[dict], skill_names: list[str]) -> str:
    def values(evaluation: str, measure: str) -> list[float]:
        return [getattr(result[evaluation], measure).value for result in seeds]

    rows = ["| | score % | reward |", "|---|---:|---:|"]
    rows.append(f"| published, from images, 1M steps | {PUBLISHED['score']} ± 0.6 | {PUBLISHED['reward']} ± 0.6 |")
    score_interval = format_interval([result["score"] for result in seeds])
    reward_interval = format_interval([result["reward"] for result in seeds])
    rows.append(
        f"| envgen, training (score: all episodes; reward: the last {REWARD_WINDOW:,} steps) "
        f"| {score_interval} | {reward_interval} |"
    )
    for key, label in (("final", "envgen, the final policy"), ("package", "the same in the `crafter` package")):
        rows.append(f"| {label} | {format_interval(values(key, 'score'))} | {format_interval(values(key, 'reward'))} |")
    rows += ["", "| skill | in training % | final policy % | in the package % |", "|---|---:|---:|---:|"]
    for k, name in enumerate(skill_names):
        rates = [[result["rates"][k] for result in seeds]]
        rates += [[result[key].skills[name].value for result in seeds] for key in ("final", "package")]
        rows.append(f"| {name} | " + " | ".join(format_interval(r) for r in rates) + " |")
    return "\n".join(rows)


def plot_curves(seeds: list[dict], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, column, name in ((axes[0], 1, "reward"), (axes[1], 2, "score")):
        for result in seeds:
            curve = np.array(result["curve"])
            axis.plot(curve[:, 0] / 1e6, curve[:, column], alpha=0.6, linewidth=1, label=f"seed {result['seed']}")
        axis.set(xlabel="million environment steps", ylabel=name, title=f"{name} of training episodes")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0].axhline(PUBLISHED["reward"], linestyle=":", color="black", label="published, images, 1M")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--episodes", type=int, default=512, help="episodes of the final evaluation")
    parser.add_argument("--package-episodes", type=int, default=128, help="evaluation episodes in the crafter package")
    parser.add_argument("--observation", choices=["symbols", "pixels"], default="symbols")
    parser.add_argument("--network", choices=["symbols", "tiles", "impala"], help="by default symbols or impala")
    parser.add_argument("--learning-rate", type=float, help="by default that of the network")
    parser.add_argument("--final-learning-rate", type=float, help="reached linearly; by default it is constant")
    parser.add_argument("--runs", type=Path, help="by default out/crafter-ppo-NETWORK")
    parser.add_argument("--results", type=Path, help="by default docs/results/crafter-ppo-NETWORK")
    args = parser.parse_args()
    network = args.network or {"symbols": "symbols", "pixels": "impala"}[args.observation]
    runs = args.runs or Path(f"out/crafter-ppo-{network}")
    results = args.results or Path(f"docs/results/crafter-ppo-{network}")

    rates = {name: getattr(args, name) for name in ("learning_rate", "final_learning_rate") if getattr(args, name)}
    settings = {"network": {"encoder": network}, **rates}

    skill_names = [skill.name for skill in Crafter().skills]
    sizes = args.steps, args.episodes, args.package_episodes
    seeds = [run_seed(runs / str(seed), args.observation, settings, seed, *sizes) for seed in args.seeds]
    num_agreeing = {
        measure: sum(
            getattr(result["final"], measure).agrees_with(getattr(result["package"], measure)) for result in seeds
        )
        for measure in ("reward", "score")
    }
    seconds = [result["seconds"] for result in seeds]
    options = f"--steps {args.steps} --seeds {' '.join(map(str, args.seeds))}"
    if network != "symbols":
        options = f"--observation {args.observation} --network {network} {options}"
    for name, rate in rates.items():
        options += f" --{name.replace('_', '-')} {rate}"
    source = "symbols" if network == "symbols" else f"{args.observation} ({network})"
    text = f"""# Plain PPO from {source} in the original Crafter

`python benchmarks/crafter_learning.py {options}`,
{datetime.date.today()}, {len(seeds)} seeds, {describe_machine()}

Training took {min(seconds)} to {max(seconds)} s per seed. Intervals are 95% over seeds. Each final policy played
{args.episodes} episodes in envgen and {args.package_episodes} in the package; the 95% interval of their difference
includes 0 for {num_agreeing["reward"]} of {len(seeds)} rewards and {num_agreeing["score"]} of {len(seeds)} scores;
without any difference, one interval in twenty misses 0.

{format_table(seeds, skill_names)}

![Training curves](curves.png)
"""
    results.mkdir(parents=True, exist_ok=True)
    (results / "README.md").write_text(text)
    seeds_json = json.dumps(seeds, default=lambda evaluation: evaluation.model_dump(mode="json"))
    (results / "seeds.json").write_text(seeds_json + "\n")
    plot_curves(seeds, results / "curves.png")
    print(text)


if __name__ == "__main__":
    main()
