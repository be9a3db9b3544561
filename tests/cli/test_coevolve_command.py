"""`envgen coevolve`, from pretraining the models to the final report."""

import json
import shutil
import sys

import pytest
from commands import envgen_forked, get_error_line, get_usage_error

from envgen.cli.main import main

TINY = ["--pretrain.agent-steps", "12", "--pretrain.environment-steps", "12", "--pretrain.batch-size", "8",
        "--pretrain.num-tokenizer-specs", "100", "--pretrain.num-held-out", "12", "--model-size.width", "32",
        "--model-size.num-layers", "2", "--model-size.num-heads", "2", "--model-size.mlp-width", "64"]  # fmt: skip
SHORT = ["--rollouts", "64", "--tasks-per-step", "4", "--num-base-tasks", "8", "--num-eval-tasks", "12",
         "--eval-every", "1", "--agent.num-generations", "4", "--agent.max-new-tokens", "24",
         "--max-attempts", "1", "--environment.max-new-tokens", "32"]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small run in a folder of its own."""
    folder = tmp_path_factory.mktemp("coevolve")
    return folder, envgen_forked("coevolve", "tools", *TINY, *SHORT, cwd=folder)


def test_one_command_pretrains_the_models_and_trains_them(finished):
    folder, result = finished
    assert result.returncode == 0, result.stderr
    assert "agent (1 of 2): step 12 of 12" in result.stdout
    assert "accuracy on the held-out tasks" in result.stdout
    assert "64 rollouts" in result.stdout
    run = folder / "out" / "coevolve-tools-genenv-0"
    assert json.loads((run / "summary.json").read_text())["counts"]["rollouts"] == 64
    assert len((run / "progress.jsonl").read_text().splitlines()) == 5


def test_a_finished_run_is_reported_again_with_the_same_models(finished):
    folder, first = finished
    again = envgen_forked("coevolve", "--resume", "out/coevolve-tools-genenv-0", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "step 12 of 12" not in again.stdout
    assert first.stdout.splitlines()[-1] == again.stdout.splitlines()[-1]


def test_a_model_folder_replaces_pretraining(finished):
    folder, _ = finished
    (agent,) = folder.glob("out/models/*/agent")
    result = envgen_forked("coevolve", "tools", "--proposer", "uniform", "--agent", agent, *SHORT[:-4], cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "step 12 of 12" not in result.stdout


@pytest.mark.parametrize(
    ("options", "repeated"),
    [
        ([], ""),
        (["--models-folder", "out/models"], ""),
        (["--models-folder", "my models"], " --models-folder 'my models'"),
        (["--save-every", "60"], ""),
        (
            ["--agent-server", "http://localhost:1", "--save-every", "600"],
            " --agent-server http://localhost:1 --save-every 600.0",
        ),
    ],
)
@pytest.mark.parametrize("resumes", [False, True])
def test_an_interrupted_run_is_resumed_with_the_options_that_it_does_not_record(
    resumes, options, repeated, tmp_path, monkeypatch, capsys
):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    (tmp_path / "run.json").touch()
    monkeypatch.setattr("envgen.runs.store.read_request", lambda folder: ({}, {}))
    monkeypatch.setattr("envgen.coevolution_api.coevolve", interrupt)
    monkeypatch.setattr("envgen.coevolution_api.resume_coevolution", interrupt)
    start = ["--resume", str(tmp_path)] if resumes else ["tools", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["envgen", "coevolve", *start, *options])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert f"Resume with: envgen coevolve --resume {tmp_path}{repeated}\n" in capsys.readouterr().err


def test_commands_for_policies_refuse_a_run_of_coevolve(finished):
    folder, _ = finished
    for args in (["evaluate", "out/coevolve-tools-genenv-0"], ["train", "--resume", "out/coevolve-tools-genenv-0"]):
        result = envgen_forked(*args, cwd=folder)
        assert result.returncode == 2, result.stderr
        assert "is not a run of envgen train" in result.stderr
        assert "Traceback" not in result.stderr


def test_a_failed_start_does_not_block_the_next_call(tmp_path):
    failed = envgen_forked("coevolve", "tools", "--agent", "/nope", *SHORT, "--folder", "run", cwd=tmp_path)
    assert failed.returncode == 2
    assert "/nope" in failed.stderr
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["toolz"], "did you mean 'tools'?"),
        (["gym:leg_counting"], "reasoning_gym:leg_counting"),
        (["tools", "--proposer", "genvn"], "did you mean 'genenv'?"),
        (["tools", "--seed", "-1"], "--seed must be 0 or greater, not -1"),
        (["tools", "--alpha", "1.5"], "alpha: Input should be less than or equal to 1"),
        (["tools", "--agent.num-generations", "1"], "num_generations: Input should be greater than or equal to 2"),
        (["tools", "--agent", "no/such/folder/here"], "no/such/folder/here"),
        (["tools", "--environment", "some/folder"], "environment requires agent"),
        (["--resume", "out/nothing"], "out/nothing is not a run directory"),
        (["--resume", "out", "--repetition-penalty", "0"], "--repetition-penalty cannot be combined with --resume"),
        (["--resume", "out", "--seed", "0"], "--seed cannot be combined with --resume"),
        (["answers", "--resume", "out"], "DOMAIN cannot be combined with --resume"),
        (["--resume", "out", "--agent.num-generations", "4"], "--agent.num-generations cannot be combined"),
        (["tools", "--agent-server", "somewhere"], "somewhere"),
        (["tools", "--agent-server", ""], "--agent-server is empty"),
        (["tools", "--agent-server", "http://a:99999", "--dry-run"], "'http://a:99999' is not the address"),
        (
            ["tools", "--proposer", "uniform", "--environment-server", "http://a:8000", "--dry-run"],
            "the proposer uniform has no environment policy; remove environment_server",
        ),
        (["tools", "--fresh-fraction", "0.9"], "fresh_fraction 0.9 and replay_fraction 0.125 must not add up to more"),
        (["tools", "--model-size.num-layers", "1"], "num_layers: Input should be greater than or equal to 2"),
        (["tools", "--model-size.num-heads", "256"], "width 128 gives each of 256 heads 0 features"),
        (["tools", "--num-eval-tasks", "601"], "pretraining leaves out only 600; set pretrain.num_held_out to 601"),
        (["tools", "--agent", "folder", "--pretrain.batch-size", "8"], "pretrain is for small models"),
        (["tools", "--agent", "folder", "--model-size.width", "64"], "model_size is for small models"),
        (
            ["tools", "--proposer", "dapo", "--agent.zero-variance-groups", "drop"],
            "the proposer dapo sets the agent's zero_variance_groups to refill, not drop",
        ),
        (
            ["tools", "--proposer", "genenv-grpo", "--num-variations", "1"],
            "genenv-grpo compares the variations of a prompt with each other; set num_variations to 2 or more",
        ),
        (
            ["tools", "--proposer", "genenv-grpo", "--success-over", "group"],
            "genenv-grpo compares the tasks of a prompt, which all have the same success rate with success_over group",
        ),
        (
            ["tools", "--proposer", "genenv-grpo", "--agent.zero-variance-groups", "refill"],
            "genenv-grpo learns from one batch of specs in each step",
        ),
        (["tools", "--success-threshold", "2"], "success_threshold: Input should be less than or equal to 1"),
        (["tools", "--save-every", "nan"], "save_every must be a number of seconds, 0 or greater, not nan"),
        (["tools", "--beta", "inf"], "beta: Input should be a finite number"),
    ],
)
def test_invalid_arguments_print_a_one_line_error(args, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert message in get_error_line(["coevolve", *args], monkeypatch, capsys)
    assert not list(tmp_path.rglob("run.json"))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tools", "--agent.num-generation", "4"], "--agent.num-generations"),
        (["tools", "--agent.zero-variance-groups", "away"], "refill"),
        (["tools", "--model-size.width", "many"], "--model-size.width"),
        (["tools", "--pretrain.steps", "3"], "--pretrain"),
    ],
)
def test_unknown_options_print_the_usage(args, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert message in get_usage_error(["coevolve", *args], monkeypatch, capsys)


def test_resuming_imports_no_module_that_the_run_directory_names(finished, tmp_path):
    folder, _ = finished
    run = tmp_path / "run"
    shutil.copytree(folder / "out" / "coevolve-tools-genenv-0", run)
    (tmp_path / "untrusted_module.py").write_text("raise SystemExit('imported')")
    document = json.loads((run / "run.json").read_text())
    document["request"]["domain"] = "untrusted_module:Domain"
    (run / "run.json").write_text(json.dumps(document))
    result = envgen_forked("coevolve", "--resume", run, cwd=tmp_path)
    assert result.returncode == 2
    assert "the domain 'untrusted_module:Domain' cannot be loaded from the run directory" in result.stderr
    assert "imported" not in result.stderr


RECIPE = {"model_size": {}, "pretrain": {}, "seed": 0}


@pytest.mark.parametrize(
    "values",
    [
        {"pretrain_recipe": 3}, {"pretrain_recipe": {}}, {"pretrain_recipe": {**RECIPE, "seed": "0"}},
        {"pretrain_recipe": {**RECIPE, "seed": -1}}, {"pretrain_recipe": {**RECIPE, "seed": 2**70}},
        {"pretrain_recipe": {**RECIPE, "model_size": {"width": -1}}}, {"pretrain_recipe": {**RECIPE, "pretrain": []}},
        {"plan": 3}, {"proposer": []}, {"proposer": {}}, {"domain": ["tools"]}, {"domain": "tool"}, {"seed": "many"},
        {"agent_settings": {"epochs": "x"}}, {"more": 1},
    ],
)  # fmt: skip
def test_a_damaged_request_is_reported(tmp_path, values, monkeypatch, capsys):
    request = {"domain": "tools", "pretrain_recipe": RECIPE, "proposer": {"name": "uniform"}, "agent": "",
               "environment": "", **values}  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps({"format": 2, "request": request, "runtime_options": {}}))
    message = get_error_line(["coevolve", "--resume", str(tmp_path)], monkeypatch, capsys)
    assert "is not a run of envgen coevolve" in message or "cannot be loaded from the run directory" in message
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_dry_run_prints_the_plan_and_trains_nothing(tmp_path):
    result = envgen_forked("coevolve", "tools", "--rollouts", "512", "--dry-run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "512 completions in 2 steps" in result.stdout
    assert result.stdout.endswith("\nenvgen coevolve tools --rollouts 512\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-gpus", "2"], "--num-gpus requires --dry-run"),
        (["--dry-run", "--num-gpus", "0"], "--num-gpus must be at least 1, not 0"),
        (["--dry-run", "--gpu-memory", "nan"], "--gpu-memory must be positive, not nan"),
        (["--dry-run", "--resume", "out"], "--dry-run cannot be combined with --resume"),
        (["--dry-run", "--agent", "/nope"], "cannot read the config of the model /nope"),
    ],
)
def test_wrong_options_of_a_dry_run_are_one_sentence(tmp_path, options, message):
    result = envgen_forked("coevolve", *options, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
