"""API-Bank with dialogues of our own in the format of the prepared files."""

import json
from pathlib import Path

import pytest

from envgen import run_benchmark
from envgen.benchmarks.api_bank import LEVELS, ApiBank, judge
from envgen.benchmarks.benchmark import BenchmarkError
from envgen.benchmarks.json_calls import JsonCall, find_calls
from envgen.designers.chat.protocol import Reply
from hostile_replies import attack, play

ENTRIES = [
    {
        "system": "You can call BookTable(restaurant: str, people: int) with <tool_call>.",
        "user": "<user> A table for two at the Mill. </user>",
        "answer": {"name": "BookTable", "parameters": {"restaurant": "Mill", "people": "2"}},
        "other": {"file": "x"},
    },
    {
        "system": "You can call Now() with <tool_call>.",
        "user": "<user> What time is it? </user>",
        "answer": [{"name": "Now", "parameters": {}}],
    },
]
EXPECTED = JsonCall("BookTable", {"restaurant": "Mill", "people": "2"})
CALL = '{"name": "BookTable", "parameters": {"restaurant": "Mill", "people": "2"}}'


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("api_bank")
    for level in LEVELS:
        (folder / f"{level.replace('_', '-')}-api_processed.json").write_text(json.dumps(ENTRIES))
    return folder


def test_gold_answers_are_right_and_empty_ones_wrong(data, tmp_path):
    for llm, accuracy in (("gold", 100), ("empty", 0)):
        result = run_benchmark("api_bank", llm, options={"data": data}, folder=tmp_path / llm, verbose=False)
        assert (result.total.accuracy, result.total.rates["only call"]) == (accuracy, accuracy)
        assert [row.items for row in result.categories] == [2, 2, 2]


@pytest.mark.parametrize(
    ("reply", "score", "error"),
    [
        (f"<tool_call>\n{CALL}\n</tool_call>", 1, ""),
        (f"<think> x </think> <tool_call>{CALL}", 1, ""),
        (CALL, 1, ""),
        (CALL.replace("parameters", "arguments"), 1, ""),
        (f'<tool_call>{{"name": "Now", "parameters": {{}}}}\n{CALL}</tool_call>', 1, ""),
        ("<tool_call></tool_call>" + CALL, 0, "no call"),
        ("BookTable(restaurant='Mill', people='2')", 0, "no call"),
        (CALL.replace("Mill", "mill"), 0, "wrong value"),
        (CALL.replace('"2"', "2"), 0, "wrong value"),
        (CALL.replace("BookTable", "Book"), 0, "wrong API"),
        (CALL.replace(', "people": "2"', ""), 0, "missing parameter"),
        (CALL.replace('"2"', '"2", "time": "8"'), 0, "unexpected parameter"),
        (CALL.replace('"BookTable"', "7"), 0, "no call"),
        (CALL[:-1], 0, "no call"),
    ],
)
def test_calls_must_be_equal(reply, score, error):
    verdict = judge(reply, EXPECTED)
    assert (verdict.score, verdict.error) == (score, error)


def test_a_reply_with_several_calls_is_counted_separately():
    verdict = judge(f'{CALL} {{"name": "Now", "parameters": {{}}}}', EXPECTED)
    assert (verdict.score, verdict.counts["only call"]) == (1, (0, 1))


def test_the_model_gets_the_prompts_of_the_file(data):
    benchmark = ApiBank(data)
    prompt = next(benchmark.episode(benchmark.items("level_2")[1]))
    assert [message.content for message in prompt.messages] == [ENTRIES[1]["system"], ENTRIES[1]["user"]]


def test_json_is_read_within_limits():
    assert find_calls('{"a": ' * 20_000) == []
    assert find_calls("{" * 50_000) == []
    assert len(find_calls(CALL * 1000)) == 200
    assert find_calls("x" * 60_000 + CALL) == []


def test_hostile_replies_are_wrong(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    benchmark = ApiBank(data)
    assert attack(benchmark, benchmark.items("level_1"), 2000) < 700
    assert list(tmp_path.iterdir()) == []
    assert play(benchmark, benchmark.items("level_1")[0], [Reply(text=f"{CALL}\0", model="m")]).score == 1


@pytest.mark.parametrize("content", ["{}", "[]", "[1]", '[{"system": "", "user": "", "answer": []}]', "[" * 3000])
def test_damaged_files_are_explained(tmp_path, content):
    (tmp_path / "level-1-api_processed.json").write_text(content)
    with pytest.raises(BenchmarkError, match=r"level-1-api_processed\.json"):
        ApiBank(tmp_path)


def test_a_missing_folder_says_where_to_get_the_data():
    with pytest.raises(BenchmarkError, match=r"pass --data .*qiancheng0/ToolRL \(Apache-2.0\)"):
        ApiBank()
