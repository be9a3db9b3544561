"""Trained policies as release files with model cards.

    python tools/policies.py add RUN crafter-far --results docs/results/crafter-learners/symbols-far-60000000-10.json
    python tools/policies.py pack            # policies/*/ -> dist/*.zip, for a release or an upload to a hub

`add` saves the policy of a run in policies/NAME, with a card whose numbers come from a file of
`benchmarks/crafter_learners.py`. They must be the results of this run: its training statistics are computed again.
"""

import argparse
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
POLICIES, DIST = ROOT / "policies", ROOT / "dist"
FILES = ("README.md", "policy.json", "policy.safetensors")
TIMESTAMP = (2020, 1, 1, 0, 0, 0)  # of all files in an archive, so that the same files give the same archive

CARD = """---
license: mit
library_name: envgen
pipeline_tag: reinforcement-learning
tags: [reinforcement-learning, {world}, envgen]
model-index:
- name: {name}
  results:
  - task: {{type: reinforcement-learning, name: reinforcement-learning}}
    dataset: {{type: {world}, name: {world}}}
    metrics:
    - {{type: score, value: {score:.1f}, name: score}}
    - {{type: mean_reward, value: {reward:.1f}, name: reward}}
---
# {name}

A policy that plays {world} from `{observation}` observations, trained with envgen in {steps:,} steps
(variant `{variant}`, seed {seed}, {minutes:.0f} minutes on a shared machine).

In the following, `{name}` stands for the path of this folder. The name alone works if the folder or `{name}.zip` is
in `~/.cache/envgen/policies`.

```python
import envgen

policy = envgen.load_policy("{name}")
print(envgen.evaluate(policy, episodes=64))
```

From a shell: `envgen watch {name}`, `envgen evaluate {name} --video 3`.

## Results

The final policy, without learning, in the untouched original; the actions are sampled. Intervals are 95%, over
episodes. The numbers are those of `{results}`.

| played in | episodes | score % | reward | steps per episode |
|---|---:|---:|---:|---:|
{rows}

This is the policy of one seed; other seeds with the same settings give different results. In training, over all
episodes, the score was {training_score:.1f} and the reward of the last 100,000 steps {training_reward:.1f}.

| skill | success % |
|---|---:|
{skills}

## Files

`policy.safetensors` (network parameters) and `policy.json` (spaces, network class and settings). Nothing is pickled,
and loading the policy runs no code from these files. It needs envgen with the extra `train`.

## Use and limits

For research, teaching and comparison. The policy plays {world} from `{observation}` and nothing else.{memory}
"""


MEMORY = """ It remembers which
events of the episode were rewarded: call `policy.observe(reward, done)` after each step, as
`envgen.evaluate` does."""


def write_card(name: str, observation: str, has_memory: bool, results: Path) -> str:
    """The model card of a policy."""
    data = json.loads(results.read_text())
    played = {"envgen": data["final"], "the package `crafter`": data["package"]}
    final = data["final"]
    return CARD.format(
        name=name,
        world=final["world"],
        observation=observation,
        memory=MEMORY if has_memory else "",
        score=final["score"]["value"],
        reward=final["reward"]["value"],
        steps=data["steps"],
        variant=data["variant"],
        seed=data["seed"],
        minutes=data["seconds"] / 60,
        results=results.resolve().relative_to(ROOT).as_posix(),
        rows="\n".join(f"| {place} | {result['episodes']:,} | {_cells(result)} |" for place, result in played.items()),
        training_score=data["training"]["score"],
        training_reward=data["training"]["reward"],
        skills="\n".join(f"| `{skill}` | {rate['value']:.1f} |" for skill, rate in final["skills"].items()),
    )


def _cells(result: dict[str, Any]) -> str:
    return " | ".join(
        f"{result[key]['value']:.1f} [{result[key]['low']:.1f}, {result[key]['high']:.1f}]"
        for key in ("score", "reward", "length")
    )


def add(run: Path, name: str, results: Path) -> Path:
    """Save the policy of a run in policies/NAME, with its card."""
    import envgen
    from envgen.curriculum.trainer import training_stats
    from envgen.runs.store import read_progress

    request = json.loads((run / "run.json").read_text())["request"]
    skills = [skill.name for skill in envgen.make_world(request["world"]).skills]
    # of all training, as in the results; the summary of an extended run is of its last phase only
    stats = training_stats(read_progress(run), skills)
    trained = {
        "seed": request["seed"],
        "steps": request["plan"]["final_steps"],
        "training": stats and stats.model_dump(mode="json"),
    }
    data = json.loads(results.read_text())
    if different := [key for key, value in trained.items() if value != data[key]]:
        sys.exit(f"{results} has the results of another run than {run}: {', '.join(different)} differ")
    policy = envgen.load_policy(run)
    policy.metadata["name"] = name
    folder = policy.save(POLICIES / name)
    (folder / "README.md").write_text(write_card(name, request["observation"], policy.has_memory, results))
    return folder


def pack(folder: Path, out: Path) -> Path:
    """Write a policy's folder as a release file."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{folder.name}.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name in FILES:
            info = zipfile.ZipInfo(f"{folder.name}/{name}", TIMESTAMP)
            archive.writestr(info, (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description="Trained policies as release files with model cards.")
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="save the policy of a run in policies/NAME")
    adding.add_argument("run", type=Path)
    adding.add_argument("name")
    adding.add_argument("--results", type=Path, required=True)
    packing = commands.add_parser("pack", help="write release files of all policies")
    packing.add_argument("--out", type=Path, default=DIST)
    arguments = parser.parse_args()
    if arguments.command == "add":
        print(f"Written: {add(arguments.run, arguments.name, arguments.results)}")
        return
    for folder in sorted(path.parent for path in POLICIES.glob("*/policy.json")):
        print(f"Written: {pack(folder, arguments.out)}")


if __name__ == "__main__":
    main()
