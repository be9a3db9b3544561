"""What plain PPO learns in the original Crafter from a million steps of symbols, over several seeds.

    python benchmarks/crafter_learning.py            # writes docs/results/crafter-ppo-symbols/

Two measures. As published: the score over all training episodes, and the mean reward of those that ended in the last
100,000 steps. And of the final policy itself: episodes it did not learn from, here and in the `crafter` package.
A run that was interrupted goes on where it was.
"""

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path

import numpy as np

from envgen.cli.judge import agent_of
from envgen.curriculum.display import TrainDisplay
from envgen.curriculum.evaluate import Evaluation, evaluate, score
from envgen.curriculum.loop import train
from envgen.curriculum.plan import TrainingPlan
from envgen.curriculum.window import REWARD_WINDOW, training_stats
from envgen.designers.baselines import NoDesigner
from envgen.runs.store import read_progress, versions
from envgen.worlds.crafter.world import Crafter

PUBLISHED = {"score": 15.5, "reward": 10.5}  # from pictures, a network of 4M parameters (EnvGen, table 1)
POINTS = 50  # of the curve
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # 97.5%, by seeds


def one_seed(folder: Path, seed: int, steps: int, episodes: int, package_episodes: int) -> dict:
    world, began = Crafter(), time.perf_counter()
    with TrainDisplay([skill.name for skill in world.skills], steps) as display:
        plan = TrainingPlan(cycles=0, final_steps=steps, episodes=episodes)
        found = train(folder, world, NoDesigner(), plan, seed=seed, on_progress=display).final
    agent, _, _ = agent_of(folder)
    lines = list(read_progress(folder))
    spent = steps / np.median([line["steps_per_second"] for line in lines])
    envs = world.published(min(64, package_episodes), found.seed, "symbols", package_episodes)
    package = evaluate(agent, world, None, package_episodes, found.seed, envs=envs)
    print(f"seed {seed}: {spent:.0f} s of training, {time.perf_counter() - began:.0f} s in all")
    return {"seed": seed, "seconds": round(spent), **training_figures(lines), "final": found, "package": package}


def training_figures(lines: list[dict]) -> dict:
    """Score and reward as published, and how they came about."""
    window = training_stats(lines, [skill.name for skill in Crafter().skills])
    assert window is not None, "no episode ended"
    curve = []
    for part in np.array_split(np.arange(len(lines)), min(POINTS, len(lines))):
        told = [lines[k] for k in part if lines[k]["episodes"]]
        if count := sum(line["episodes"] for line in told):
            rates = 100 * np.sum([line["succeeded"] for line in told], axis=0) / count
            curve.append([lines[part[-1]]["steps"], sum(line["return_sum"] for line in told) / count, score(rates)])
    return {
        "score": window.score,
        "reward": window.reward,
        "rates": list(window.skills.values()),
        "curve": np.round(curve, 3).tolist(),
    }


def interval(values: list[float]) -> str:
    """Mean and 95% interval over seeds (Student's t)."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    half = STUDENT.get(len(values), 2.0) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.1f} ± {half:.1f}"


def table(seeds: list[dict], names: list[str]) -> str:
    def evaluated(which: str, figure: str) -> list[float]:
        return [getattr(one[which], figure).value for one in seeds]

    rows = ["| | score % | reward |", "|---|---:|---:|"]
    rows.append(f"| published, from pictures, 1M steps | {PUBLISHED['score']} ± 0.6 | {PUBLISHED['reward']} ± 0.6 |")
    rows.append(f"| envgen, all training episodes / the last {REWARD_WINDOW:,} steps "
                f"| {interval([s['score'] for s in seeds])} | {interval([s['reward'] for s in seeds])} |")  # fmt: skip
    for which, words in (("final", "envgen, the final policy"), ("package", "the same in the `crafter` package")):
        rows.append(f"| {words} | {interval(evaluated(which, 'score'))} | {interval(evaluated(which, 'reward'))} |")
    rows += ["", "| skill | in training % | final policy % | in the package % |", "|---|---:|---:|---:|"]
    for k, name in enumerate(names):
        rates = [[s["rates"][k] for s in seeds]]
        rates += [[one[which].skills[name].value for one in seeds] for which in ("final", "package")]
        rows.append(f"| {name} | " + " | ".join(interval(r) for r in rates) + " |")
    return "\n".join(rows)


def picture(seeds: list[dict], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, column, name in ((axes[0], 1, "reward"), (axes[1], 2, "score")):
        for one in seeds:
            curve = np.array(one["curve"])
            axis.plot(curve[:, 0] / 1e6, curve[:, column], alpha=0.6, linewidth=1, label=f"seed {one['seed']}")
        axis.set(xlabel="million environment steps", ylabel=name, title=f"{name} of training episodes")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0].axhline(PUBLISHED["reward"], linestyle=":", color="black", label="published, pictures, 1M")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--episodes", type=int, default=512, help="of the final evaluation")
    parser.add_argument("--package-episodes", type=int, default=128, help="in the crafter package")
    parser.add_argument("--runs", type=Path, default=Path("out/crafter-ppo-symbols"))
    parser.add_argument("--results", type=Path, default=Path("docs/results/crafter-ppo-symbols"))
    args = parser.parse_args()

    names = [skill.name for skill in Crafter().skills]
    seeds = [
        one_seed(args.runs / str(seed), seed, args.steps, args.episodes, args.package_episodes) for seed in args.seeds
    ]
    agree = {
        what: sum(getattr(s["final"], what).agrees(getattr(s["package"], what)) for s in seeds)
        for what in ("reward", "score")
    }
    spent = [one["seconds"] for one in seeds]
    text = f"""# Plain PPO from symbols in the original Crafter

`python benchmarks/crafter_learning.py --steps {args.steps} --seeds {" ".join(map(str, args.seeds))}`,
{datetime.date.today()}, {len(seeds)} seeds, {os.cpu_count()} cores ({platform.machine()}),
{", ".join(f"{name} {number}" for name, number in versions().items())}.

Training took {min(spent)} to {max(spent)} s a seed. Intervals: 95% over seeds. Each final policy played {args.episodes}
episodes here and {args.package_episodes} in the package; they agree within their intervals for {agree["reward"]} of
{len(seeds)} rewards and {agree["score"]} of {len(seeds)} scores.

{table(seeds, names)}

![curves](curves.png)
"""
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "README.md").write_text(text)
    plain_seeds = [
        {k: v.model_dump(mode="json") if isinstance(v, Evaluation) else v for k, v in one.items()} for one in seeds
    ]
    (args.results / "seeds.json").write_text(json.dumps(plain_seeds) + "\n")
    picture(seeds, args.results / "curves.png")
    print(text)


if __name__ == "__main__":
    main()
