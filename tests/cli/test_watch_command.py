"""`envgen watch` and the videos of `envgen evaluate`, and one-line errors for wrong input."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pygame
import pytest
from commands import get_error_line, get_usage_error

import envgen
from envgen.cli.main import main


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("watch") / "run"
    plan = {"cycles": 0, "final_steps": 512, "episodes": 3}
    envgen.train(
        "crafter", "none", plan=plan, hyperparameters={"num_envs": 8, "num_steps": 32}, folder=folder, verbose=False
    )
    return folder


@pytest.fixture
def level(tmp_path) -> Path:
    """Short episodes that begin with a sapling, which is easy to place; diamonds are far away."""
    file = tmp_path / "level.json"
    file.write_text('{"length": 30, "inventory": {"sapling": 1}}')
    return file


@pytest.fixture
def command(monkeypatch, capsys) -> Callable[..., str]:
    """Run a command in this process, and return what it prints."""

    def run_command(*args: object) -> str:
        monkeypatch.setattr(sys, "argv", ["envgen", *map(str, args)])
        main()
        return capsys.readouterr().out

    return run_command


def test_watch_prints_episodes_without_a_terminal(run, level, command, monkeypatch):
    pygame.quit()  # another test may have left it with a display
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")
    lines = command("watch", run, "--episodes", 2, "--seed", 3, "--level", level).splitlines()
    assert lines[0] == "crafter, seed 3"
    assert "crafter, seed 4" in lines
    assert sum("stopped at its time limit: return" in line for line in lines) == 2


def test_watch_finds_the_quickest_episode_with_a_skill(run, level, command, monkeypatch):
    monkeypatch.setattr("envgen.episodes_api.FIRST_SEARCH", 16)
    options = ["--terminal", "--seed", 3, "--level", level]
    lines = command("watch", run, "--skill", "place_plant", *options).splitlines()
    placed = [int(line.split()[1]) for line in lines if "place_plant" in line]
    assert len(placed) == 1
    best = command("watch", run, "--best", *options)
    assert best.count("stopped at its time limit") == 1
    assert best == command("watch", run, "--best", *options)


def test_evaluate_writes_videos_and_gives_the_same_results(run, level, command):
    options = ["--episodes", 16, "--seed", 3, "--level", level]
    plain = command("evaluate", run, *options)
    output = command("evaluate", run, *options, "--video", 2, "--skill", "place_plant", "--video-format", "webp")
    assert output.startswith(plain)
    assert sorted(file.name for file in (run / "videos").iterdir()) == ["place_plant-1.webp", "place_plant-2.webp"]
    assert f"{run / 'videos' / 'place_plant-1.webp'}: seed " in output


def test_wrong_input_prints_a_one_line_error(run, level, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    few = ["--episodes", "2", "--level", str(level)]
    for args, message in (
        (["watch", "rum"], "rum does not exist"),
        (["watch", str(run), "--episodes", "0"], "--episodes must be a positive number, not 0"),
        (["watch", str(run), "--speed", "-1"], "--speed must be a positive number, not -1"),
        (["watch", str(run), "--speed", "nan"], "--speed must be a positive number, not nan"),
        (["watch", str(run), "--seed", "-1"], "--seed must be 0 or greater"),
        (["watch", str(run), "--skill", "place_plan"], "did you mean 'place_plant'?"),
        (["watch", str(tmp_path)], "is not a run"),
        (
            ["evaluate", str(run), "--video", "1", "--skill", "collect_diamond", *few],
            "collect_diamond is achieved in none",
        ),
        (["evaluate", str(run), "--video", "-1"], "--video must be from 0 to the number of episodes, 256, not -1"),
        (["evaluate", str(run), "--video", "5", "--episodes", "4"], "--video must be from 0 to the number of"),
        (["evaluate", str(run), "--best"], "--best requires --video, the number of videos to write"),
        (["evaluate", str(run), "--video", "1", "--skill", "wood"], "skill 'wood' is not one of"),
        (["evaluate", str(run), "--video", "1", "--video-format", "avi"], "video format 'avi' is not one of mp4, webp"),
        (["evaluate", str(run), "--video", "1", "--video-folder", str(tmp_path / "file")], "cannot write videos to"),
    ):
        assert message in get_error_line(args, monkeypatch, capsys), args


def test_videos_are_not_written_through_a_link(run, tmp_path, monkeypatch, capsys):
    linked = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("videos"))
    (tmp_path / "elsewhere").mkdir()
    (linked / "videos").symlink_to(tmp_path / "elsewhere")
    line = get_error_line(["evaluate", str(linked), "--video", "1"], monkeypatch, capsys)
    assert "cannot write videos to" in line
    assert "pass --video-folder" in line


def test_a_policy_of_another_world_is_an_error(monkeypatch, capsys):
    far = str(Path(__file__).parents[2] / "policies" / "crafter-far")
    line = get_error_line(["evaluate", far, "--world", "walker", "--episodes", "2"], monkeypatch, capsys)
    assert "the policy observes symbols, which the world walker does not have" in line


def test_watch_gives_up_on_a_skill_that_no_episode_achieves(run, level, monkeypatch, capsys):
    monkeypatch.setattr("envgen.episodes_api.FIRST_SEARCH", 4)
    monkeypatch.setattr("envgen.episodes_api.MAX_SEARCH", 8)
    args = ["watch", str(run), "--skill", "collect_diamond", "--level", str(level), "--terminal"]
    message = get_usage_error(args, monkeypatch, capsys)
    assert message.endswith("envgen: collect_diamond is achieved in none of the 8 episodes played")
