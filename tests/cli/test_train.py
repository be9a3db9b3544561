"""Training from the command line: a run from its first word to its comparison, and a sentence for every mistake."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import envgen, refusal

SMALL = ["--cycles", "1", "--levels", "2", "--cycle-steps", "512", "--final-steps", "512", "--feedback-seeds", "2",
         "--feedback-episodes", "2", "--episodes", "3", "--audit-steps", "20",
         "--ppo", "num_envs=8", "num_steps=32"]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two small runs."""
    folder = tmp_path_factory.mktemp("runs")
    for designer in ("none", "expert"):
        done = envgen("train", "crafter", *SMALL, "--designer", designer, "--folder", folder / designer)
        assert done.returncode == 0, done.stderr
        (folder / f"{designer}.txt").write_text(done.stdout)
    return folder


def test_a_run_tells_what_was_designed_and_what_came_of_it(runs):
    told = (runs / "expert.txt").read_text()
    assert "Cycle 1: 2 levels" in told
    assert "teach collect_wood (0.0%), which needs nothing" in told
    assert "After cycle 1, in the original: score" in told
    assert "3 episodes of crafter" in told
    assert "256 steps in levels, 768 in the original" in told
    assert f"Everything about this run: {runs / 'expert'}" in told


def test_a_finished_run_is_told_again_and_not_done_again(runs):
    again = envgen("train", "--resume", runs / "expert")
    assert again.returncode == 0, again.stderr
    assert "steps/s" not in again.stdout
    assert "3 episodes of crafter" in again.stdout


def test_runs_are_compared_evaluated_and_checked_in_the_package(runs):
    table = envgen("compare", runs)
    assert table.returncode == 0, table.stderr
    assert "expert" in table.stdout
    assert "collect_wood" in table.stdout
    page = envgen("compare", runs / "none", runs / "expert", "--markdown").stdout
    assert "| designer | seeds |" in page
    assert "collect_diamond" in page
    played = envgen("evaluate", runs / "expert", "--episodes", "2", "--published", "1")
    assert played.returncode == 0, played.stderr
    assert "2 episodes of crafter" in played.stdout
    assert "reward in the package" in played.stdout


def test_ctrl_c_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "envgen.cli", "train", *SMALL, "--final-steps", "1000000", "--folder", "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=tmp_path)
    progress, until = tmp_path / "run" / "progress.jsonl", time.monotonic() + 120
    while time.monotonic() < until and not (progress.exists() and progress.read_text().count("\n") > 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "envgen train --resume run" in said
    assert "Traceback" not in said
    lines = [json.loads(line) for line in progress.read_text().splitlines()]
    assert lines[-1]["steps"] < 1_000_000


def test_mistakes_are_one_sentence_with_the_nearest_right_word(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    level = tmp_path / "level.json"
    level.write_text('{"biom": "beach"}')
    (tmp_path / "runs").mkdir()
    for words, says in (
        (["trian"], "did you mean 'train'?"),
        (["train", "craftr"], "did you mean 'crafter'?"),
        (["train", "--designer", "exprt"], "did you mean 'expert'?"),
        (["train", "--preset", "qick"], "did you mean 'quick'?"),
        (["train", "--observation", "pixel"], "did you mean 'pixels'?"),
        (["train", "--cycels", "3"], "did you mean --cycles?"),
        (["train", "--mixing", "altrnate"], "did you mean 'alternate'?"),
        (["train", "--seed", "one"], "--seed"),
        (["train", "--levels", "0"], "levels: Input should be greater than or equal to 1 (got 0)"),
        (["train", "--ppo", "epochs"], "--ppo takes name=value with a number, true, false or null, not 'epochs'"),
        (["train", "--ppo", "learning_rat=1"], "did you mean 'learning_rate'?"),
        (["train", "--ppo", "num_envs=2"], "4 levels do not fit into 2 environments"),
        (["train", "--designer", "alpha", "--options", "bta=1"], "did you mean 'beta'?"),
        (["train", "--designer", "fixed", "--level-files", str(level)], "did you mean 'biome'?"),
        (["train", "--level-files", str(level)], "did you mean 'biome'?"),
        (["train", "--device", "warp"], "--device warp is not to be had here"),
        (["train", "--designer", "llm"], "--llm openai:MODEL"),
        (["train", "--designer", "llm", "--llm", "opnai:gpt"], "did you mean 'openai'?"),
        (["train", "--designer", "llm", "--llm", "openai:gpt"], "set OPENAI_API_KEY"),
        (["train", "--llm", "manual"], "the designer expert asks no language model"),
        (["train", "--max-calls", "3"], "--max-calls goes with --llm"),
        (["train", "--resume", "rums"], "did you mean runs?"),
        (["train", "--resume", "runs", "--seed", "2"], "--seed cannot be given with --resume"),
        (["evaluate", "rums"], "did you mean runs?"),
        (["compare", "rums"], "runs"),
        (["preview", "levl.json"], "did you mean level.json?"),
        (["play", "craftr"], "did you mean 'crafter'?"),
    ):  # fmt: skip
        told = refusal(words, monkeypatch, capsys)
        assert says in told, (words, told)
        assert not (tmp_path / "out").exists(), words


def test_a_run_of_someone_else_is_not_told_a_key(tmp_path, monkeypatch, capsys):
    asked = {"world": "crafter", "designer": {"name": "llm", "llm": "openai:some-model"}, "plan": {},
             "observation": "symbols", "seed": 0, "ppo": {}}  # fmt: skip
    means = {"base_url": "http://elsewhere:1/v1", "key_env": "HOME"}
    about = tmp_path / "run.json"
    about.write_text(json.dumps({"request": asked, "means": means}))
    told = refusal(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
    assert "give --base-url http://elsewhere:1/v1 --key-env HOME again" in told
    told = refusal(["train", "--resume", str(tmp_path), "--base-url", "http://mine:1/v1"], monkeypatch, capsys)
    assert "give --key-env HOME again" in told
    about.write_text(json.dumps({"request": {**asked, "designer": {**asked["designer"], **means}}}))
    told = refusal(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
    assert "does not say by which base_url" in told
    for foreign in ({"request": {}}, {"request": {"designer": []}}, {"request": {**asked, "plan": 3}}):
        about.write_text(json.dumps(foreign))
        told = refusal(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
        assert "is not a run of envgen train" in told
    for foreign in ("[]", "[" * 100_000, '{"request": 1}', '{"request": {}, "means": []}'):
        about.write_text(foreign)
        told = refusal(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
        assert "run.json" in told
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_every_setting_of_the_plan_and_the_model_is_a_flag():
    told = envgen("train", "--help").stdout
    for flag in (
        "--cycles",
        "--ratio",
        "--mixing",
        "--ranking-steps",
        "--llm",
        "--base-url",
        "--feedback",
        "--obfuscate",
    ):
        assert flag in told


def test_two_processes_train_one_agent_through_the_loop(tmp_path):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--master-port=29611",
        "-m",
        "envgen.cli",
    ]
    done = subprocess.run(
        [*command, "train", *SMALL, "--folder", "run"], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("3 episodes of crafter") == 1
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == {
        "levels": 256, "original": 768, "ranking": 0,
    }  # fmt: skip


def test_heist_goes_through_the_loop_and_stands_beside_random_players(tmp_path):
    small = [*SMALL, "--designer", "expert", "--folder", "run", "--audit-steps", "200"]
    done = envgen("train", "heist", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "teach take_blue_key" in done.stdout
    assert "3 episodes of heist" in done.stdout
    assert "random players steal the gem in 18.7%" in done.stdout
