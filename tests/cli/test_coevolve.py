"""Co-evolution from the command line, from making the models to its last words, and a sentence for every mistake."""

import json

import pytest
from commands import envgen, refusal

TINY = ["--warmup", "agent_steps=12", "environment_steps=12", "batch_size=8", "num_tokenizer_specs=100", "num_held_out=12",
        "--size", "width=32", "num_layers=2", "num_heads=2", "mlp_width=64"]  # fmt: skip
SHORT = ["--rollouts", "64", "--tasks-per-step", "4", "--num-base-tasks", "8", "--num-eval-tasks", "12", "--eval-every", "1",
         "--max-attempts", "1",
         "--agent-options", "num_generations=4", "max_new_tokens=24",
         "--environment-options", "max_new_tokens=32"]  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A small run, in a folder of its own."""
    home = tmp_path_factory.mktemp("home")
    return home, envgen("coevolve", "tools", *TINY, *SHORT, cwd=home)


def test_one_command_makes_the_models_and_trains_them(done):
    home, told = done
    assert told.returncode == 0, told.stderr
    assert "agent (1 of 2): step 12 of 12" in told.stdout
    assert "of the held-out tasks before" in told.stdout
    assert "64 rollouts" in told.stdout
    folder = home / "out" / "coevolve-tools-genenv-0"
    assert json.loads((folder / "summary.json").read_text())["counts"]["rollouts"] == 64
    assert len([line for line in (folder / "progress.jsonl").read_text().splitlines()]) == 5


def test_a_finished_run_is_told_again_with_the_models_it_had(done):
    home, told = done
    again = envgen("coevolve", "--resume", "out/coevolve-tools-genenv-0", cwd=home)
    assert again.returncode == 0, again.stderr
    assert "step 12 of 12" not in again.stdout
    assert told.stdout.splitlines()[-1] == again.stdout.splitlines()[-1]


def test_models_of_a_folder_take_the_place_of_those_made(done):
    home, _ = done
    (agent,) = home.glob("out/models/*/agent")
    told = envgen("coevolve", "tools", "--proposer", "uniform", "--agent", agent, *SHORT, cwd=home)
    assert told.returncode == 0, told.stderr
    assert "step 12 of 12" not in told.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["toolz"], "domain 'toolz' is not one of answers, gym:<generator>, tools; did you mean 'tools'?"),
        (["tools", "--proposer", "genvn"], "did you mean 'genenv'?"),
        (["tools", "--alpha", "1.5"], "alpha: Input should be less than or equal to 1"),
        (["tools", "--agent-options", "num_generation=4"], "did you mean 'num_generations'?"),
        (
            ["tools", "--agent-options", "zero_variance_groups=away"],
            "zero_variance_groups: 'away' is not one of keep, drop, refill",
        ),
        (["tools", "--size", "width=many"], "--size takes name=value with a number"),
        (["tools", "--warmup", "steps=3"], "'steps' is not one of"),
        (["tools", "--agent", "no/such/folder/here"], "cannot load the model no/such/folder/here"),
        (["--resume", "out/nothing"], "out/nothing is not a run directory"),
        (["--resume", "out", "--repetition-penalty", "0"], "--repetition-penalty cannot be given with --resume"),
        (["answers", "--resume", "out"], "a domain cannot be given with --resume"),
        (["--resume", "out", "--agent-options", "num_generations=4"], "--agent-options cannot be given with --resume"),
        (["tools", "--agent-server", "somewhere"], "'somewhere' is not the address of a vLLM server"),
    ],
)
def test_a_mistake_is_one_sentence(words, said, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = refusal(["coevolve", *words], monkeypatch, capsys)
    assert said in told
    assert told.count("\n") == 1
