"""`envgen evaluate-llm`, as a user types it."""

import json

import pytest
from commands import envgen_forked, get_error_line, run_in_process

from envgen.benchmarks.registry import BENCHMARKS
from fake_llm_server import FakeLlmServer, completion

KEYS = {"OPENAI_API_KEY": "sk-planted-0123456789"}


@pytest.fixture
def data(tmp_path):
    questions = [{"Question": f"Which town did person {k} found?", "Answer": "Varn"} for k in range(4)]
    (tmp_path / "data.json").write_text(json.dumps(questions))
    return tmp_path


def test_a_benchmark_is_run_and_its_table_printed(data, monkeypatch, capsys):
    with FakeLlmServer([completion("Answer: Varn"), *[completion("Answer: Oslo")] * 3]) as server:
        args = ["evaluate-llm", "bamboogle", "--data", data, "--llm", "openai:some/model", "--base-url", server.url,
                "--parallel", "1"]  # fmt: skip
        limited = envgen_forked(*args, "--max-calls", "2", cwd=data, **KEYS)
        assert limited.returncode == 2
        assert "2 of 4 items are finished" in limited.stderr
        result = envgen_forked(*args, cwd=data, **KEYS)
        assert result.returncode == 0, result.stderr
        assert len(server.requests) == 4
    table = " ".join(result.stdout.split())
    assert "all items 4 25.0" in table
    assert "3 wrong answer" in table
    assert "Qwen2.5-7B-Instruct 68.0, GenEnv 7B 76.0" in table
    assert "calls 1.0 4" in table
    folder = data / "out" / "bamboogle-openai-some-model"
    assert json.loads((folder / "evaluation.json").read_text())["errors"] == {"wrong answer": 3}
    for file in folder.rglob("*"):
        assert file.is_dir() or KEYS["OPENAI_API_KEY"].encode() not in file.read_bytes()
    assert "is an evaluation" in get_error_line(["compare", str(folder)], monkeypatch, capsys)


def test_the_benchmarks_are_listed(monkeypatch, capsys):
    run_in_process(["evaluate-llm", "list"], monkeypatch)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bamboogle"], "evaluate-llm requires --llm"),
        (["bambogle", "--llm", "gold"], "did you mean 'bamboogle'"),
        (["bamboogle", "--llm", "gold"], "pass --data with the folder of data.json"),
        (["bamboogle", "--llm", "gold", "--data", "/nowhere"], "there is no data.json or Bamboogle.json in /nowhere"),
        (["bamboogle", "--llm", "gold", "--calls", "native"], "bamboogle has no option --calls"),
        (["bamboogle", "--llm", "gold", "--limit", "0"], "--limit must be a positive number"),
        (["bamboogle", "--llm", "gold", "--seed", "-1"], "--seed must be 0 or greater"),
    ],
)
def test_mistakes_are_explained(args, message, monkeypatch, capsys):
    assert message in get_error_line(["evaluate-llm", *args], monkeypatch, capsys)
