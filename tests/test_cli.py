"""The command line: what it prints, and what it says to a mistake."""

import subprocess
import sys

import pytest


def envgen(*words: str, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "envgen.cli", *words], capture_output=True, text=True, cwd=cwd)


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


def test_an_unknown_command_is_refused():
    done = envgen("cenus")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_training_says_what_is_wrong_before_it_begins(tmp_path):
    level = tmp_path / "level.json"
    level.write_text('{"biom": "beach"}')
    for arguments, says in (
        (["--steps", "0"], "--steps must be at least 1, not 0"),
        (["--ppo", "epochs"], "--ppo takes name=value with a number, true, false or null, not 'epochs'"),
        (["--ppo", "learning_rat=1"], "did you mean 'learning_rate'?"),
        (["--ppo", "epochs=0"], "epochs: Input should be greater than or equal to 1 (got 0)"),
        (["--levels", str(level)], "did you mean 'biome'?"),
        (["--device", "warp"], "--device warp is not to be had here"),
    ):
        done = envgen("train", "--folder", str(tmp_path / "run"), *arguments)
        assert done.returncode == 2, arguments
        assert says in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "run").exists()


def test_training_evaluates_and_the_same_command_finds_it_done(tmp_path):
    command = ["train", "--steps", "2000", "--episodes", "3", "--folder", str(tmp_path / "run"), "--published", "2"]
    command += ["--ppo", "num_envs=8", "rollout=32"]
    first = envgen(*command)
    assert first.returncode == 0, first.stderr
    assert "2,000 of 2,000 steps" in first.stdout
    assert "3 episodes of crafter" in first.stdout
    assert "in the package" in first.stdout
    again = envgen(*command)
    assert "steps/s" not in again.stdout
    assert "3 episodes of crafter" in again.stdout
    other = envgen(*command, "--seed", "1")
    assert other.returncode == 2
    assert "was begun with seed 0 (now 1)" in other.stderr
