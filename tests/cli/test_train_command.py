"""`envgen train`, `evaluate` and `compare`, from the first run to the comparison."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import wandb
from commands import envgen_forked, get_error_line, get_usage_error, run_in_process

from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.api import default_folder
from envgen.cli.common import resume_hint
from envgen.cli.evaluate import compare_with_reference
from envgen.cli.sweep import check_run
from envgen.cli.train import train_command
from envgen.curriculum.evaluate import evaluate
from envgen.curriculum.plan import PracticeSettings, learner_preset
from envgen.settings import flatten
from envgen.sweep.grid import PlannedRun, parse_flags
from envgen.worlds.crafter.world import Crafter

SMALL = ["--cycles", "1", "--levels", "2", "--cycle-steps", "512", "--final-steps", "512", "--feedback-groups", "2",
         "--feedback-episodes", "2", "--episodes", "3", "--audit-steps", "20",
         "--ppo.num-envs", "8", "--ppo.num-steps", "32"]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two small runs of Crafter."""
    folder = tmp_path_factory.mktemp("runs")
    for designer in ("none", "expert"):
        result = envgen_forked("train", "crafter", *SMALL, "--designer", designer, "--folder", folder / designer)
        assert result.returncode == 0, result.stderr
        (folder / f"{designer}.txt").write_text(result.stdout)
    return folder


@pytest.mark.parametrize(
    ("learner", "learner_preset", "network", "practice", "name"),
    [
        ("ppo", "fast", {}, {"share": 0.0}, "crafter-expert-paper-symbols-3"),
        ("ppo", "fast", {}, {"share": 0.2}, "crafter-expert-paper-symbols-practice-3"),
        ("ppo", "fast", {"encoder": "symbols", "memory": "none", "width": 64}, {}, "crafter-expert-paper-symbols-3"),
        ("ppo", "far", {"memory": "gru", "history": True}, {}, "crafter-expert-paper-symbols-far-gru-history-3"),
        ("mine:Learner", "fast", {"encoder": "mlp"}, {}, "crafter-expert-paper-symbols-mine-Learner-mlp-3"),
        ("ppo", "far", {"history": False}, {}, "crafter-expert-paper-symbols-far-no-history-3"),
    ],
)  # fmt: skip
def test_the_default_folder_names_the_learner(learner, learner_preset, network, practice, name):
    folder = default_folder(Crafter(), "expert", "paper", "symbols", 3, learner, learner_preset, network, practice)
    assert folder == Path("out") / name


@pytest.fixture(scope="module")
def heist_run(tmp_path_factory) -> tuple[Path, str]:
    """A small run of Heist, and what it printed."""
    folder = tmp_path_factory.mktemp("heist") / "run"
    result = envgen_forked("train", "heist", *SMALL, "--designer", "expert", "--folder", folder, "--audit-steps", "200")
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def test_a_run_prints_levels_evaluations_and_a_summary(runs):
    stdout = (runs / "expert.txt").read_text()
    assert "Cycle 1: 2 levels" in stdout
    assert "collect_wood" in stdout
    assert "After cycle 1, in the original: score" in stdout
    assert "3 episodes of crafter" in stdout
    assert "256 steps in levels, 768 in the original" in stdout
    assert f"Run directory: {runs / 'expert'}" in stdout


def test_a_finished_run_is_reported_again_and_not_repeated(runs):
    result = envgen_forked("train", "--resume", runs / "expert")
    assert result.returncode == 0, result.stderr
    assert "steps/s" not in result.stdout
    assert "Cycle 1: 2 levels" in result.stdout
    assert "3 episodes of crafter" in result.stdout


def test_quiet_runs_print_only_the_results(runs, monkeypatch, capsys):
    run_in_process(["train", "--resume", str(runs / "expert"), "--quiet"], monkeypatch)
    stdout = capsys.readouterr().out
    assert "3 episodes of crafter" in stdout
    assert f"Run directory: {runs / 'expert'}" in stdout
    assert "Cycle 1" not in stdout


def test_finished_runs_are_compared_and_evaluated(runs):
    table = envgen_forked("compare", runs)
    assert table.returncode == 0, table.stderr
    assert "expert" in table.stdout
    assert "collect_wood" in table.stdout
    page = envgen_forked("compare", runs / "none", runs / "expert", "--markdown").stdout
    assert "| designer | seeds |" in page
    assert "collect_diamond" in page
    result = envgen_forked("evaluate", runs / "expert", "--episodes", "2", "--reference-episodes", "1")
    assert result.returncode == 0, result.stderr
    assert "2 episodes of crafter" in result.stdout
    assert "reward in the reference package" in result.stdout


def test_a_finished_run_is_extended(runs, tmp_path):
    longer = [*SMALL, "--designer", "expert", "--folder", "run"]
    assert envgen_forked("train", "crafter", *longer, cwd=tmp_path).returncode == 0
    longer[longer.index("--final-steps") + 1] = "1024"
    refused = envgen_forked("train", "crafter", *longer, cwd=tmp_path)
    assert refused.returncode == 2
    assert "final_steps" in refused.stderr
    result = envgen_forked("train", "crafter", *longer, "--extend", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "256 steps in levels, 1,280 in the original" in result.stdout


def test_a_run_with_practice_is_resumed_from_its_directory(tmp_path):
    practice = ["--practice.share", "0.5", "--practice.max-steps", "none", "--practice.snapshot-interval", "2"]
    args = [*SMALL, "--designer", "none", *practice, "--folder", "run"]
    assert envgen_forked("train", "crafter", *args, cwd=tmp_path).returncode == 0
    request = json.loads((tmp_path / "run" / "run.json").read_text())["request"]
    assert (request["practice"]["share"], request["practice"]["max_steps"]) == (0.5, None)
    assert envgen_forked("train", "--resume", "run", cwd=tmp_path).returncode == 0
    refused = envgen_forked("train", "crafter", *SMALL, "--designer", "none", "--folder", "run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "practice.share 0.5 (now unset)" in refused.stderr


def test_a_learner_preset_sets_learner_network_and_practice(tmp_path):
    args = [*SMALL, "--designer", "none", "--learner-preset", "far", "--network", "symbols", "--ppo.gamma", "0.9"]
    args += ["--practice.max-steps", "50", "--folder", "run"]
    assert envgen_forked("train", "crafter", *args, cwd=tmp_path).returncode == 0
    request = json.loads((tmp_path / "run" / "run.json").read_text())["request"]
    settings, practice = learner_preset("far", Crafter())
    assert request["practice"] == PracticeSettings(**practice, max_steps=50).model_dump(mode="json")
    learner, network = request["learner"], request["learner"]["network"]
    assert (learner["gamma"], learner["num_envs"], network["encoder"]) == (0.9, 8, "symbols")
    assert learner["final_learning_rate"] == settings["final_learning_rate"]
    assert learner["anneal_steps"] == 1024
    assert {name: network[name] for name in settings["network"]} == settings["network"]


@pytest.mark.parametrize(
    ("world", "options", "changes"),
    [
        ("crafter", {"history": False}, {"network.history": (True, False)}),
        ("crafter", {"ppo.final-learning-rate": "none"}, {"final_learning_rate": (5e-5, None)}),
        ("minigrid", {"ppo.final-learning-rate": "none"},
         {"final_learning_rate": (5e-5, None), "anneal_steps": (1_960_000, None)}),
        ("walker", {"ppo.bootstrap-on-truncation": False}, {"bootstrap_on_truncation": (True, False)}),
    ],
)  # fmt: skip
def test_an_option_undoes_a_setting_of_the_learner_preset_or_the_world(world, options, changes):
    base = {"world": world, "learner-preset": "far"}
    before, after = (
        flatten(check_run(PlannedRun("run", "train", chosen))["learner"]) for chosen in (base, base | options)
    )
    assert {name: (before[name], after[name]) for name in before if before[name] != after[name]} == changes


def test_a_sweep_with_and_without_a_flag_of_the_learner_preset_has_two_different_runs():
    plans = parse_flags(["--learner-preset", "far", "--history", "true,false"], ["crafter"]).planned_runs()
    requests = [check_run(plan) for plan in plans]
    assert [request["learner"]["network"].pop("history") for request in requests] == [True, False]
    assert requests[0] == requests[1]


def test_ctrl_c_prints_how_to_resume(tmp_path):
    command = [sys.executable, "-m", "envgen", "train", *SMALL, "--final-steps", "1000000", "--folder", "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=tmp_path)
    progress, deadline = tmp_path / "run" / "progress.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline and not (progress.exists() and progress.read_text().count("\n") > 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == 130
    assert "envgen train --resume run" in stderr
    assert "Traceback" not in stderr
    lines = [json.loads(line) for line in progress.read_text().splitlines()]
    assert lines[-1]["steps"] < 1_000_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [("", "Resume with: envgen train --resume run"), ("--base-url u", "--resume run --base-url u"),
     (None, "Resume by repeating the command")],
)  # fmt: skip
def test_ctrl_c_names_resume_only_for_runs_that_it_accepts(flags, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").touch()
    with pytest.raises(KeyboardInterrupt), resume_hint("train", Path("run"), flags):
        raise KeyboardInterrupt
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("choice", "message"),
    [({}, "Resume with: envgen train --resume"), ({"designer": "mine:Designer"}, "Resume by repeating the command"),
     ({"learner": "mine:Learner"}, "Resume by repeating the command")],
)  # fmt: skip
def test_ctrl_c_suggests_repeating_the_command_for_classes_of_ones_own(choice, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "run.json").touch()

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("envgen.api.train", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_command([])("crafter", folder=tmp_path, **choice)
    assert message in capsys.readouterr().err


def test_a_missing_key_of_weights_and_biases_prints_a_one_line_error(runs, monkeypatch, capsys):
    def fail(**arguments):
        raise wandb.errors.UsageError("No API key configured. Use `wandb login` to log in.")

    monkeypatch.setattr("wandb.init", fail)
    message = get_error_line(["train", "--resume", str(runs / "none"), "--log", "wandb"], monkeypatch, capsys)
    assert "Use `wandb login` to log in; correct this, set WANDB_MODE=offline" in message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "craftr"], "did you mean 'crafter'?"),
        (["train", "--designer", "exprt"], "did you mean 'expert'?"),
        (["train", "--designer", "no_such_module:Mine"], "no_such_module"),
        (["train", "--preset", "qick"], "did you mean 'quick'?"),
        (["train", "--observation", "pixel"], "did you mean 'pixels'?"),
        (["train", "--learner", "pp"], "did you mean 'ppo'?"),
        (["train", "--resume", "runs", "--learner", "ppo"], "--learner cannot be combined with --resume"),
        (["train", "--initial-policy", "runs"], "runs is not a run directory"),
        (["train", "--resume", "runs", "--initial-policy", "x"], "--initial-policy cannot be combined with --resume"),
        (["train", "--seed", "-1"], "--seed must be 0 or greater, not -1"),
        (["train", "--levels", "0"], "levels: Input should be greater than or equal to 1 (got 0)"),
        (["train", "--ppo.num-envs", "2"], "levels is 4, but only 2 environments can play levels"),
        (
            ["train", "--learner-preset", "fats"],
            "'fats' is not one of published, fast, far; did you mean 'fast'?",
        ),
        (["train", "--resume", "runs", "--learner-preset", "far"], "--learner-preset cannot be combined with --resume"),
        (["train", "--log", "tensorbord"], "log 'tensorbord' is not one of tensorboard, wandb; did you mean"),
        (["train", "--practice.share", "1"], "practice.share: Input should be less than 1 (got 1.0)"),
        (["train", "--practice.share", "0.5", "--ppo.num-envs", "1", "--cycles", "0"], "at least 2 environments"),
        (["train", "--resume", "runs", "--practice.share", "0"], "--practice.share cannot be combined with --resume"),
        (["train", "--ppo.gamma", "1.5"], "gamma: Input should be less than or equal to 1 (got 1.5)"),
        (["train", "--designer.alpha", "0.3"], "--designer.alpha requires --designer alpha, not expert"),
        (
            ["train", "--designer", "alpha", "--designer.staleness-coef=0.1"],
            "--designer.staleness-coef requires --designer plr or accel, not alpha",
        ),
        (["sweep", "--seed", "0:1", "--designer.alpha", "0.3"], "requires --designer alpha, not expert"),
        (
            ["train", "--distillation.temperature", "1"],
            "--distillation.temperature requires --learner distillation; the settings of ppo are --ppo.*",
        ),
        (["train", "--learner", "distillation", "--ppo.gamma", "0.9"], "settings of distillation are --distillation.*"),
        (["train", "--designer", "fixed", "--level-files", "level.json"], "did you mean 'biome'?"),
        (["train", "--level-files", "level.json"], "did you mean 'biome'?"),
        (["train", "--device", "warp"], "device 'warp' is not available"),
        (["train", "--reference-episodes", "-4"], "--reference-episodes must be 0 or greater, not -4"),
        (["train", "heist", "--reference-episodes", "4"], "there is no reference package of heist"),
        (["train", "--designer", "llm"], "--llm openai:MODEL"),
        (["train", "--designer", "llm", "--llm", "opnai:gpt"], "did you mean 'openai'?"),
        (["train", "--designer", "llm", "--llm", "openai:gpt"], "set OPENAI_API_KEY"),
        (["train", "--llm", "manual"], "expert"),
        (["train", "--max-calls", "3"], "--max-calls requires --llm"),
        (["train", "--resume", "rums"], "did you mean runs?"),
        (["train", "--resume", "runs", "--seed", "0"], "--seed cannot be combined with --resume"),
        (["train", "--resume", "runs", "--ppo.gamma", "0.9"], "--ppo.gamma cannot be combined with --resume"),
        (["train", "--resume", "runs", "--cycles", "4"], "--cycles cannot be combined with --resume"),
        (["train", "--resume", "runs", "--extend"], "repeat the command that started it with the larger number and"),
        (["train", ""], "an argument is empty"),
        (["train", "--folder", ""], "--folder is empty"),
        (["train", "crafter", "--designer="], "--designer is empty"),
        (["sweep", "--seed", "0:1", "--folder", ""], "--folder is empty"),
        (["train", "crafter", "--resume", "runs"], "WORLD cannot be combined with --resume"),
        (["evaluate", "rums"], "did you mean runs?"),
        (["evaluate", "runs"], "runs is not a run directory"),
        (["evaluate", "runs", "--seed", "-1"], "--seed must be 0 or greater, not -1"),
        (["evaluate", "runs", "--level", "level.json", "--reference-episodes", "4"], "cannot be combined with --level"),
        (["evaluate", "runs", "--episodes", "0"], "--episodes must be a positive number, not 0"),
        (["compare", "rums"], "runs"),
        (["compare"], "compare needs at least one run directory"),
    ],
)
def test_invalid_arguments_print_a_one_line_error(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "level.json").write_text('{"biom": "beach"}')
    (tmp_path / "runs").mkdir()
    assert message in get_error_line(args, monkeypatch, capsys)
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "--cycels", "3"], "--cycles"),
        (["train", "--seed", "one"], "--seed"),
        (["train", "--mixing", "altrnate"], "alternate"),
        (["train", "--ppo.learning-rat", "1"], "--ppo.learning-rate"),
        (["train", "--designer", "alpha", "--designer.bta", "1"], "--designer.beta"),
        (["train", "--foo"], "run envgen train --help"),
        (["evaluate", "runs", "--fps", "3"], "run envgen evaluate --help"),
        (["evaluate", "runs", "--designer.alpha", "0.3"], "run envgen evaluate --help"),
    ],
)
def test_unknown_options_print_the_usage(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in get_usage_error(args, monkeypatch, capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", ["cuda", "banana"])
def test_unavailable_device_prints_a_one_line_error(device, runs, monkeypatch, capsys):
    import torch

    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    message = get_error_line(["evaluate", str(runs / "expert"), "--device", device], monkeypatch, capsys)
    assert f"device {device!r} is not available" in message


def test_a_reference_package_is_checked_before_anything_is_played(heist_run, monkeypatch, capsys):
    folder, _ = heist_run
    message = get_error_line(["evaluate", str(folder), "--reference-episodes", "4"], monkeypatch, capsys)
    assert "there is no reference package of heist" in message


def test_a_world_of_the_users_own_is_compared_with_its_reference(capsys):
    class Mine(Crafter):
        name = "mine"

    envs = Mine().make([], 2, 0, "symbols")
    policy = PPO.for_envs(envs, settings=PpoSettings(num_envs=2, num_steps=8)).policy
    policy.metadata["observation"] = "symbols"
    result = evaluate(policy, Mine(), episodes=2, seed=0, observation="symbols")
    assert compare_with_reference(Mine(), policy, result, episodes=2).episodes == 2
    assert "reward in the reference package" in capsys.readouterr().out


def test_a_run_of_another_kind_is_refused(tmp_path, monkeypatch, capsys):
    request = {"domain": "tools", "proposer": {"name": "uniform"}}
    (tmp_path / "run.json").write_text(json.dumps({"format": 2, "request": request, "runtime_options": {}}))
    assert "is not a run of envgen train" in get_error_line(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
    assert "is not a run of envgen train" in get_error_line(["evaluate", str(tmp_path)], monkeypatch, capsys)


@pytest.mark.parametrize(
    "arguments",
    [["train", "crafter", "--designer", "llm", "--llm", "openai:m", "--folder", "run"], ["train", "--resume", "run"]],
)
def test_invalid_base_url(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "--resume" in arguments:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "run.json").write_text('{"format": 2, "request": {}}')
    assert "'x' is not an address" in get_error_line([*arguments, "--base-url", "x"], monkeypatch, capsys)


def test_a_foreign_run_directory_gets_no_key(tmp_path, monkeypatch, capsys):
    request = {"world": "crafter", "designer": {"name": "llm", "llm": "openai:some-model"}, "plan": {},
               "observation": "symbols", "seed": 0, "learner": {"name": "ppo"}}  # fmt: skip
    runtime = {"base_url": "http://elsewhere:1/v1", "key_env": "HOME"}
    run_json = tmp_path / "run.json"

    def write(**content) -> None:
        run_json.write_text(json.dumps({"format": 2, **content}))

    write(request=request, runtime_options=runtime)
    message = get_error_line(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
    assert "--base-url http://elsewhere:1/v1 --key-env HOME" in message
    message = get_error_line(
        ["train", "--resume", str(tmp_path), "--base-url", "http://mine:1/v1"], monkeypatch, capsys
    )
    assert "--key-env HOME" in message
    write(request={**request, "designer": {**request["designer"], **runtime}}, runtime_options={})
    assert "base_url" in get_error_line(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
    for foreign in ({}, {"designer": []}, {**request, "plan": 3}):
        write(request=foreign, runtime_options={})
        message = get_error_line(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
        assert "is not a run of envgen train" in message
    wrong_runtime = '{"format": 2, "request": {}, "runtime_options": []}'
    for text in ("[]", "[" * 100_000, '{"format": 2, "request": 1}', wrong_runtime):
        run_json.write_text(text)
        assert "run.json" in get_error_line(["train", "--resume", str(tmp_path)], monkeypatch, capsys)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_a_foreign_run_directory_imports_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "untrusted_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    request = {"world": "untrusted_module:World", "designer": {"name": "expert"}, "plan": {},
               "observation": "symbols", "seed": 0, "learner": {"name": "ppo"}}  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps({"format": 2, "request": request, "runtime_options": {}}))
    for flags in ([], ["--reference-episodes", "4"]):
        message = get_error_line(["train", "--resume", str(tmp_path), *flags], monkeypatch, capsys)
        assert "the world 'untrusted_module:World' cannot be loaded by its name" in message


def test_every_setting_is_an_option_and_designers_have_their_own():
    stdout = envgen_forked("train", "--help").stdout
    for option in ("--cycles", "--ratio", "--mixing", "--ranking-steps", "--llm", "--base-url", "--feedback",
                   "--obfuscate", "--ppo.learning-rate", "--ppo.clip-coef",
                   "--designer.mastery-threshold"):  # fmt: skip
        assert option in stdout
    assert "--designer.beta" not in stdout
    assert "--designer.beta" in envgen_forked("train", "--designer", "alpha", "--help").stdout


def test_two_processes_train_one_agent(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*command, "-m", "envgen", "train", *SMALL, "--folder", "run"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.count("3 episodes of crafter") == 1
    steps = json.loads((tmp_path / "run" / "summary.json").read_text())["steps"]
    assert (steps["levels"], steps["original"]) == (256, 768)


def test_heist_results_are_printed_with_the_random_baseline(heist_run):
    _, stdout = heist_run
    assert "take_blue_key" in stdout
    assert "3 episodes of heist" in stdout
    assert "18.7%" in stdout
