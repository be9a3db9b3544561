"""Run directories for the tests of reports, written as JSON, with everything that a real one can hold."""

import json
import math
from pathlib import Path
from typing import Any

SKILLS = ("collect_wood", "place_table", "collect_diamond")
PLAN = {"cycles": 2, "levels": 2, "cycle_steps": 1000, "final_steps": 1000}


def write_json(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def write_lines(file: Path, lines: list[Any]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_train_run(
    folder: Path, designer: str = "llm", seed: int = 0, score: float = 20.0, finished: bool = True, word: str = "wood"
) -> Path:
    """A run of EnvGen with a conversation. `word` is part of every text that a language model wrote."""
    request = {
        "world": "crafter", "designer": {"name": designer}, "plan": PLAN, "observation": "symbols", "seed": seed,
        "learner": {"name": "ppo", "num_envs": 2},
    }  # fmt: skip
    write_json(folder / "run.json", {"format": 2, "request": request, "versions": {"envgen": "0.2.0"}})
    phases = ["cycle 1: levels", "cycle 1: original", "cycle 2: levels", "cycle 2: original", "final"]
    lines = []
    for k in range(60):
        wood = min(4 if designer == "llm" else 3, k // 10)
        result = {"episodes": 4, "return_sum": 4.0, "succeeded": [wood, wood // 2, 0]}
        lines.append({
            "phase": phases[k // 12], "steps": 50 * (k + 1), "updates": k, "entropy": 2 - k / 60, "length_sum": 400,
            "explained_variance": k / 60, "levels": [result], "seconds": 0.5, **result,
        })  # fmt: skip
    write_lines(folder / "progress.jsonl", lines)
    for cycle in (1, 2):
        write_cycle(folder / "cycles" / str(cycle), cycle, score, word)
    prompt, reply = f"Design levels. {word}", json.dumps({"levels": [], "reasoning": f"because {word}"})
    messages = [{"role": "user", "content": prompt}]
    more = [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": f"The result: {word}"}]
    write_lines(folder / "ledger.jsonl", [
        {"event": "request", "number": 1, "digest": "a", "backend": "b", "request": {"messages": messages}},
        {"event": "failure", "number": 1, "digest": "a", "kind": "retryable", "error": f"busy {word}", "seconds": 1.0},
        {"event": "request", "number": 2, "digest": "a", "backend": "b", "request": {"messages": messages}},
        {"event": "reply", "number": 2, "digest": "a", "text": reply, "model": f"model {word}", "finish": "stop",
         "usage": {"prompt_tokens": 900, "reply_tokens": 100, "cost": None}, "cost": 0.02, "seconds": 3.0},
        {"event": "validation", "digest": "a", "ok": False, "errors": [f"no such setting {word}"]},
        {"event": "request", "number": 3, "digest": "c", "backend": "b", "request": {"messages": more}},
        {"event": "reply", "number": 3, "digest": "c", "text": reply, "model": "m", "finish": "stop", "usage": {},
         "cost": 0.02, "seconds": 3.0},
        {"event": "validation", "digest": "c", "ok": True, "errors": []},
    ])  # fmt: skip
    if finished:
        write_json(folder / "summary.json", {
            "steps": {"levels": 1000, "original": 2000, "ranking": 0}, "seconds": 30.0,
            "training": {"episodes": 200, "score": score - 2, "reward": 3.0, "skills": {}},
            "final": evaluation(score),
            "llm": {"calls": 2.0, "prompt_tokens": 900.0, "reply_tokens": 100.0, "cost": 0.04},
        })  # fmt: skip
    return folder


def write_cycle(folder: Path, cycle: int, score: float, word: str) -> None:
    levels = [
        {"level": {"trees": "common", "near": {"table": True}}, "purpose": f"teach {word}", "skills": [SKILLS[0]]},
        {"level": {}, "purpose": f"the original {word}", "skills": [SKILLS[2]]},
    ]
    audits = [
        {"verdict": "good", "reasons": [], "findings": [f"trees grow {word}"]},
        {"verdict": "bad", "reasons": [f"impossible {word}"], "findings": []},
    ]
    proposal = {"levels": levels, "raw_reply": word, "notes": [f"a note {word}"], "candidates": []}
    write_json(folder / "levels.json", {"proposal": proposal, "audits": audits, "ranking_steps": 0, "seconds": 1.0})
    rates = {SKILLS[0]: 50.0, SKILLS[1]: 20.0, SKILLS[2]: 0.0}
    better = {name: min(100.0, rate * 1.5) for name, rate in rates.items()}
    outcome = {"episodes": 12, "reward": 2.0, "skills": rates, "first_third": rates, "last_third": better}
    success = {name: {"mean": rate / 3 * cycle, "std": 1.0} for name, rate in rates.items()}
    write_json(folder / "evaluation.json", {
        "cycle": {"number": cycle, "steps": 1000 * cycle, "outcomes": [outcome, None], "success_rates": success},
        "evaluation": evaluation(score * cycle / 3), "seconds": 1.0,
    })  # fmt: skip


def evaluation(score: float) -> dict[str, Any]:
    def around(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 1, "high": value + 1}

    skills = {name: around(max(1.0, score - 5 * k)) for k, name in enumerate(SKILLS)}
    return {"reward": around(3.0), "length": around(200.0), "score": around(score), "skills": skills}


def write_coevolve_run(
    folder: Path,
    proposer: str = "genenv",
    seed: int = 0,
    gain: float = 10.0,
    finished: bool = True,
    word: str = "stock",
) -> Path:  # fmt: skip
    request = {
        "domain": "tools", "proposer": {"name": proposer}, "curriculum": {"alpha": 0.5}, "seed": seed,
        "plan": {"rollouts": 2560, "num_eval_tasks": 100}, "agent": "",
    }  # fmt: skip
    write_json(folder / "run.json", {"format": 2, "request": request, "versions": {"envgen": "0.2.0"}})
    lines = []
    for step in range(21):
        counts = {"step": step, "rollouts": 128 * step, "tasks_proposed": 8 * step}
        tokens = {"agent_tokens": 2000 * step, "environment_tokens": 300 * step}
        line = {**counts, **tokens}
        if step:
            line |= {
                "proposed_success_rate": 0.3 + 0.2 * math.sin(step), "difficulty": 2 + step / 20, "fallback_tasks": 2,
                "rejected": {"malformed": 9, "unsolvable": 0, "held_out": 1, "duplicate": 2},
                "diversity": {"ngram_overlap": 0.1, "entropy": {"steps": 1.5, "app": 2.0}}, "seconds": {"rollout": 1.0},
            }  # fmt: skip
        if step % 5 == 0:
            line |= {"eval_accuracy": (30 + gain * step / 20) / 100, "eval_accuracy_by": {"steps": {"1": 0.5}}}
        lines.append(line)
    write_lines(folder / "progress.jsonl", lines)
    specs = [json.dumps({"steps": [word], "distractors": k, "style": "polite", "variation": k}, separators=(",", ":"))
             for k in range(5)]  # fmt: skip
    write_lines(folder / "tasks.jsonl", [
        {"key": str(k), "spec": spec, "step": k, "source": proposer, "success_rate": k / 4, "reward": 0.5}
        for k, spec in enumerate(specs)
    ])  # fmt: skip
    write_lines(folder / "agent_traces.jsonl", [
        {"key": f"{k}{score}", "spec": spec, "completion": f"{word}(item=salt)", "score": score}
        for k, spec in enumerate(specs) for score in (0.0, 1.0)
    ])  # fmt: skip
    if finished:
        write_json(folder / "summary.json", {
            "initial_accuracy": 30.0, "final_accuracy": 30.0 + gain, "mean_accuracy": 30 + gain / 2,
            "final_accuracy_by": {"steps": {"1": 90.0, "2": 20.0}},
            "accuracy_curve": [[128 * s, 2300 * s, 8 * s, 30 + gain * s / 20] for s in range(0, 21, 5)],
            "counts": {"step": 20, "rollouts": 2560, "tasks_proposed": 160, "agent_tokens": 40000,
                       "environment_tokens": 6000},
            "seconds": {"rollout": 20.0, "update": 10.0}, "total_seconds": 30.0,
        })  # fmt: skip
    return folder


def write_comparison(folder: Path) -> Path:
    """Two designers and two proposers, two seeds each, one run of them unfinished."""
    for seed in (0, 1):
        write_train_run(folder / f"none-{seed}", "none", seed, 15.0 + seed)
        write_train_run(folder / f"llm-{seed}", "llm", seed, 20.0 + 2 * seed)
        write_coevolve_run(folder / f"uniform-{seed}", "uniform", seed, 4.0 + seed)
        write_coevolve_run(folder / f"genenv-{seed}", "genenv", seed, 8.0 + seed, finished=seed == 0)
    return folder


HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'></style></title>"
    "<svg onload=window.hacked=3>\"' onmouseover='window.hacked=4' <!-- &lt; javascript:alert(1) \u202e \x00 \ud800"
)


def make_hostile(value: Any) -> Any:
    """Every text and name within a JSON value that nothing depends on becomes hostile, every number not a number."""
    if isinstance(value, str):
        return HOSTILE
    if isinstance(value, dict):
        return {HOSTILE + name: make_hostile(item) for name, item in value.items()} | {
            name: make_hostile(item) for name, item in value.items()
        }
    if isinstance(value, list):
        return [make_hostile(item) for item in value]
    return value if isinstance(value, bool) or value is None else math.nan
