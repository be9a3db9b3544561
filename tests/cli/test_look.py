"""Worlds from the command line: what it prints, and what it says to a mistake."""

import subprocess
import sys

import pytest
from commands import envgen


def test_a_census_counts_a_levels_worlds(tmp_path):
    (tmp_path / "level.json").write_text('{"trees": "none", "near": {"table": true}}')
    done = envgen("census", "level.json", "--worlds", "4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    assert rows["tree"][0] == "0.0"
    assert rows["table"] == ["1.0", "3.0", "100%"]


def test_a_preview_is_a_picture(tmp_path):
    done = envgen("preview", "--out", "worlds.png", "--worlds", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "worlds.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"tress": "none"}', "did you mean 'trees'?"),
        ("{", "Invalid JSON"),
        (None, "cannot read the level level.json: No such file"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path, text, sentence):
    if text is not None:
        (tmp_path / "level.json").write_text(text)
    done = envgen("census", "level.json", cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("out", ["blocked/worlds.png", "worlds.abc"])
def test_a_picture_that_cannot_be_written_is_one_sentence(tmp_path, out):
    (tmp_path / "blocked").write_text("a file")
    done = envgen("preview", "--out", out, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_world_is_played_with_keys_from_a_pipe(tmp_path):
    command = [sys.executable, "-m", "envgen.cli", "play", "crafter", "--terminal"]
    done = subprocess.run(command, input="right right space\n", capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "step 3" in done.stdout, done.stdout
