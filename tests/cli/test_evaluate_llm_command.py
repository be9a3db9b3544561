"""`envgen evaluate WORLD --policy llm`, from the first call to the table."""

import json

import pytest
from commands import envgen_forked, get_error_line

from fake_llm_server import FakeLlmServer, completion

KEYS = {"OPENAI_API_KEY": "sk-planted-0123456789", "ANTHROPIC_API_KEY": "sk-planted-0123456789"}
DIRECT = ["--policy", "llm", "--questions", "direct"]


@pytest.fixture
def short(tmp_path):
    """A level with short episodes."""
    file = tmp_path / "short.json"
    file.write_text(json.dumps({"length": 3, "inventory": {"wood": 2}}))
    return ["--level", file]


def test_crafter_is_played_and_its_cost_printed(tmp_path, short):
    answer = completion("Action: place table", prompt=1000, reply=50)
    with FakeLlmServer([answer] * 50) as server:
        args = ["evaluate", "crafter", *DIRECT, "--llm", "openai:some-model", "--base-url", server.url,
                "--episodes", "2", "--price-prompt", "1", "--price-reply", "10", *short]  # fmt: skip
        limited = envgen_forked(*args, "--max-calls", "4", cwd=tmp_path, **KEYS)
        assert limited.returncode == 2
        assert "1 of 2 episodes are complete" in limited.stderr or "0 of 2 episodes are complete" in limited.stderr
        result = envgen_forked(*args, cwd=tmp_path, **KEYS)
        assert result.returncode == 0, result.stderr
        assert len(server.requests) == 6
    table = " ".join(result.stdout.split())
    assert "2 episodes of crafter" in table
    assert "place_table 100.0" in table
    assert "openai:some-model, 1 question per step" in table
    assert "calls 3.0 6" in table
    assert "prompt tokens 3,000.0 6,000" in table
    assert "reply tokens 150.0 300" in table
    assert "dollars 0.0045 0.0090" in table
    folder = tmp_path / "out" / "crafter-llm-agent-openai-some-model"
    assert json.loads((folder / "evaluation.json").read_text())["usage"]["calls"] == 6
    prompt = server.requests[0].body["messages"][-1]["content"]
    assert "You have 2 wood." in prompt
    assert "The map (v you" in prompt
    for file in folder.rglob("*"):
        assert file.is_dir() or KEYS["OPENAI_API_KEY"].encode() not in file.read_bytes()
    compared = envgen_forked("compare", folder)
    assert compared.returncode == 2
    assert "is an evaluation" in compared.stderr


def test_anthropic_answers_by_tool_call(tmp_path, short):
    with FakeLlmServer([completion('{"reasons": "none", "action": "do"}')] * 3) as server:
        options = ["--llm", "anthropic:model", "--base-url", server.root]
        result = envgen_forked("evaluate", "crafter", *DIRECT, *options, *short, cwd=tmp_path, **KEYS)
        assert result.returncode == 0, result.stderr
        assert server.requests[0].path.endswith("/messages")
        assert server.requests[0].body["tools"][0]["input_schema"]["required"] == ["reasons", "action"]
    assert "(0.0% of the steps)" in result.stdout
    assert "unknown" in result.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["crafter", "--policy", "llm"], "--policy llm requires --llm openai:MODEL"),
        (["crafter", "--policy", "lm"], "'lm' is not one of run, llm"),
        (["craftr", "--policy", "llm", "--llm", "manual"], "did you mean 'crafter'"),
        (["crafter", "--llm", "manual"], "--llm requires --policy llm"),
        (["crafter", "--folder", "x"], "--folder requires --policy llm"),
        (["crafter"], "crafter is a world, not a run: pass a run directory, or add --policy llm"),
        (["crafter", *DIRECT, "--llm", "manual", "--deterministic"], "--deterministic cannot be combined"),
        (["crafter", *DIRECT, "--llm", "manual", "--reference-episodes", "2"], "--reference-episodes cannot be"),
        (["crafter", *DIRECT, "--llm", "gpt"], "valid forms"),
        (["crafter", *DIRECT, "--llm", "manual", "--episodes", "0"], "--episodes must be a positive number"),
        (["crafter", *DIRECT, "--llm", "openai:m", "--max-cost", "1"], "set OPENAI_API_KEY to a key"),
        (["crafter", *DIRECT, "--llm", "replay:nowhere"], "to replay"),
    ],
)
def test_wrong_arguments_print_a_one_line_error(args, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    assert message in get_error_line(["evaluate", *args], monkeypatch, capsys)
    assert not (tmp_path / "out").exists()
