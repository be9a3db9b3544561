"""The published results and levels as a data set folder with a card, in the format of the Hugging Face Hub.

    python tools/dataset.py            # docs/results -> dist/envgen-results

The folder holds JSON Lines files, which `datasets.load_dataset("dist/envgen-results", "levels")` and pandas read:
`levels.jsonl` (every level that a designer proposed), `runs.jsonl` (every run of EnvGen), `learners.jsonl` (runs
without a designer) and `coevolution.jsonl` (every run of GenEnv).
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import envgen

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
DESCRIPTIONS = {
    "levels": "one level that a designer proposed for one cycle: what it changes, its purpose, its audit",
    "runs": "one run of the EnvGen loop: settings, steps, score in training and of the final policy, skills",
    "learners": "one run without a designer: score in training, of the final policy, and in the `crafter` package",
    "coevolution": "one run of the GenEnv loop: proposer, held-out accuracy, rollouts and tokens",
}
SETTINGS = ("designer", "plan", "learner", "practice", "initial_policy")  # of a request
CARD = """---
license: mit
pretty_name: Results and levels of envgen
language: [en]
tags: [reinforcement-learning, environment-design, curriculum-learning, crafter, procgen]
size_categories: [1K<n<10K]
configs:
{configs}
---
# Results and levels of envgen

The levels that the designers of [EnvGen](https://arxiv.org/abs/2403.12014) proposed in the published comparisons of
envgen, and the results of all runs: with these levels, without a designer, and with the proposers of
[GenEnv](https://arxiv.org/abs/2512.19682). Made with `python tools/dataset.py` by version {version} from
`docs/results`.

| configuration | rows | each row |
|---|---:|---|
{table}

```python
from datasets import load_dataset

levels = load_dataset("path/to/this/folder", "levels", split="train")
```

- `study` and `run` identify a run; runs of one designer can differ in their settings.
- `level`, `chain`, `settings` and `skills` are JSON in a string, because worlds and designers have different fields.
  A level with a `chain` is its first stage.
  `envgen.make_world(row["world"]).Level.parse(json.loads(row["level"]))` makes the level again.
- Scores and success rates are percentages. `training` counts all training episodes of the last phase, `final` those of
  the final policy in the untouched original. Do not compare one with the other.
- How each comparison was made, and what its numbers do and do not show, is in the page that `study` names:
  `docs/results/<study>/README.md` of the project.

The purposes of the designer `llm` were written by a language model. The other texts are made by rules.
"""


def read_json(file: Path) -> Any:
    return json.loads(file.read_text())


def _run_directories() -> Iterator[tuple[str, Path, dict[str, Any]]]:
    for file in sorted(RESULTS.glob("*/runs/*/run.json")):
        yield file.parents[2].name, file.parent, read_json(file)["request"]


def level_rows() -> Iterator[dict[str, Any]]:
    for study, run, request in _run_directories():
        for file in sorted(run.glob("cycles/*/levels.json")):
            cycle = read_json(file)
            for number, (proposed, audit) in enumerate(
                zip(cycle["proposal"]["levels"], cycle["audits"], strict=True), 1
            ):
                yield {
                    "study": study, "world": request["world"], "designer": request["designer"]["name"],
                    "run": run.name, "seed": request["seed"], "cycle": int(file.parent.name), "number": number,
                    "level": json.dumps(proposed["level"]), "chain": _to_json(proposed.get("chain")),
                    "weight": proposed.get("weight"), "purpose": proposed["purpose"],
                    "skills": json.dumps(proposed["skills"]), "audit": audit["verdict"],
                }  # fmt: skip


def run_rows() -> Iterator[dict[str, Any]]:
    for study, run, request in _run_directories():
        if "world" not in request:
            continue
        summary = read_json(run / "summary.json")
        training, final = summary["training"] or {}, summary["final"]
        yield {
            "study": study, "world": request["world"], "designer": request["designer"]["name"],
            "run": run.name, "observation": request["observation"], "seed": request["seed"],
            "level_steps": summary["steps"]["levels"], "original_steps": summary["steps"]["original"],
            "training_score": training.get("score"), "training_reward": training.get("reward"),
            "final_score": (final["score"] or {}).get("value"), "final_reward": final["reward"]["value"],
            "episodes": final["episodes"], "skills": json.dumps(_values(final["skills"])),
            "settings": json.dumps({key: request.get(key) for key in SETTINGS}),
        }  # fmt: skip


def learner_rows() -> Iterator[dict[str, Any]]:
    for file in sorted((RESULTS / "crafter-learners").glob("*.json")):
        result = read_json(file)
        yield {
            "study": "crafter-learners", "world": "crafter", "variant": result["variant"], "seed": result["seed"],
            "steps": result["steps"], "seconds": result["seconds"],
            "training_score": result["training"]["score"], "training_reward": result["training"]["reward"],
            "final_score": result["final"]["score"]["value"], "final_reward": result["final"]["reward"]["value"],
            "package_score": result["package"]["score"]["value"], "episodes": result["final"]["episodes"],
            "skills": json.dumps(_values(result["final"]["skills"])),
        }  # fmt: skip


def coevolution_rows() -> Iterator[dict[str, Any]]:
    for study, run, request in _run_directories():
        if "domain" not in request:
            continue
        summary = read_json(run / "summary.json")
        yield {
            "study": study, "domain": request["domain"], "proposer": request["proposer"]["name"], "run": run.name,
            "seed": request["seed"], "initial_accuracy": summary["initial_accuracy"],
            "final_accuracy": summary["final_accuracy"], "rollouts": summary["counts"]["rollouts"],
            "agent_tokens": summary["counts"]["agent_tokens"],
            "environment_tokens": summary["counts"]["environment_tokens"],
            "settings": json.dumps({key: request[key] for key in ("proposer", "curriculum", "agent_settings")}),
        }  # fmt: skip


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _values(skills: dict[str, Any]) -> dict[str, float]:
    return {skill: rate["value"] for skill, rate in skills.items()}


def build(out: Path) -> dict[str, int]:
    """Write the data set; return the number of rows of each configuration."""
    tables = {
        "levels": list(level_rows()), "runs": list(run_rows()), "learners": list(learner_rows()),
        "coevolution": list(coevolution_rows()),
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    card = CARD.format(
        version=envgen.__version__,
        configs="\n".join(f"- config_name: {name}\n  data_files: {name}.jsonl" for name in tables),
        table="\n".join(f"| `{name}` | {len(rows):,} | {DESCRIPTIONS[name]} |" for name, rows in tables.items()),
    )
    (out / "README.md").write_text(card)
    shutil.copy(ROOT / "LICENSE", out / "LICENSE")
    return {name: len(rows) for name, rows in tables.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="The published results and levels as a data set folder.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "envgen-results")
    out = parser.parse_args().out
    for name, count in build(out).items():
        print(f"{out / name}.jsonl: {count:,} rows")


if __name__ == "__main__":
    main()
