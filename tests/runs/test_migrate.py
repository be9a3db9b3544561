"""Converting run directories of format 1. The folders in data/ were written by the version before format 2."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from envgen.curriculum.evaluate import Evaluation
from envgen.designers.designer import AuditResult, Cycle, Proposal
from envgen.runs.checkpoint import load_latest, save_checkpoint
from envgen.runs.compare import compare
from envgen.runs.migrate import migrate_run
from envgen.runs.store import Run, RunError, lock_folder, read_progress, read_request
from envgen.worlds.heist.level import HeistLevel

DATA = Path(__file__).with_name("data")


@pytest.fixture
def train_run(tmp_path) -> Path:
    return Path(shutil.copytree(DATA / "train-format-1", tmp_path / "train"))


@pytest.fixture
def coevolve_run(tmp_path) -> Path:
    return Path(shutil.copytree(DATA / "coevolve-format-1", tmp_path / "coevolve"))


def load(file: Path):
    return json.loads(file.read_text())


def test_leftovers_of_an_interrupted_conversion_are_removed_and_not_compared(train_run):
    migrate_run(train_run)
    for suffix in ("migrating", "format-1"):
        shutil.copytree(DATA / "train-format-1", train_run.with_name(f".train.{suffix}"))
    assert compare([train_run.parent]) is not None
    assert not migrate_run(train_run)
    assert [entry.name for entry in train_run.parent.iterdir()] == ["train"]


def test_old_run_is_refused_with_the_command_that_converts_it(train_run):
    with pytest.raises(RunError, match=f"envgen migrate {train_run}"):
        read_request(train_run)
    with pytest.raises(RunError, match=f"envgen migrate {train_run}"):
        compare([train_run])


def test_migrated_training_run_is_readable(train_run):
    old_score = load(train_run / "summary.json")["final"]["score"]["value"]
    assert migrate_run(train_run)
    request, runtime_options = read_request(train_run)
    assert runtime_options == {}
    assert request["learner"]["name"] == "ppo"
    assert (request["learner"]["num_steps"], request["learner"]["update_epochs"]) == (8, 1)
    assert request["learner"]["vf_coef"] == 0.5
    assert request["plan"]["feedback_groups"] == 2
    assert request["designer"] == {"name": "expert", "prerequisite_threshold": 50.0, "mastery_threshold": 80.0}
    design = load(train_run / "cycles/1/levels.json")
    proposal = Proposal.from_json(design["proposal"], HeistLevel)
    audits = tuple(AuditResult.model_validate(audit) for audit in design["audits"])
    cycle = Cycle.from_json(load(train_run / "cycles/1/evaluation.json")["cycle"], HeistLevel)
    assert (cycle.proposal, cycle.audits) == (proposal, audits)
    assert cycle.success_rates["take_blue_key"].mean == 100.0
    assert {"clipfrac", "approx_kl"} < next(iter(read_progress(train_run))).keys()
    cycle_evaluation = load(train_run / "cycles/1/evaluation.json")["evaluation"]
    for evaluation in (load(train_run / "summary.json")["final"], cycle_evaluation):
        Evaluation.model_validate(evaluation)
        assert evaluation["deterministic"] is False
    group = compare([train_run]).tables[0].groups[0]
    assert group.label == "expert"
    score = group.aggregates["final score %"]
    assert score is not None
    assert score.value == old_score


def test_levels_of_heist_are_renamed_everywhere(train_run):
    file = train_run / "cycles/1/levels.json"
    design = load(file)
    design["proposal"]["levels"][0]["level"] = {"held": {"blue": True}, "keys_away": "far"}
    file.write_text(json.dumps(design))
    migrate_run(train_run)
    assert load(file)["proposal"]["levels"][0]["level"] == {"held_keys": {"blue": True}, "key_distance": "far"}
    renamed = {"held_keys", "open_doors", "key_distance", "gem_distance"}
    assert renamed < load(train_run / "summary.json")["final"]["level"].keys()
    assert renamed < load(train_run / "cycles/1/evaluation.json")["evaluation"]["level"].keys()


def test_conversion_happens_once_and_keeps_the_folder(train_run):
    (train_run / "notes.txt").write_text("mine")
    names = sorted(entry.name for entry in train_run.iterdir())
    assert migrate_run(train_run)
    converted = {file: file.read_bytes() for file in train_run.rglob("*") if file.is_file()}
    assert not migrate_run(train_run)
    assert converted == {file: file.read_bytes() for file in train_run.rglob("*") if file.is_file()}
    assert sorted({entry.name for entry in train_run.iterdir()} - {"lock"}) == names
    assert [entry.name for entry in train_run.parent.iterdir()] == [train_run.name]


def test_an_interrupted_conversion_is_continued(train_run, monkeypatch):
    renamed = []

    def rename_once(source, target, rename=os.rename):
        if renamed:
            raise KeyboardInterrupt
        renamed.append(source)
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("envgen.runs.migrate.os.rename", rename_once)
        with pytest.raises(KeyboardInterrupt):
            migrate_run(train_run)
    assert renamed == [train_run]
    assert not train_run.exists()
    assert migrate_run(train_run)
    assert read_request(train_run)[0]["learner"]["name"] == "ppo"
    assert list(train_run.parent.iterdir()) == [train_run]


def test_a_copy_of_the_old_run_that_cannot_be_removed_is_named(train_run, monkeypatch):
    def remove(folder, ignore_errors=False):
        if not ignore_errors:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    backup = train_run.with_name(".train.format-1")
    monkeypatch.setattr("envgen.runs.migrate.shutil.rmtree", remove)
    with pytest.raises(RunError, match=f"train is converted, but {backup} cannot be removed: Permission denied"):
        migrate_run(train_run)
    assert read_request(train_run)[0]["learner"]["name"] == "ppo"


def test_designers_inside_designers_and_user_levels_are_renamed(train_run):
    entry = load(train_run / "run.json")
    entry["request"]["designer"] = {
        "name": "adversarial",
        "source": {"name": "fixed", "first": {"name": "given", "levels": [{"open": {"red": True}}]}},
    }
    (train_run / "run.json").write_text(json.dumps(entry))
    migrate_run(train_run)
    designer = read_request(train_run)[0]["designer"]
    assert designer["source"]["source"] == {"name": "user-levels", "levels": [{"open_doors": {"red": True}}]}


def test_checkpoint_of_training_is_converted(train_run):
    progress = (train_run / "progress.jsonl").read_bytes()
    first_line = len(progress.splitlines(keepends=True)[0])
    new_names = {
        "network.choice.weight": "network.policy_head.weight",
        "network.value.bias": "network.value_head.bias",
        "network.body.first.table": "network.encoder.embedding.embedding",
        "network.body.first.norms.0.bias": "network.encoder.embedding.norms.0.bias",
        "network.body.dense.weight": "network.encoder.dense.weight",
        "network.body.stacks.0.steps.1.weight": "network.encoder.stacks.0.layers.1.weight",
        "normaliser.mean_": "return_normalizer.running_mean",
        "adam.3.exp_avg": "optimizer.3.exp_avg",
        "stream.env.out": "runner.env.obs",
        "stream.env.seeds": "runner.env.seeds",
        "stream.begins": "runner.needs_reset",
        "ahead.seen": "prefetched.obs",
        "ahead.episodes.skills": "prefetched.episodes.skill_counts",
    }
    arrays = {name: np.full(3, k, np.float32) for k, name in enumerate(new_names)}
    values = {
        "agent": {
            "settings": {"rollout": 8, "clip": 0.2},
            "playing": {"state": 1},
            "shuffling": {"state": 2},
            "steps": 68,
        },
        "finished": ["cycle 1: levels"],
        "running": "final",
        "progress_bytes": first_line,
    }
    save_checkpoint(train_run / "checkpoints", {"agent": arrays}, values)
    migrate_run(train_run)
    checkpoint = load_latest(train_run / "checkpoints")
    assert checkpoint is not None
    assert list(checkpoint.values) == ["agent", "finished_phases", "current_phase", "progress_bytes"]
    assert checkpoint.values["agent"] == {
        "settings": {"num_steps": 8, "clip_coef": 0.2}, "action_rng": {"state": 1}, "shuffle_rng": {"state": 2},
        "steps": 68,
    }  # fmt: skip
    assert {name: array[0] for name, array in checkpoint.arrays["agent"].items()} == {
        name: k for k, name in enumerate(new_names.values())
    }
    with Run(train_run, read_request(train_run)[0]) as run:
        run.resume()  # cuts the progress back to the first line, which has another length now
        assert len(list(read_progress(train_run))) == 1


def test_migrated_coevolution_is_readable(coevolve_run):
    old = load(coevolve_run / "summary.json")
    assert migrate_run(coevolve_run)
    request, _ = read_request(coevolve_run)
    assert request["curriculum"]["success_over"] == "task"
    assert request["agent_settings"]["num_generations"] == 8
    assert request["environment_settings"]["target_kl"] == 0.1
    assert "method" not in request["environment_settings"]
    assert request["plan"]["num_eval_tasks"] == 600
    assert request["pretrain_recipe"]["pretrain"] == {"agent_steps": 60, "environment_steps": 40}
    summary = load(coevolve_run / "summary.json")
    assert (summary["initial_accuracy"], summary["final_accuracy"]) == (old["first"], old["final"])
    assert summary["counts"]["tasks_proposed"] == old["counts"]["proposed"]
    lines = list(read_progress(coevolve_run))
    assert lines[0]["eval_accuracy"] > 0
    assert {"proposed_success_rate", "rejected", "zero_variance_fraction"} < lines[1].keys()
    assert "held_out" in lines[1]["rejected"]
    assert "clipfrac" in lines[1]["agent"]
    record = json.loads((coevolve_run / "tasks.jsonl").read_text().splitlines()[0])
    assert {"source", "success_rate"} < record.keys()
    assert not (coevolve_run / "d_train.jsonl").exists()
    assert "completion" in (coevolve_run / "agent_traces.jsonl").read_text()


def test_checkpoint_of_coevolution_is_converted(coevolve_run):
    files = {"tasks": "tasks.jsonl", "traces": "d_train.jsonl"}
    lengths = {name: (coevolve_run / file).stat().st_size for name, file in files.items()}
    random_state = {"state": 1}
    values = {
        "agent": {"shuffling": random_state}, "proposer": {"shuffling": random_state, "random": random_state},
        "counts": {"step": 3, "proposed": 27}, "known": {}, "uniform": {"random": random_state}, "random": random_state,
        "pools": {**lengths, "specs": 0}, "progress_bytes": (coevolve_run / "progress.jsonl").stat().st_size,
    }  # fmt: skip
    arrays = {"agent": {"adam.w.step": np.ones(1), "model.w": np.ones(1)}, "proposer": {"random.0": np.ones(1)}}
    save_checkpoint(coevolve_run / "checkpoints", arrays, values)
    migrate_run(coevolve_run)
    checkpoint = load_latest(coevolve_run / "checkpoints")
    assert checkpoint is not None
    assert {group: sorted(named) for group, named in checkpoint.arrays.items()} == {
        "agent": ["model.w", "optimizer.w.step"], "proposer": ["rng.0"],
    }  # fmt: skip
    stores = checkpoint.values["stores"]
    assert stores["tasks"] == (coevolve_run / "tasks.jsonl").stat().st_size != lengths["tasks"]
    assert stores["agent_traces"] == (coevolve_run / "agent_traces.jsonl").stat().st_size != lengths["traces"]
    assert checkpoint.values["proposer"] == {"shuffle_rng": random_state, "rng": random_state}
    assert checkpoint.values["counts"] == {"step": 3, "tasks_proposed": 27}
    assert checkpoint.values["progress_bytes"] == (coevolve_run / "progress.jsonl").stat().st_size


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_file_that_cannot_be_copied_is_named_and_no_copy_is_left(train_run):
    os.mkfifo(train_run / "pipe")
    with pytest.raises(RunError, match=rf"cannot convert {train_run}: {train_run / 'pipe'} cannot be copied: .*pipe"):
        migrate_run(train_run)
    assert list(train_run.parent.iterdir()) == [train_run]
    os.remove(train_run / "pipe")
    assert migrate_run(train_run)


def test_no_copy_is_left_of_a_run_with_a_damaged_file(train_run):
    (train_run / "summary.json").write_text("[]")
    with pytest.raises(RunError, match="a file in it is damaged"):
        migrate_run(train_run)
    assert list(train_run.parent.iterdir()) == [train_run]
    assert "format" not in load(train_run / "run.json")


def test_run_in_use_is_not_converted(train_run):
    with lock_folder(train_run), pytest.raises(RunError, match="another process is using"):
        migrate_run(train_run)
    assert "format" not in load(train_run / "run.json")


def test_other_folders_and_formats_are_refused(train_run, tmp_path):
    with pytest.raises(RunError, match="is not a run directory"):
        migrate_run(tmp_path / "nothing")
    (train_run / "run.json").write_text(json.dumps({**load(train_run / "run.json"), "format": 9}))
    with pytest.raises(RunError, match="has the format 9"):
        migrate_run(train_run)
    (train_run / "run.json").write_text("{}")
    with pytest.raises(RunError, match="has no request"):
        migrate_run(train_run)
