"""`envgen diagnose`: tables, `diagnosis.json` and a figure for a run, and one-line errors for wrong input."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import get_error_line, get_usage_error

import envgen
from envgen.cli.main import main
from envgen.curriculum.diagnosis import Diagnosis


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose") / "run"
    plan = {"cycles": 0, "final_steps": 512, "episodes": 3}
    envgen.train(
        "crafter", "none", plan=plan, hyperparameters={"num_envs": 8, "num_steps": 32}, folder=folder, verbose=False
    )
    return folder


@pytest.fixture
def copied_run(run, tmp_path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


@pytest.fixture
def diagnose(monkeypatch, capsys) -> Callable[..., str]:
    """Run the command in this process, and return what it prints."""

    def run_command(*args: object) -> str:
        monkeypatch.setattr(sys, "argv", ["envgen", "diagnose", *map(str, args)])
        main()
        return capsys.readouterr().out

    return run_command


def test_a_run_is_diagnosed(copied_run, diagnose):
    stdout = diagnose(copied_run, "--episodes", 3)
    assert "3 episodes of crafter" in stdout
    assert "Ends of 3 episodes" in stdout
    assert "make_iron_pickaxe" in stdout
    assert "bottleneck" in stdout
    assert (copied_run / "diagnosis.png").read_bytes().startswith(b"\x89PNG")
    diagnosis = Diagnosis.model_validate_json((copied_run / "diagnosis.json").read_text())
    assert diagnosis.evaluation.episodes == 3
    assert len(diagnosis.skills) == 22
    assert not list(copied_run.glob(".*"))  # no unfinished file


def test_a_diagnosis_is_repeatable_and_takes_the_options_of_an_evaluation(copied_run, diagnose, tmp_path):
    (tmp_path / "level.json").write_text('{"length": 7, "zombies": "none"}')
    options = ["--episodes", 2, "--seed", 5, "--level", tmp_path / "level.json", "--threshold", 30]
    documents = []
    for _ in range(2):
        diagnose(copied_run, *options)
        documents.append(json.loads((copied_run / "diagnosis.json").read_text()))
    assert documents[0] == documents[1]
    assert documents[0]["threshold"] == 30
    assert documents[0]["evaluation"]["seed"] == 5
    assert documents[0]["evaluation"]["level"]["length"] == 7
    [end] = documents[0]["ends"]
    assert (end["cause"], end["lengths"]) == ("time limit", [7, 7])


def test_a_saved_policy_is_diagnosed(run, diagnose, tmp_path):
    envgen.load_policy(run).save(tmp_path / "policy")
    diagnose(tmp_path / "policy", "--episodes", 2)
    assert (tmp_path / "policy" / "diagnosis.json").exists()


def test_an_extended_run_forgets_the_diagnosis_of_the_shorter_one(copied_run):
    for name in ("diagnosis.json", "diagnosis.png"):
        (copied_run / name).write_text("{}")
    longer = {"cycles": 0, "final_steps": 768, "episodes": 3}
    settings = {"num_envs": 8, "num_steps": 32}
    envgen.train(
        "crafter", "none", plan=longer, hyperparameters=settings, folder=copied_run, extend=True, verbose=False
    )
    assert not list(copied_run.glob("diagnosis.*"))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["rums"], "did you mean runs?"),
        (["runs"], "runs is not a run directory"),
        (["runs", "--seed", "-1"], "--seed must be 0 or greater, not -1"),
        (["runs", "--episodes", "0"], "--episodes must be a positive number, not 0"),
        (["runs", "--threshold", "0"], "--threshold must be above 0 and at most 100 percent, not 0"),
        (["runs", "--threshold", "120"], "--threshold must be above 0 and at most 100 percent, not 120"),
        (["runs", "--device", "warp"], "device 'warp' is not available"),
    ],
)
def test_invalid_arguments_print_a_one_line_error(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert message in get_error_line(["diagnose", *args], monkeypatch, capsys)
    assert not list((tmp_path / "runs").iterdir())


def test_a_wrong_level_prints_a_one_line_error(copied_run, tmp_path, monkeypatch, capsys):
    (tmp_path / "level.json").write_text('{"biom": "beach"}')
    args = ["diagnose", str(copied_run), "--level", str(tmp_path / "level.json")]
    assert "did you mean 'biome'?" in get_error_line(args, monkeypatch, capsys)
    assert not (copied_run / "diagnosis.json").exists()


def test_a_link_in_place_of_a_result_is_replaced_and_not_followed(copied_run, diagnose, tmp_path):
    for suffix in ("png", "json"):
        (tmp_path / f"other.{suffix}").write_text("not ours")
        (copied_run / f"diagnosis.{suffix}").symlink_to(tmp_path / f"other.{suffix}")
    diagnose(copied_run, "--episodes", 1)
    for suffix in ("png", "json"):
        assert (tmp_path / f"other.{suffix}").read_text() == "not ours"
        assert not (copied_run / f"diagnosis.{suffix}").is_symlink()


def test_unknown_options_and_a_missing_run_print_the_usage(monkeypatch, capsys):
    assert "--episodes" in get_usage_error(["diagnose", "run", "--episods", "3"], monkeypatch, capsys)
    assert "Missing from envgen diagnose" in get_usage_error(["diagnose"], monkeypatch, capsys)
