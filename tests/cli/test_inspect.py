"""Commands that look at worlds and levels."""

import errno
import json
import subprocess
import sys
from importlib import metadata

import pytest
from commands import envgen, get_error_line, get_usage_error, run_in_process

from envgen.worlds import registry
from special_files import KINDS, make_special_file


def test_stats_counts_what_a_level_generates(tmp_path):
    (tmp_path / "level.json").write_text('{"trees": "none", "near": {"table": true}}')
    result = envgen("stats", "level.json", "--seeds", "4", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[1:] if line.strip()}
    assert rows["tree"][0] == "0.0"
    assert rows["table"] == ["1.0", "3.0", "100%"]


def test_a_broken_package_does_not_hide_the_other_worlds(monkeypatch, capsys):
    broken = metadata.EntryPoint("broken", "no_such_module:World", registry.ENTRY_POINT_GROUP)
    other = metadata.EntryPoint("other", "envgen.worlds.heist.world:Heist", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: [broken, other])
    run_in_process(["worlds"], monkeypatch)
    output = capsys.readouterr().out
    assert "broken: cannot load the world 'broken' from no_such_module:World: ModuleNotFoundError" in output
    assert "other: 15 actions, 7 skills" in output


def test_preview_writes_an_image(tmp_path):
    result = envgen("preview", "--out", "levels.png", "--seeds", "2", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "levels.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(("seeds", "count"), [("1", "1 environment:"), ("2", "2 environments:")])
def test_preview_counts_what_it_draws(tmp_path, monkeypatch, capsys, seeds, count):
    monkeypatch.chdir(tmp_path)
    run_in_process(["preview", "--seeds", seeds], monkeypatch)
    assert capsys.readouterr().out.startswith(f"{count} preview.png\n")


def test_levels_of_a_run_are_a_level_file(tmp_path):
    level = {"level": {"trees": "none"}, "purpose": "", "skills": []}
    (tmp_path / "levels.json").write_text(json.dumps({"proposal": {"levels": [level]}, "audits": []}))
    result = envgen("stats", "levels.json", "--seeds", "2", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (tmp_path / "levels.json").write_text(json.dumps({"proposal": {"levels": [level, level]}}))
    result = envgen("stats", "levels.json", cwd=tmp_path)
    assert "contains 2 levels; this command takes a file with one" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"tress": "none"}', "did you mean 'trees'?"),
        ("{", "Invalid JSON"),
        ("[" * 100_000, "Invalid JSON"),
        ("[]", "contains no level"),
        ("3", "a level is a JSON object, not 3"),
        (None, "cannot read the level level.json: No such file"),
    ],
)
def test_invalid_level_file_prints_a_one_line_error(tmp_path, text, message, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "level.json").write_text(text)
    assert message in get_error_line(["stats", "level.json"], monkeypatch, capsys)


def test_a_picture_that_cannot_be_written_replaces_nothing(tmp_path, monkeypatch, capsys):
    def fill_the_disk(file, data):
        file.write_bytes(b"")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("envgen.runs.store.write_flushed", fill_the_disk)
    (tmp_path / "preview.png").write_text("earlier")
    line = get_error_line(["preview", "--seeds", "1"], monkeypatch, capsys)
    assert line.endswith("cannot write preview.png: No space left on device")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"preview.png": "earlier"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["preview", "--seeds", "3000"], "--seeds must be at most 64, not 3000"),
        (["preview", "--seeds", "0"], "--seeds must be a positive number, not 0"),
        (["preview", "--out", "blocked/levels.png"], "cannot write blocked/levels.png"),
        (["preview", "--out", "levels.abc"], "images are written as .png files"),
        (["preview", "levl.json"], "did you mean level.json?"),
        (["stats", "--world", "craftr"], "did you mean 'crafter'?"),
        (["play", "craftr"], "did you mean 'crafter'?"),
        (["play", "--seed", "-1"], "--seed must be 0 or greater, not -1"),
        (["bench", "--seconds", "-1"], "--seconds must be at least 0.1, not -1.0"),
        (["bench", "--seconds", "0"], "--seconds must be at least 0.1, not 0.0"),
        (["bench", "--seconds", "nan"], "--seconds must be at least 0.1, not nan"),
    ],
)
def test_invalid_arguments_print_a_one_line_error(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blocked").write_text("a file")
    (tmp_path / "level.json").write_text("{}")
    assert message in get_error_line(args, monkeypatch, capsys)
    assert not (tmp_path / "preview.png").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [(["trian"], "trian"), ([], "Missing subcommand"), (["stats", "--seds", "3"], "--seeds")],
)
def test_unknown_commands_and_options_exit_with_usage(args, message, monkeypatch, capsys):
    assert message in get_usage_error(args, monkeypatch, capsys)


@pytest.mark.parametrize("args", [["stats", "--world", "walker"], ["bench", "walker"]])
def test_a_missing_library_is_named_in_a_sentence(args, monkeypatch, capsys):
    monkeypatch.delattr("envgen.worlds.walker.physics", raising=False)
    for name in ("Box2D", "envgen.worlds.walker.physics"):
        monkeypatch.setitem(sys.modules, name, None)
    assert 'pip install "envgen[box2d]"' in get_error_line(args, monkeypatch, capsys)


def test_a_world_is_played_with_keys_from_a_pipe(tmp_path):
    command = [sys.executable, "-m", "envgen", "play", "crafter", "--terminal"]
    result = subprocess.run(command, input="right right space\n", capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "step 3" in result.stdout, result.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_level_file_that_is_not_a_small_regular_file_is_not_read(tmp_path, kind, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "level.json"
    make_special_file(file, kind)
    message = get_error_line(["stats", "level.json"], monkeypatch, capsys)
    assert "cannot read the level level.json: it " in message
    assert "but at most 1,048,576 are read" in message or "not a regular file" in message


def test_a_level_file_may_be_a_link(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text('{"tress": 1}')
    (tmp_path / "level.json").symlink_to("other.json")
    assert "did you mean 'trees'?" in get_error_line(["stats", "level.json"], monkeypatch, capsys)
