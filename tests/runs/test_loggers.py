"""Runs are logged to TensorBoard and Weights & Biases, also after an interruption and when they are finished."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import envgen
from envgen.runs import loggers
from envgen.runs.loggers import LoggerError
from envgen.runs.store import read_progress
from envgen.worlds.crafter.world import Crafter
from run_files import write_json, write_lines

PLAN = {"cycles": 2, "levels": 2, "cycle_steps": 512, "final_steps": 512, "feedback_groups": 2, "feedback_episodes": 2,
        "episodes": 3, "audit_steps": 20}  # fmt: skip
LENGTH = {"length": 30}


def train(folder: Path, plan: dict | None = None, **arguments) -> envgen.TrainingRun:
    hyperparameters = {"num_envs": 8, "num_steps": 32}
    arguments = {"designer": "fixed", "levels": [LENGTH, {**LENGTH, "trees": "common"}], **arguments}
    return envgen.train(
        "crafter", plan=plan or PLAN, folder=folder, hyperparameters=hyperparameters, verbose=False, **arguments
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run that was logged from its start."""
    folder = tmp_path_factory.mktemp("logged") / "run"
    train(folder, log=("tensorboard", "wandb"))
    return folder


def read_events(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    return events


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = read_events(folder)
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_curves_are_those_of_the_progress(folder):
    lines, curves = list(read_progress(folder)), scalars(folder)
    assert [step for step, _ in curves["losses/policy_loss"]] == [line["steps"] for line in lines]
    np.testing.assert_allclose(
        [value for _, value in curves["losses/entropy"]], [line["entropy"] for line in lines], rtol=1e-6
    )
    assert {"levels/score", "charts/SPS", "level_skills/collect_sapling", "losses/explained_variance"} <= curves.keys()


@pytest.mark.parametrize(("designer", "mixing", "phase", "index"), [
    ("fixed", "alternate", "cycle 1: original", 0), ("fixed", "mixed", "cycle 1: mixed", -1),
    ("dr", "alternate", "cycle 1: sampled levels", 0),
])  # fmt: skip
def test_episodes_in_the_original_and_in_levels_have_curves_of_their_own(designer, mixing, phase, index, tmp_path):
    plan = {**PLAN, "mixing": mixing, "cycles": 1, "cycle_steps": 8192, "final_steps": 0}
    levels = [LENGTH, {**LENGTH, "trees": "common"}] if designer == "fixed" else ()
    run = train(tmp_path / "run", plan=plan, designer=designer, levels=levels, log=("tensorboard",))
    lines, curves = list(read_progress(run.folder)), scalars(run.folder)
    returns = {}
    for line in lines:
        original = line["levels"][index]
        if line["phase"] == phase and original["episodes"]:
            returns[line["steps"]] = original["return_sum"] / original["episodes"]
    assert len(returns) > 3
    assert dict(curves["charts/episodic_return"]) == pytest.approx(returns)
    assert curves["charts/score"] != curves["levels/score"]
    assert curves.keys() >= {"skills/collect_sapling", "level_skills/collect_sapling"}


def test_cycles_are_logged_when_they_happen(folder):
    curves, summary = scalars(folder), json.loads((folder / "summary.json").read_text())
    first, second = curves["evaluation/score"]
    assert first[0] == 512 + 256  # with the first update after the evaluation
    assert second[0] == 1024 + 256
    evaluation = json.loads((folder / "cycles/1/evaluation.json").read_text())["evaluation"]
    assert first[1] == pytest.approx(evaluation["score"]["value"], rel=1e-5)
    assert curves["final/reward"] == [(1536, pytest.approx(summary["final"]["reward"]["value"], rel=1e-5))]
    events = read_events(folder)
    assert [image.step for image in events.Images("designer/levels")] == [256, 512 + 256]
    assert events.Images("designer/levels")[0].width > 100
    (text, _) = events.Tensors("designer/proposal/text_summary")
    assert b'"trees": "common"' in text.tensor_proto.string_val[0]


def test_unknown_metrics_are_left_out(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("tensorboard", "wandb"))
    lines = list(read_progress(folder))
    lines[0]["entropy"] = None
    write_lines(tmp_path / "run" / "progress.jsonl", lines)
    with loggers.TrainingLogger(tmp_path / "run", Crafter(), ["tensorboard"]):
        pass
    assert len(scalars(tmp_path / "run")["losses/entropy"]) == len(lines) - 1


def test_a_finished_run_can_be_logged(folder, tmp_path):
    train(tmp_path / "run")
    assert not (tmp_path / "run" / "tensorboard").exists()
    envgen.resume(tmp_path / "run", log=["tensorboard"], verbose=False)
    expected, actual = scalars(folder), scalars(tmp_path / "run")
    assert actual.keys() == expected.keys()
    for tag in actual.keys() - {"charts/SPS"}:
        assert actual[tag] == expected[tag]


def test_cycles_of_an_extended_run_are_logged_when_they_happened(folder, tmp_path):
    run_dir = shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("tensorboard", "wandb*"))
    phases = ("cycle 1: levels", "cycle 1: original", "final", "cycle 2: levels", "cycle 2: original", "final 2")
    lines = [{**line, "phase": phase} for line, phase in zip(read_progress(folder), phases, strict=True)]
    write_lines(run_dir / "progress.jsonl", lines)
    with loggers.TrainingLogger(run_dir, Crafter(), ["tensorboard"]):
        pass
    assert [image.step for image in read_events(run_dir).Images("designer/levels")] == [256, 1024]
    (first_step, first), (second_step, second) = scalars(run_dir)["evaluation/score"]
    assert (first_step, second_step) == (768, 1536)  # with the first update after the evaluation
    assert [first, second] == [score for _, score in scalars(folder)["evaluation/score"]]


def test_an_interrupted_run_continues_its_curves(folder, tmp_path, monkeypatch):
    """The interruption comes after updates that no checkpoint holds, which are repeated."""

    class Interrupted(Exception):
        pass

    def fail_after(self, line, on_progress=loggers.TrainingLogger.on_progress):
        on_progress(self, line)
        if line["steps"] == 768:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(loggers.TrainingLogger, "on_progress", fail_after)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", log=["tensorboard"])
    assert max(step for step, _ in scalars(tmp_path / "run")["losses/entropy"]) == 768
    train(tmp_path / "run", log=["tensorboard"])
    expected, actual = scalars(folder), scalars(tmp_path / "run")
    for tag in ("losses/entropy", "levels/episodic_return", "levels/score", "evaluation/score", "final/score"):
        assert actual[tag] == expected[tag]


def test_every_number_of_a_coevolution_is_logged(tmp_path):
    first = {
        "step": 1,
        "rollouts": 64,
        "diversity": {"distinct": 0.5},
        "eval_accuracy": None,
        "source": "x",
        "ok": True,
    }
    second = {**first, "step": 2, "rollouts": 128, "eval_accuracy": 0.25}
    (tmp_path / "progress.jsonl").write_text(json.dumps(first) + "\n")
    with loggers.CoevolutionLogger(tmp_path, ["tensorboard"]) as logger:
        logger.on_progress(first)  # is in the directory already
        logger.on_progress(second)
        (tmp_path / "summary.json").write_text(json.dumps({"accuracy": {"after": 75.0}}))
    assert scalars(tmp_path) == {
        "step": [(64, 1), (128, 2)], "rollouts": [(64, 64), (128, 128)], "diversity/distinct": [(64, 0.5), (128, 0.5)],
        "eval_accuracy": [(128, 0.25)], "summary/accuracy/after": [(128, 75)],
    }  # fmt: skip


def test_weights_and_biases_is_offline_and_continues_the_same_run(folder):
    state = json.loads((folder / "wandb.json").read_text())
    assert state["steps"] == 1536
    (files,) = folder.glob("wandb/offline-run-*")
    assert files.name.endswith(state["id"])
    envgen.resume(folder, log=["wandb"], verbose=False)
    assert json.loads((folder / "wandb.json").read_text()) == state
    assert {file.name.rpartition("-")[2] for file in folder.glob("wandb/offline-run-*")} == {state["id"]}


def test_a_run_of_the_calling_program_goes_on(folder, tmp_path):
    run_dir = shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("tensorboard", "wandb*"))
    settings = wandb.Settings(silent=True, console="off")
    with wandb.init(project="mine", dir=str(tmp_path), mode="offline", settings=settings) as own:
        with loggers.TrainingLogger(run_dir, Crafter(), ["wandb"]) as logger:
            logger.on_progress({})  # opens the loggers, which read the run directory
            assert json.loads((run_dir / "wandb.json").read_text())["id"] != own.id
        assert wandb.run is own
        own.log({"loss": 1.0})  # an error if the run were finished
        assert dict(own.config) == {}
    (files,) = run_dir.glob("wandb/offline-run-*")
    assert not files.name.endswith(own.id)


class FakeRun:
    """In place of a run of Weights & Biases."""

    def __init__(self, logged: list[dict]):
        self.logged = logged

    def log(self, values):
        self.logged.append(values)

    def define_metric(self, *args, **kwargs):
        pass

    def finish(self):
        pass


@pytest.fixture
def logged(monkeypatch) -> list[dict]:
    """What is logged to Weights & Biases, in place of a run there."""
    logged = []
    monkeypatch.setattr("wandb.init", lambda **kwargs: FakeRun(logged))
    return logged


def test_the_environment_names_the_project(tmp_path, monkeypatch):
    projects = []
    monkeypatch.setattr("wandb.init", lambda project, **arguments: projects.append(project) or FakeRun([]))
    write_json(tmp_path / "run.json", {"format": 2, "request": {"seed": 0}})
    for value in ("mine", "", None):
        monkeypatch.setenv("WANDB_PROJECT", value) if value is not None else monkeypatch.delenv("WANDB_PROJECT")
        loggers.WandbLogger(tmp_path)
    assert projects == ["mine", "envgen", "envgen"]


@pytest.mark.parametrize(("variable", "value", "message"), [
    ("WANDB_MODE", "onlin", "Weights & Biases: mode: Input should be 'online', .* .got 'onlin'.; correct this, set "),
    ("WANDB_PROJECT", "my/project", "Weights & Biases: Invalid project name 'my/project': .*, found '/'; correct this"),
])  # fmt: skip
def test_wrong_settings_of_weights_and_biases_are_explained(variable, value, message, folder, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(LoggerError, match=message) as raised:
        envgen.resume(folder, log=["wandb"], verbose=False)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("method", ["log", "finish"])
def test_later_errors_of_weights_and_biases_are_explained(method, folder, tmp_path, logged, monkeypatch):
    def fail(*args, **kwargs):
        raise wandb.errors.CommError("connection refused\nwhile retrying.")

    run_dir = shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("wandb*"))
    monkeypatch.setattr(FakeRun, method, fail)
    with pytest.raises(LoggerError, match="Biases: connection refused while retrying; correct this, set WANDB_MODE="):
        envgen.resume(run_dir, log=["wandb"], verbose=False)


def test_what_weights_and_biases_has_logged_is_not_logged_again(folder, logged):
    logger = loggers.WandbLogger(folder)
    logger.log_scalars({"charts/score": 1.0}, 1536)
    logger.log_scalars({"charts/score": 2.0}, 1792)
    assert logged == [{"charts/score": 2.0, "steps": 1792}]


def test_a_killed_process_leaves_the_id_and_the_last_steps(tmp_path, logged, monkeypatch):
    monkeypatch.setattr(loggers, "SAVE_SECONDS", 0.0)
    write_json(tmp_path / "run.json", {"format": 2, "request": {"seed": 0}})
    first = loggers.WandbLogger(tmp_path)
    first.log_scalars({"charts/score": 1.0}, 64)
    second = loggers.WandbLogger(tmp_path)  # the first was never closed
    second.log_scalars({"charts/score": 1.0}, 64)
    assert (second.id, len(logged)) == (first.id, 1)


@pytest.mark.parametrize(("failing", "names"), [
    ("__init__", ["tensorboard", "wandb"]), ("close", ["wandb", "tensorboard"]),
])  # fmt: skip
def test_a_logger_is_closed_if_another_one_fails(failing, names, tmp_path, monkeypatch):
    closed = []

    def fail(self, *args):
        raise ConnectionError

    monkeypatch.setattr(loggers.TensorBoardLogger, "close", lambda self: closed.append(self))
    monkeypatch.setattr(loggers.WandbLogger, "__init__", lambda self, folder: None)
    monkeypatch.setattr(loggers.WandbLogger, failing, fail)
    with pytest.raises(ConnectionError), loggers.CoevolutionLogger(tmp_path, names) as logger:
        logger.on_progress({"rollouts": 64})
    assert len(closed) == 1


def test_the_summary_is_logged_once_after_an_interruption_of_the_final_evaluation(tmp_path, logged):
    write_json(tmp_path / "run.json", {"format": 2, "request": {"seed": 0}})
    (tmp_path / "progress.jsonl").write_text('{"rollouts": 64}\n')
    with suppress(KeyboardInterrupt), loggers.CoevolutionLogger(tmp_path, ["wandb"]) as logger:
        logger.on_progress({"rollouts": 64})
        raise KeyboardInterrupt
    assert logged == [{"rollouts": 64, "steps": 64}]
    write_json(tmp_path / "summary.json", {"final_accuracy": 75.0})
    for _ in range(2):
        with loggers.CoevolutionLogger(tmp_path, ["wandb"]):
            pass
    assert logged == [{"rollouts": 64, "steps": 64}, {"summary/final_accuracy": 75.0, "steps": 64}]


def test_unknown_and_missing_loggers_are_refused(tmp_path, monkeypatch):
    with pytest.raises(envgen.EnvgenError, match="did you mean 'tensorboard'"):
        train(tmp_path / "run", log=["tensorbord"])
    monkeypatch.setattr(loggers, "is_installed", lambda name: False)
    with pytest.raises(envgen.EnvgenError, match=r"needs the package wandb: pip install 'envgen\[wandb\]'"):
        train(tmp_path / "run", log=["wandb"])
    assert not (tmp_path / "run").exists()


def test_a_folder_with_the_name_of_a_missing_package_is_not_the_package(tmp_path, monkeypatch):
    """Such as the folder `wandb` that Weights & Biases writes to."""
    (tmp_path / "some_logger").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(loggers.LOGGERS, "some_logger", loggers.WandbLogger)
    with pytest.raises(LoggerError, match="needs the package some_logger"):
        loggers.check_loggers(["some_logger"])


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_folders_that_lead_elsewhere_are_not_written(name, folder, tmp_path):
    run = shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("tensorboard", "wandb*"))
    (tmp_path / "elsewhere").mkdir()
    (run / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LoggerError, match=f"cannot write to .*{name}: it is outside"):
        envgen.resume(run, log=[name], verbose=False)
    assert not list((tmp_path / "elsewhere").iterdir())
