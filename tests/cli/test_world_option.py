"""Runs with a world or learner that is not installed: the commands take it as `--world` or `--learner module:Class`."""

import sys
import textwrap
from pathlib import Path

import pytest
from commands import get_error_line, run_in_process

import envgen

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAN = {"cycles": 1, "levels": 2, "cycle_steps": 512, "final_steps": 256, "feedback_groups": 2, "feedback_episodes": 2,
        "episodes": 2, "audit_steps": 5}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("cart-pole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        hyperparameters = {"num_envs": 4, "num_steps": 32}
        envgen.train("gymnasium_world:world", "random", plan=PLAN, folder=folder, hyperparameters=hyperparameters,
                     verbose=False)  # fmt: skip
    return folder


@pytest.mark.parametrize("command", ["evaluate", "diagnose"])
def test_policies_are_played_in_the_given_world(run, command, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    arguments = [command, str(run), "--episodes", "2"]
    assert "add --world module:Class" in get_error_line(arguments, monkeypatch, capsys)
    assert "no module" in get_error_line([*arguments, "--world", "no_such_module:World"], monkeypatch, capsys)
    run_in_process([*arguments, "--world", "gymnasium_world:world"], monkeypatch)
    assert "balance_50" in capsys.readouterr().out


def test_a_world_of_the_current_directory_is_found_whenever_it_imports(tmp_path, monkeypatch, capsys):
    code = """
        from envgen.worlds.heist.world import Heist

        class LateHeist(Heist):
            def __init__(self):
                import helper_of_late_heist
        """
    (tmp_path / "late_heist.py").write_text(textwrap.dedent(code))
    (tmp_path / "helper_of_late_heist.py").write_text("print('helper')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "level.json").write_text("{}")
    run_in_process(["stats", "level.json", "--world", "late_heist:LateHeist", "--seeds", "1"], monkeypatch)
    assert "helper" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["evaluate", "diagnose", "watch"])
def test_policies_of_the_given_learner_are_played(command, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_learner.py").write_text("from envgen.agents.ppo import PPO\n\n\nclass MyLearner(PPO):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    envgen.train(
        "heist", "none", plan={"cycles": 0, "final_steps": 64, "episodes": 2}, folder=tmp_path / "run", verbose=False,
        learner="my_learner:MyLearner", hyperparameters={"num_envs": 2, "num_steps": 32},
    )  # fmt: skip
    arguments = [command, str(tmp_path / "run"), "--episodes", "1", *(["--terminal"] if command == "watch" else [])]
    assert "add --learner module:Class" in get_error_line(arguments, monkeypatch, capsys)
    assert "has no 'Mine'" in get_error_line([*arguments, "--learner", "my_learner:Mine"], monkeypatch, capsys)
    run_in_process([*arguments, "--learner", "my_learner:MyLearner"], monkeypatch)
    assert "take_blue_key" in capsys.readouterr().out


def test_policies_are_watched_and_filmed_in_the_given_world(run, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    world = ["--world", "gymnasium_world:world"]
    run_in_process(["watch", str(run), "--terminal", "--episodes", "2", *world], monkeypatch)
    assert capsys.readouterr().out.count("of 3 skills") == 2
    video = ["--video", "1", "--video-format", "webp", "--video-folder", str(tmp_path)]
    run_in_process(["evaluate", str(run), "--episodes", "2", *video, *world], monkeypatch)
    assert (tmp_path / "episode-1.webp").read_bytes()[8:12] == b"WEBP"


def test_reports_draw_the_levels_of_the_given_world(run, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    pages = []
    for world in ([], ["--world", "gymnasium_world:world"]):
        run_in_process(["report", str(run), "--out", str(tmp_path / "report.html"), *world], monkeypatch)
        pages.append((tmp_path / "report.html").read_text())
    assert "levels of cart-pole are shown without pictures: add --world module:Class" in capsys.readouterr().err
    assert "Map of level 1" not in pages[0]
    assert "Map of level 1" in pages[1]
