"""Random search, with successive halving, over the settings of PPO, its network and practice in the original Crafter.

    python benchmarks/crafter_sweep.py --trials 24 --rungs 1000000 3000000 10000000
    python benchmarks/crafter_sweep.py --list         # the trials so far, best first

Every trial draws hyperparameters at random. All trials train to the first rung, the best third goes on to the next, and
so on (successive halving, Jamieson & Talwalkar 2016, with a factor of 3). The measure is the score of the training
episodes in the last tenth before the rung, averaged over the seeds. Schedules of the learning rate end at the last
rung, so that a trial that goes on has not annealed too early. Tune on seeds 0 to 2 and confirm on others.

Trials are written to out/crafter-sweep/trials.jsonl; an interrupted sweep continues where it stopped.
"""

import argparse
import json
from collections.abc import Callable
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import numpy as np

import envgen
from envgen.runs.statistics import score
from envgen.runs.store import read_progress
from training_runs import call_in_worker, worker_pool

SPACE: dict[str, list[Any]] = {
    "learning_rate": [3e-4, 4e-4, 7e-4, 1e-3],
    "final_learning_rate": [None, 5e-5, 1e-4],
    "gamma": [0.95, 0.97, 0.99, 0.995],
    "gae_lambda": [0.65, 0.8, 0.9],
    "ent_coef": [0.003, 0.01, 0.02],
    "num_envs": [128, 256],
    "num_steps": [32, 64, 128],
    "num_minibatches": [4, 8],
    "update_epochs": [2, 3, 4],
    "clip_coef": [0.1, 0.2],
    "max_grad_norm": [0.5, 1.0],
    "network.history": [False, True],
    "network.memory": ["none", "none", "mingru"],
    "network.unimix": [0.0, 0.01, 0.03],
    "network.width": [256, 384],
    "network.depth": [1, 2],
    "practice.share": [0.0, 0.2, 0.4, 0.6],
}
LAST_SHARE = 0.1  # of a rung's steps, over which the score is measured


def sample(index: int) -> dict[str, Any]:
    """The hyperparameters of a trial."""
    rng = np.random.default_rng([20261122, index])
    return {name: values[rng.integers(len(values))] for name, values in SPACE.items()}


def train_to(folder: Path, values: dict[str, Any], seed: int, steps: int, last_steps: int, threads: int) -> float:
    """Train a trial to `steps`, from where it is, and return its score in percent."""
    import torch

    torch.set_num_threads(threads)
    network, practice = (
        {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
        for prefix in ("network.", "practice.")
    )
    hyperparameters = {name: value for name, value in values.items() if "." not in name}
    hyperparameters["anneal_steps"] = last_steps
    envgen.train(
        "crafter", "none", plan={"cycles": 0, "final_steps": steps, "episodes": 64}, seed=seed, folder=folder,
        network=network, hyperparameters=hyperparameters, practice=practice,
        extend=(folder / "summary.json").exists(), verbose=False,
    )  # fmt: skip
    lines = [line for line in read_progress(folder) if line["steps"] > (1 - LAST_SHARE) * steps and line["episodes"]]
    episodes = sum(line["episodes"] for line in lines)
    return float(score(100 * np.sum([line["succeeded"] for line in lines], axis=0) / episodes))


def run_rung(
    trials: list[int], steps: int, args: argparse.Namespace, scores: dict[tuple[int, int], dict[int, float]],
    record: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    """Train each trial with each seed to a rung, unless its score is known."""
    with worker_pool(args.jobs) as executor:
        futures = {}
        for trial in trials:
            for seed in args.seeds:
                if seed not in scores.setdefault((trial, steps), {}):
                    folder = args.folder / f"trial-{trial}" / str(seed)
                    task = folder, sample(trial), seed, steps, args.rungs[-1], args.threads
                    futures[executor.submit(call_in_worker, train_to, *task)] = trial, seed
        for future in as_completed(futures):
            trial, seed = futures[future]
            if future.exception() is not None:
                executor.shutdown(cancel_futures=True)  # after the trials in progress, whose scores are lost
            scores[trial, steps][seed] = future.result()
            record({"trial": trial, "seed": seed, "steps": steps, "score": future.result(), "values": sample(trial)})


def load_scores(file: Path) -> dict[tuple[int, int], dict[int, float]]:
    scores: dict[tuple[int, int], dict[int, float]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        entry = json.loads(line)
        scores.setdefault((entry["trial"], entry["steps"]), {})[entry["seed"]] = entry["score"]
    return scores


def print_ranking(scores: dict[tuple[int, int], dict[int, float]]) -> None:
    for trial, steps in sorted(scores, key=lambda key: (-key[1], -np.mean(list(scores[key].values())))):
        values = list(scores[trial, steps].values())
        settings = " ".join(f"{name}={value}" for name, value in sample(trial).items())
        print(f"{steps:>11,} steps  score {np.mean(values):5.1f}  seeds {len(values)}  trial {trial:>3}  {settings}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument(
        "--rungs", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000],
        help="steps after which the best third of the trials goes on",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each trial")
    parser.add_argument("--folder", type=Path, default=Path("out/crafter-sweep"))
    parser.add_argument("--list", action="store_true", help="train nothing, print the trials so far")
    args = parser.parse_args()
    file = args.folder / "trials.jsonl"
    scores = load_scores(file)
    if not args.list:
        args.folder.mkdir(parents=True, exist_ok=True)
        trials = list(range(args.trials))
        with file.open("a") as stream:

            def record(entry: dict[str, Any]) -> None:
                print(json.dumps(entry), file=stream, flush=True)
                print(f"trial {entry['trial']}, seed {entry['seed']}, {entry['steps']:,} steps: {entry['score']:.1f}")

            for steps in args.rungs:
                run_rung(trials, steps, args, scores, record)
                trials.sort(key=lambda trial: -np.mean(list(scores[trial, steps].values())))
                trials = trials[: max(1, len(trials) // 3)]
    print_ranking(scores)


if __name__ == "__main__":
    main()
