"""Convert run directories of format 1, whose `run.json` has no "format", to format 2.

Format 2 has the same content under other names. The tables below list every rename: of settings, results, checkpoint
arrays and, for Heist, of a level's settings. What a language model wrote, and texts written for people (the findings of
an audit, the notes of a proposal), stay as they are.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoint
from .files import exists, parse_json, read_regular, write_flushed
from .store import FORMAT, PROGRESS, RunError, lock_folder, read_entry, read_json, write_json

Names = Mapping[str, str]  # old name: new name

# --- EnvGen

PPO_SETTINGS: Names = {
    "rollout": "num_steps",
    "clip": "clip_coef",
    "value_coef": "vf_coef",
    "entropy_coef": "ent_coef",
    "minibatches": "num_minibatches",
    "epochs": "update_epochs",
    "normalise_advantages": "norm_adv",
    "value_decay": "return_norm_decay",
    "bootstrap_limit": "bootstrap_on_truncation",
    "overlap": "async_collect",
}
TRAINING_PLAN: Names = {"feedback_seeds": "feedback_groups"}
DESIGNER_SETTINGS: Mapping[str, Names] = {  # by the name of the designer
    "alpha": {"rate": "learning_rate", "keep": "keep_prob"},
    "random": {"keep": "keep_prob"},
    "expert": {"known": "prerequisite_threshold", "mastered": "mastery_threshold"},
    "fixed": {"first": "source"},
    "llm": {"reasks": "max_retries", "schema_reply": "json_schema", "reply_tokens": "max_reply_tokens"},
}
HEIST_LEVEL: Names = {
    "held": "held_keys",
    "open": "open_doors",
    "keys_away": "key_distance",
    "gem_away": "gem_distance",
}
PROPOSAL: Names = {"said": "raw_reply", "pool": "candidates"}
AUDIT: Names = {"word": "verdict", "facts": "findings"}
CYCLE: Names = {"verdicts": "audits", "learned": "outcomes", "skills": "success_rates"}
OUTCOME: Names = {"first": "first_third", "last": "last_third"}
PROGRESS_LINE: Names = {"clip_fraction": "clipfrac"}
PHASES: Names = {"finished": "finished_phases", "running": "current_phase"}
RANDOM_STATES: Names = {"playing": "action_rng", "shuffling": "shuffle_rng"}
AGENT_ARRAYS: Names = {  # prefixes, the longest match counts
    "network.choice.": "network.policy_head.",
    "network.value.": "network.value_head.",
    "network.head.log_spread": "network.action_dist.log_std",
    "network.body.": "network.encoder.",
    "network.body.first.table": "network.encoder.embedding.embedding",
    "network.body.first.slopes": "network.encoder.embedding.scalar_weight",
    "network.body.first.": "network.encoder.embedding.",
    "normaliser.mean_": "return_normalizer.running_mean",
    "normaliser.square_": "return_normalizer.running_mean_sq",
    "normaliser.weight_": "return_normalizer.debiasing_term",
    "adam.": "optimizer.",
    "stream.env.": "runner.env.",
    "stream.env.out": "runner.env.obs",
    "stream.env.menu": "runner.env.env_level_ids",
    "stream.env.by_chance": "runner.env.sample_levels",
    "stream.env.things": "runner.env.entities",
    "stream.returns": "runner.episode_returns",
    "stream.lengths": "runner.episode_lengths",
    "stream.begins": "runner.needs_reset",
    "ahead.": "prefetched.",
    "ahead.seen": "prefetched.obs",
    "ahead.log_probs": "prefetched.logprobs",
    "ahead.ends": "prefetched.dones",
    "ahead.episodes.skills": "prefetched.episodes.skill_counts",
}
RESIDUAL_LAYERS = (".steps.", ".layers.")  # within network.encoder.stacks.N
EVALUATION: Names = {"greedy": "deterministic"}
LEDGER_EVENTS: Names = {"verdict": "validation"}
LEDGER_FAILURES: Names = {"busy": "retryable", "lost": "ambiguous", "refused": "rejected"}


def migrate_run(folder: Path) -> bool:
    """Convert a run directory of format 1, of `train` or `coevolve`, in place to format 2.

    The directory is converted as a copy that then takes its place. After an interruption, convert it again. The result
    can be compared and evaluated. A run of `train` cannot be resumed, because the learner has more settings now.

    Returns:
        False if the run already has format 2.
    """
    folder = folder.resolve()
    copy, backup = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("migrating", "format-1"))
    if backup.exists() and not folder.exists():  # an earlier conversion was interrupted between its two renames
        os.rename(backup, folder)
    entry = read_entry(folder, any_format=True)
    version = entry.get("format", 1)
    if version == FORMAT:
        for leftover in (copy, backup):  # of a conversion that was interrupted
            shutil.rmtree(leftover, ignore_errors=True)
        return False
    if version != 1:
        raise RunError(
            f"{folder} has the format {version!r:.20}, but only format 1 can be converted to {FORMAT}; "
            "install the version of envgen that wrote it"
        )
    with lock_folder(folder) as lock:
        try:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy, symlinks=True)
            _migrate_files(copy, entry)
            if os.name == "nt":  # there are no locks, and folders with open files cannot be renamed
                lock.close()
            os.rename(folder, backup)
            os.rename(copy, folder)
        except (OSError, RunError, ValueError, LookupError, TypeError, AttributeError) as error:
            shutil.rmtree(copy, ignore_errors=True)
            raise RunError(f"cannot convert {folder}: {_describe_failure(error)}") from error
        try:
            shutil.rmtree(backup)
        except OSError as error:
            raise RunError(f"{folder} is converted, but {backup} cannot be removed: {error.strerror}") from error
    return True


def _describe_failure(error: Exception) -> str:
    if isinstance(error, shutil.Error):  # of copytree: the file, its copy and the reason, for each file
        file, _, reason = error.args[0][0]
        return f"{file} cannot be copied: {reason}"
    if isinstance(error, OSError):
        return str(error.strerror)
    if isinstance(error, RunError):  # it names a file of the copy
        return str(error)
    return f"a file in it is damaged ({error!r:.200})"


def _migrate_files(folder: Path, entry: dict[str, Any]) -> None:
    is_coevolution = "domain" in entry["request"]
    is_heist = entry["request"].get("world") == "heist"
    convert_request = _coevolve_request if is_coevolution else _train_request
    run = rename(entry, {"means": "runtime_options"})
    request = convert_request(run["request"])
    _rewrite_json(folder / "run.json", lambda _: {"format": FORMAT, **run, "request": request})
    lengths: dict[str, Callable[[int], int]] = {}  # of a JSON lines file before and after
    line_converters = dict(COEVOLVE_LINES) if is_coevolution else {PROGRESS: lambda line: rename(line, PROGRESS_LINE)}
    for name, convert_line in {**line_converters, "ledger.jsonl": _ledger_line}.items():
        if exists(folder / name):
            lengths[name] = _rewrite_lines(folder / name, convert_line)
    if is_coevolution:
        _rewrite_json(folder / "summary.json", _coevolve_summary)
        _rewrite_json(folder / "static.json", lambda data: rename(data, COEVOLVE_STATIC))
        for old_name, new_name in STORE_FILES.items():
            if exists(folder / old_name):
                os.rename(folder / old_name, folder / new_name)
    else:
        level = HEIST_LEVEL if is_heist else {}
        _rewrite_json(folder / "summary.json", lambda data: {**data, "final": _evaluation(data["final"], level)})
        _rewrite_json(folder / "published.json", lambda data: _evaluation(data, level))
        for file in sorted((folder / "cycles").glob("*/levels.json")):
            _rewrite_json(file, lambda data: _design(data, level))
        for file in sorted((folder / "cycles").glob("*/evaluation.json")):
            _rewrite_json(file, lambda data: _cycle_evaluation(data, level))
    for number in checkpoint.list_checkpoints(folder / "checkpoints"):
        _migrate_checkpoint(folder / "checkpoints" / f"{number:08}", is_coevolution, lengths)


def rename(mapping: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return a mapping with some keys renamed, in the same order."""
    return {names.get(key, key): value for key, value in mapping.items()}


def _rewrite_json(file: Path, convert: Callable[[Any], Any]) -> None:
    if exists(file):
        is_indented = b"\n " in read_regular(file)
        data = convert(read_json(file))
        if is_indented:
            write_json(file, data)
        else:
            write_flushed(file, (json.dumps(data) + "\n").encode())


def _rewrite_lines(file: Path, convert: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[int], int]:
    """Rewrite a JSON lines file. Returns a function from a length of the old file to that of the new one."""
    lengths, old, new = {0: 0}, 0, bytearray()
    for line in read_regular(file).splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # incomplete; no checkpoint counts it
        old += len(line)
        new += (json.dumps(convert(parse_json(line))) + "\n").encode()
        lengths[old] = len(new)
    write_flushed(file, bytes(new))

    def new_length(length: int) -> int:
        if length not in lengths:
            raise RunError(
                f"{file.name} does not match the checkpoints; "
                "restore the file, or remove the folder checkpoints to convert only the results"
            )
        return lengths[length]

    return new_length


# --- EnvGen: runs of `envgen train`


def _train_request(request: dict[str, Any]) -> dict[str, Any]:
    level = HEIST_LEVEL if request.get("world") == "heist" else {}
    learner = {"name": "ppo", **rename(request["ppo"], PPO_SETTINGS)}
    plan = rename(request["plan"], TRAINING_PLAN)
    request = {**request, "plan": plan, "designer": _designer(request["designer"], level), "ppo": learner}
    return rename(request, {"ppo": "learner"})


def _designer(config: dict[str, Any], level: Names) -> dict[str, Any]:
    config = rename(config, DESIGNER_SETTINGS.get(config.get("name", ""), {}))
    if config.get("name") == "given":
        config["name"] = "user-levels"
    if isinstance(config.get("source"), dict):  # the designer inside
        config["source"] = _designer(config["source"], level)
    if isinstance(config.get("levels"), list):  # of the user
        config["levels"] = [rename(overrides, level) for overrides in config["levels"]]
    return config


def _proposal(proposal: dict[str, Any], level: Names) -> dict[str, Any]:
    proposal = rename(proposal, PROPOSAL)
    for key in ("levels", "candidates"):
        if key in proposal:
            proposal[key] = [{**proposed, "level": rename(proposed["level"], level)} for proposed in proposal[key]]
    return proposal


def _design(data: dict[str, Any], level: Names) -> dict[str, Any]:
    data = rename(data, {"verdicts": "audits"})
    audits = [rename(audit, AUDIT) for audit in data["audits"]]
    return {**data, "proposal": _proposal(data["proposal"], level), "audits": audits}


def _cycle_evaluation(data: dict[str, Any], level: Names) -> dict[str, Any]:
    cycle = rename(data["cycle"], CYCLE)
    cycle |= {
        "proposal": _proposal(cycle["proposal"], level),
        "audits": [rename(audit, AUDIT) for audit in cycle["audits"]],
        "outcomes": [outcome and rename(outcome, OUTCOME) for outcome in cycle["outcomes"]],
    }
    return {**data, "cycle": cycle, "evaluation": _evaluation(data["evaluation"], level)}


def _evaluation(data: dict[str, Any], level: Names) -> dict[str, Any]:
    return {**rename(data, EVALUATION), "level": rename(data["level"], level)}


def _ledger_line(line: dict[str, Any]) -> dict[str, Any]:
    line = {**line, "event": LEDGER_EVENTS.get(line.get("event", ""), line.get("event"))}
    if isinstance(line.get("ask"), dict):
        line["ask"] = rename(line["ask"], {"schema": "json_schema"})
        line = rename(line, {"ask": "request"})
    if line["event"] == "failure":
        line["kind"] = LEDGER_FAILURES.get(line.get("kind", ""), line.get("kind"))
    return line


# --- checkpoints


def _migrate_checkpoint(folder: Path, is_coevolution: bool, lengths: Mapping[str, Callable[[int], int]]) -> None:
    try:
        _, arrays, values = checkpoint.load_checkpoint(folder)
    except checkpoint.CheckpointError:
        return  # it stays damaged, and is skipped when the run resumes
    convert = _coevolve_checkpoint if is_coevolution else _train_checkpoint
    arrays, values = convert(arrays, values, lengths)
    if PROGRESS in lengths:
        values["progress_bytes"] = lengths[PROGRESS](values["progress_bytes"])
    checkpoint.write_checkpoint(folder, arrays, values)


Arrays = dict[str, dict[str, np.ndarray]]


def _train_checkpoint(
    arrays: Arrays, values: dict[str, Any], lengths: Mapping[str, Callable[[int], int]]
) -> tuple[Arrays, dict[str, Any]]:
    agent = rename(values["agent"], RANDOM_STATES)
    agent["settings"] = rename(agent["settings"], PPO_SETTINGS)
    values = rename({**values, "agent": agent}, PHASES)
    return {"agent": {_array_name(name): array for name, array in arrays["agent"].items()}}, values


def _replace_prefix(name: str, prefixes: Names) -> str:
    matches = [prefix for prefix in prefixes if name.startswith(prefix)]
    if not matches:
        return name
    longest = max(matches, key=len)
    return prefixes[longest] + name.removeprefix(longest)


def _array_name(name: str) -> str:
    name = _replace_prefix(name, AGENT_ARRAYS)
    return name.replace(*RESIDUAL_LAYERS) if name.startswith("network.encoder.stacks.") else name


# --- GenEnv: runs of `envgen coevolve`

CURRICULUM: Names = {
    "unit": "success_over",
    "success": "success_threshold",
    "filter": "filter_tolerance",
    "weight": "rwr_lambda",
    "repetition": "repetition_penalty",
}
POLICY_SETTINGS: Names = {
    "mean": "loss_agg",
    "minibatches": "num_minibatches",
    "rows": "microbatch_size",
    "clip": "clip_coef",
    "kl": "kl_coef",
    "kl_cap": "target_kl",
    "longest": "max_new_tokens",
    "group": "num_generations",
    "scale": "scale_rewards",
    "flat": "zero_variance_groups",
    "again": "replay_ratio",
}
COEVOLUTION_PLAN: Names = {
    "tasks": "tasks_per_step",
    "fresh": "fresh_fraction",
    "replay": "replay_fraction",
    "base": "num_base_tasks",
    "variations": "num_variations",
    "tries": "max_attempts",
    "test": "num_eval_tasks",
    "test_every": "eval_every",
}
MODEL_SIZE: Names = {
    "layers": "num_layers",
    "window": "conv_window",
    "heads": "num_heads",
    "inner": "mlp_width",
    "vocabulary": "vocab_size",
    "longest": "max_length",
}
PRETRAIN_SETTINGS: Names = {
    "batch": "batch_size",
    "hard": "hard_fraction",
    "matrix_rate": "muon_learning_rate",
    "rise": "warmup_steps",
    "fall": "cooldown_fraction",
    "texts": "num_tokenizer_specs",
    "held_out": "num_held_out",
}
COEVOLVE_REQUEST: Names = {
    "learning": "agent_settings",
    "environment_learning": "environment_settings",
    "made": "pretrain_recipe",
}
COEVOLVE_SUMMARY: Names = {
    "first": "initial_accuracy",
    "final": "final_accuracy",
    "mean": "mean_accuracy",
    "final_by": "final_accuracy_by",
    "curve": "accuracy_curve",
    "whole_seconds": "total_seconds",
}
COUNTS: Names = {"proposed": "tasks_proposed"}
SECONDS: Names = {"test": "evaluation"}
COEVOLVE_PROGRESS: Names = {
    **COUNTS,
    "test": "eval_accuracy",
    "test_by": "eval_accuracy_by",
    "success": "success_rate",
    "valid": "valid_rate",
    "flat": "zero_variance_fraction",
    "p": "proposed_success_rate",
    "near": "near_target_fraction",
    "reward": "environment_reward",
    "refused": "rejected",
    "fallbacks": "fallback_tasks",
}
REJECTIONS: Names = {"held out": "held_out"}
DIVERSITY: Names = {"distinct": "distinct_fraction", "repeats": "ngram_overlap"}
POLICY_METRICS: Names = {
    "moved": "approx_kl",
    "clip_fraction": "clipfrac",
    "steps": "gradient_steps",
    "rows": "num_specs",
}
TASK_RECORD: Names = {"by": "source", "p": "success_rate"}
TRACE_RECORD: Names = {"reply": "completion"}
SPEC_RECORD: Names = {"asked": "prompt", "text": "spec"}
COEVOLVE_STATIC: Names = {"texts": "specs", "tokens": "num_tokens"}
STORE_FILES: Names = {"d_train.jsonl": "agent_traces.jsonl", "d_env.jsonl": "environment_specs.jsonl"}
STORES: Names = {"traces": "agent_traces", "specs": "environment_specs"}
COEVOLVE_STATE: Names = {
    "known": "success_stats",
    "uniform": "fallback_proposer",
    "random": "rng",
    "pools": "stores",
}
POLICY_STATE: Names = {
    "shuffling": "shuffle_rng",
    "random": "rng",
    "left": "remaining",
    "tokens": "unreported_tokens",
}
POLICY_ARRAYS: Names = {"adam.": "optimizer.", "random.": "rng."}  # prefixes


def _coevolve_request(request: dict[str, Any]) -> dict[str, Any]:
    request = rename(request, COEVOLVE_REQUEST)
    request["domain"] = request["domain"].replace("gym:", "reasoning_gym:")
    request["curriculum"] = rename(request["curriculum"], CURRICULUM)
    request["plan"] = rename(request["plan"], COEVOLUTION_PLAN)
    request["environment_settings"] = {k: v for k, v in request["environment_settings"].items() if k != "method"}
    for key in ("agent_settings", "environment_settings"):
        request[key] = rename(request[key], POLICY_SETTINGS)
        if request[key].get("loss_agg") == "text":
            request[key]["loss_agg"] = "sequence"
    if recipe := request["pretrain_recipe"]:
        request["pretrain_recipe"] = {
            "model_size": rename(recipe["size"], MODEL_SIZE),
            "pretrain": rename(recipe["warmup"], PRETRAIN_SETTINGS),
            "seed": recipe["seed"],
        }
    return request


def _coevolve_summary(data: dict[str, Any]) -> dict[str, Any]:
    data = rename(data, COEVOLVE_SUMMARY)
    return {**data, "counts": rename(data["counts"], COUNTS), "seconds": rename(data["seconds"], SECONDS)}


def _coevolve_progress(line: dict[str, Any]) -> dict[str, Any]:
    line = rename(line, COEVOLVE_PROGRESS)
    parts = {
        "rejected": REJECTIONS,
        "diversity": DIVERSITY,
        "agent": POLICY_METRICS,
        "environment": POLICY_METRICS,
        "seconds": SECONDS,
    }
    return line | {key: rename(line[key], names) for key, names in parts.items() if key in line}


COEVOLVE_LINES: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    PROGRESS: _coevolve_progress,
    "tasks.jsonl": lambda record: rename(record, TASK_RECORD),
    "d_train.jsonl": lambda record: rename(record, TRACE_RECORD),
    "d_env.jsonl": lambda record: rename(record, SPEC_RECORD),
}


def _coevolve_checkpoint(
    arrays: Arrays, values: dict[str, Any], lengths: Mapping[str, Callable[[int], int]]
) -> tuple[Arrays, dict[str, Any]]:
    values = rename(values, COEVOLVE_STATE)
    for key in ("agent", "proposer", "fallback_proposer"):
        values[key] = rename(values[key], POLICY_STATE)
    values["counts"] = rename(values["counts"], COUNTS)
    files = {"tasks": "tasks.jsonl", "traces": "d_train.jsonl", "specs": "d_env.jsonl"}
    store_lengths = {
        name: lengths[files[name]](length) if files[name] in lengths else length
        for name, length in values["stores"].items()
    }
    values["stores"] = rename(store_lengths, STORES)
    new_arrays = {
        group: {_replace_prefix(name, POLICY_ARRAYS): array for name, array in named.items()}
        for group, named in arrays.items()
    }
    return new_arrays, values
