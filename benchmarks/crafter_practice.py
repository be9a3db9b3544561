"""Does practice help? PPO in the original Crafter from symbols, with and without a share of practice.

    python benchmarks/crafter_practice.py --seeds 10 11 12 13 14        # runs in out/crafter-practice/
    python benchmarks/crafter_practice.py --practice share=0.1 max_steps=none

Both variants train for the same number of steps, including those of practice. Their final policies play the same 1,024
episodes on maps that training never uses. Interrupted runs resume, and finished runs are not repeated.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import envgen
from envgen.runs.compare import compare
from envgen.runs.statistics import iqm_with_ci
from training_runs import EVALUATION_SEED

EPISODES = 1024


def parse_setting(text: str) -> tuple[str, Any]:
    """`max_steps=100` or `max_steps=none`"""
    name, _, value = text.partition("=")
    return name, None if value == "none" else json.loads(value)


def run(folder: Path, seed: int, steps: int, practice: dict[str, Any]) -> Any:
    """Train one variant with one seed, and evaluate its final policy."""
    plan = {"cycles": 0, "final_steps": steps, "episodes": EPISODES}
    finished = envgen.train("crafter", "none", plan=plan, seed=seed, folder=folder, practice=practice)
    return envgen.evaluate(finished, EPISODES, seed=EVALUATION_SEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--steps", type=int, default=1_960_000)
    parser.add_argument("--practice", type=parse_setting, nargs="*", default=[], help="settings such as share=0.1")
    parser.add_argument("--runs", type=Path, default=Path("out/crafter-practice"))
    args = parser.parse_args()
    practice = {"share": 0.2, **dict(args.practice)}
    label = " ".join(f"{name}={value}" for name, value in practice.items())
    variants = {"no practice": {}, label: practice}
    evaluations: dict[str, list[Any]] = {name: [] for name in variants}
    for seed in args.seeds:
        for name, settings in variants.items():
            folder = args.runs / name.replace(" ", "-") / str(seed)
            evaluations[name].append(run(folder, seed, args.steps, settings))
            print(f"{name}, seed {seed}: score {evaluations[name][-1].score}", flush=True)
    print(compare([args.runs]).markdown())
    print(f"\nThe final policies in the same {EPISODES:,} episodes:")
    for name, results in evaluations.items():
        score, reward = (iqm_with_ci([getattr(r, field).value for r in results]) for field in ("score", "reward"))
        print(f"{name}: score {score}, reward {reward}")
        skills = {skill: iqm_with_ci([r.skills[skill].value for r in results]).value for skill in results[0].skills}
        print("  " + ", ".join(f"{skill} {value:.1f}" for skill, value in skills.items()))
    if len(args.seeds) > 1:
        pairs = zip(*evaluations.values(), strict=True)
        differences = iqm_with_ci([with_practice.score.value - without.score.value for without, with_practice in pairs])
        print(f"difference in score, paired by seed: {differences}")


if __name__ == "__main__":
    main()
