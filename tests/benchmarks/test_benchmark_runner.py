"""Runs of a benchmark: results, parallel requests, resume, budget and every kind of model."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from sums import Sums

from envgen import run_benchmark
from envgen.benchmarks.benchmark import BenchmarkError, Prompt, Verdict
from envgen.benchmarks.runner import select_items
from envgen.designers.chat.budget_file import BudgetFile, SharedBudgetError, SharedLimits
from envgen.designers.chat.protocol import AmbiguousError, BudgetExceededError, ChatError, RejectedError, Tool
from envgen.runs.store import RunError
from fake_llm_server import FakeLlmServer, completion, status
from special_files import make_special_file

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


def solve(handler, body):
    """Answers like a model that knows all sums but one."""
    first, *rest = [message["content"] for message in body["messages"] if message["role"] == "user"]
    total = sum(map(int, first.removesuffix(" = ?").split(" + "))) + len(rest)
    completion("0" if first.startswith("3 +") else str(total), prompt=10, reply=2)(handler, body)


def openai(server, **more):
    return {"llm": "openai:model", "base_url": server.url, **more}


def read_lines(folder):
    return [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]


def test_gold_replies_are_right_and_empty_ones_wrong(tmp_path):
    gold = run_benchmark(Sums(), "gold", folder=tmp_path / "gold", verbose=False)
    empty = run_benchmark(Sums(), "empty", folder=tmp_path / "empty", verbose=False)
    assert (gold.total.accuracy, gold.averages, gold.errors) == (100, {"both": 100}, {})
    assert (empty.total.accuracy, empty.errors) == (0, {"wrong sum": 12})
    assert "12     100.0  [75.8, 100.0]" in str(gold)


def test_a_run_writes_its_items_and_its_table(tmp_path):
    with FakeLlmServer([solve] * 100) as server:
        model = openai(server, price_prompt=1e6, price_reply=0)
        result = run_benchmark(Sums(), model, folder=tmp_path / "run", verbose=False)
        assert len(server.requests) == 6 + 11
        assert server.requests[0].body["temperature"] == 0
    assert result.averages["both"] == pytest.approx(100 * 5 / 6)
    assert (result.usage.calls, result.usage.dollars) == (17, 170)
    assert {row.name: row.items for row in result.categories} == {"one": 6, "two": 6}
    assert result.total.rates["even"] == pytest.approx(100 * 7 / 12)
    lines = {line["id"]: line for line in read_lines(tmp_path / "run")}
    assert [reply["text"] for reply in lines["two-1"]["completions"]] == ["3", "4"]
    assert [message["content"] for message in lines["two-1"]["prompt"]] == ["1 + 2 = ?", "3", "+ 1 = ?"]
    assert (lines["one-3"]["score"], lines["one-3"]["error"]) == (0, "wrong sum")
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text()) == result.model_dump(mode="json")


def test_the_documentation_names_every_field(tmp_path):
    page = "".join((DOCS / name).read_text() for name in ("benchmarks.md", "llm-agent.md"))
    with FakeLlmServer([solve] * 100) as server:
        run_benchmark(Sums(), openai(server), folder=tmp_path, verbose=False)
    table, items = json.loads((tmp_path / "evaluation.json").read_text()), read_lines(tmp_path)
    parts = [table, *table["categories"], table["usage"], *items, *items[0]["completions"], items[0]["usage"]]
    assert {name for part in parts for name in part if f"`{name}`" not in page} == set()


def test_an_interrupted_run_asks_only_what_is_missing(tmp_path):
    folder = tmp_path / "run"
    with FakeLlmServer([solve] * 3 + [status(401, "no")]) as server, pytest.raises(RejectedError):
        run_benchmark(Sums(), openai(server, parallel=1), categories=["two"], folder=folder, verbose=False)
    assert len(read_lines(folder)) == 1  # the second item has its first reply
    with open(folder / "items.jsonl", "a") as file:
        file.write('{"id": "two-5", "sco')  # killed while it wrote a line
    with FakeLlmServer([solve] * 100) as server:
        resumed = run_benchmark(Sums(), openai(server), categories=["two"], folder=folder, verbose=False)
        assert len(server.requests) == 11 - 3
    with FakeLlmServer([solve] * 100) as server:
        whole = run_benchmark(Sums(), openai(server), categories=["two"], folder=tmp_path / "whole", verbose=False)
        again = run_benchmark(Sums(), openai(server), categories=["two"], folder=folder, verbose=False)
        assert len(server.requests) == 11
    assert again == resumed
    assert resumed.categories == whole.categories
    replayed = run_benchmark(Sums(), f"replay:{folder}", categories=["two"], folder=tmp_path / "replay", verbose=False)
    assert replayed.categories == whole.categories


def test_the_budget_limits_a_run_across_resumes(tmp_path):
    with FakeLlmServer([solve] * 100) as server:
        for limit, asked in ((4, 4), (4, 4), (6, 6)):
            with pytest.raises(BudgetExceededError, match="max_calls is"):
                run_benchmark(Sums(), openai(server, max_calls=limit), folder=tmp_path / "run", verbose=False)
            assert len(server.requests) == asked


def test_requests_are_sent_in_parallel(tmp_path):
    barrier = threading.Barrier(3, timeout=60)

    def wait_for_others(handler, body):
        barrier.wait()
        solve(handler, body)

    with FakeLlmServer([wait_for_others] * 3) as server:
        result = run_benchmark(
            Sums(3), openai(server, parallel=3), categories=["one"], folder=tmp_path / "run", verbose=False
        )
    assert result.total.accuracy == 100


def test_a_request_that_the_server_refuses_costs_one_item_but_a_wrong_key_stops_the_run(tmp_path):
    too_long = status(400, "This model's maximum context length is 10 tokens")
    with FakeLlmServer([solve, too_long, *[solve] * 4]) as server:
        result = run_benchmark(
            Sums(), openai(server, parallel=1), categories=["one"], folder=tmp_path / "run", verbose=False
        )
    assert result.errors == {"request refused": 1, "wrong sum": 1}
    with FakeLlmServer([too_long]) as server, pytest.raises(RejectedError, match="context length"):
        run_benchmark(Sums(), openai(server, parallel=1), folder=tmp_path / "first", verbose=False)
    with FakeLlmServer([solve, status(403, "no")]) as server, pytest.raises(RejectedError, match="valid key"):
        run_benchmark(Sums(), openai(server, parallel=1), folder=tmp_path / "key", verbose=False)


def test_reasoning_in_a_reply_is_recorded_but_not_judged(tmp_path):
    def think(handler, body):
        first, second = body["messages"][0]["content"].removesuffix(" = ?").split(" + ")
        completion(f"<think>\nIs it 7?\n</think>\n\n{int(first) + int(second)}")(handler, body)

    class Stripped(Sums):
        def episode(self, item):
            reply = yield Prompt.user("{} + {} = ?".format(*item.data))
            assert "think" not in reply.text
            return Verdict(float(reply.text.strip() == str(sum(item.data))))

    with FakeLlmServer([think] * 6) as server:
        result = run_benchmark(Stripped(), openai(server), categories=["one"], folder=tmp_path, verbose=False)
    assert result.total.accuracy == 100
    assert "Is it 7?" in read_lines(tmp_path)[0]["completions"][0]["text"]


def test_reasoning_without_an_end_is_no_answer(tmp_path):
    class LastLine(Sums):
        def episode(self, item):
            reply = yield Prompt.user("{} + {} = ?".format(*item.data))
            return Verdict(float(reply.text.splitlines()[-1:] == [str(sum(item.data))]))

    with FakeLlmServer([completion("<think>\nIt could be\n1")]) as server:
        result = run_benchmark(LastLine(1), openai(server), categories=["one"], folder=tmp_path, verbose=False)
    assert result.total.accuracy == 0
    assert "It could be" in read_lines(tmp_path)[0]["completions"][0]["text"]


def test_what_a_server_does_not_support_is_left_out_of_later_items(tmp_path):
    def refuse_temperature(handler, body):
        if "temperature" in body:
            status(400, "'temperature' does not support 0.0 with this model")(handler, body)
        else:
            solve(handler, body)

    with FakeLlmServer([refuse_temperature] * 100) as server:
        model = openai(server, parallel=1)
        run_benchmark(Sums(), model, categories=["one"], folder=tmp_path, verbose=False)
        assert ["temperature" in request.body for request in server.requests] == [True, *[False] * 6]


@pytest.mark.parametrize(("model", "message"), [
    ({"llm": "gold", "device": "cuda"}, "device has no effect with gold"),
    ({"llm": "empty", "base_url": "http://localhost:1"}, "base_url has no effect with empty"),
    ({"llm": "manual", "key_env": "KEY"}, "key_env has no effect with manual"),
    ({"llm": "openai:model", "base_url": "http://localhost:1", "dtype": "bfloat16"}, "dtype has no effect with openai"),
    ({"llm": "openai:model", "price_prompt": "inf", "price_reply": 1}, "price_prompt: Input should be a finite number"),
])  # fmt: skip
def test_options_without_effect_and_infinite_prices_are_refused(tmp_path, model, message):
    with pytest.raises((ChatError, BenchmarkError), match=message):
        run_benchmark(Sums(), model, folder=tmp_path, verbose=False)


def test_a_shared_budget_that_cannot_be_used_is_refused_before_anything_is_written(tmp_path):
    file, folder = tmp_path / "budget.json", tmp_path / "run"
    model = {"llm": "openai:model", "base_url": "http://localhost:1", "shared_budget": file}
    with pytest.raises(SharedBudgetError, match="there is no shared budget"):
        run_benchmark(Sums(), model, folder=folder, verbose=False)
    BudgetFile.create(file, SharedLimits(max_cost=1.0))
    with pytest.raises(ChatError, match="max_cost needs the prices"):
        run_benchmark(Sums(), model, folder=folder, verbose=False)
    assert not folder.exists()


def test_a_limit_samples_items_and_can_be_raised(tmp_path):
    names = [[item.id for item in select_items(Sums(50), ["one"], limit, seed)] for limit, seed in
             ((5, 0), (20, 0), (5, 1), (None, 0))]  # fmt: skip
    assert list(map(len, names)) == [5, 20, 5, 50]
    assert set(names[0]) < set(names[1])
    assert names[0] != names[2]
    assert names[1] == [name for name in names[3] if name in names[1]]
    with FakeLlmServer([solve] * 100) as server:
        for limit in (2, 4):
            result = run_benchmark(Sums(), openai(server), categories=["one"], limit=limit, folder=tmp_path / "run",
                                   verbose=False)  # fmt: skip
            assert (result.total.items, len(server.requests)) == (limit, limit)


def test_errors_of_items_cannot_control_the_terminal(tmp_path):
    run_benchmark(Sums(), "empty", folder=tmp_path, verbose=False)
    lines = [{**line, "error": "\x1b]0;title\x07"} for line in read_lines(tmp_path)]
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    table = str(run_benchmark(Sums(), "empty", folder=tmp_path, verbose=False))
    assert "12   ]0;title" in table
    assert table.replace("\n", "").isprintable()


def test_a_run_refuses_other_settings_and_damaged_files(tmp_path):
    folder = tmp_path / "run"
    run_benchmark(Sums(), "gold", folder=folder, verbose=False)
    with pytest.raises(RunError, match="seed 0 \\(now 1\\)"):
        run_benchmark(Sums(), "gold", seed=1, folder=folder, verbose=False)
    for line in ("[]", '{"id": 1}', "\0", "[" * 5000):
        (folder / "items.jsonl").write_text(f"{line}\n")
        with pytest.raises(RunError, match=r"line 1 of .*items.jsonl is damaged"):
            run_benchmark(Sums(), "gold", folder=folder, verbose=False)
    (folder / "items.jsonl").unlink()
    make_special_file(folder / "items.jsonl", "large")
    with pytest.raises(RunError, match=r"line 1 of .*items.jsonl is damaged"):
        run_benchmark(Sums(), "gold", folder=folder, verbose=False)
    shutil.rmtree(folder / "conversations")
    (folder / "conversations").symlink_to(tmp_path)
    (folder / "items.jsonl").unlink()
    with pytest.raises(RunError, match="outside"):
        run_benchmark(Sums(), "gold", folder=folder, verbose=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"llm": "gpt"}, "valid forms"),
        ({"llm": "gold:x"}, "write gold"),
        ({"llm": "hf:"}, "write hf:MODEL"),
        ({"llm": "replay:nowhere"}, "to replay"),
        ({"llm": {"llm": "gold", "temprature": 1}}, "did you mean 'temperature'"),
        ({"categories": ["tow"]}, "did you mean 'two'"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"seed": "a"}, "seed must be an integer, not 'a'"),
        ({"limit": 1.5}, "limit must be an integer, not 1.5"),
        ({"categories": "tow"}, "did you mean 'two'"),
        ({"benchmark": "bfc"}, "not one of"),
        ({"benchmark": "bamboogle", "options": {"calls": "native"}}, "bamboogle has no option --calls"),
    ],
)
def test_wrong_arguments_are_explained(tmp_path, changes, message):
    arguments = {"benchmark": Sums(), "llm": "gold", "folder": tmp_path / "run", "verbose": False, **changes}
    with pytest.raises((BenchmarkError, ChatError), match=message):
        run_benchmark(**arguments)
    assert not (tmp_path / "run").exists()


def test_a_server_that_never_answers_properly_does_not_lose_what_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.designers.chat.chat.MAX_BACKOFF", 0.0)
    broken = [lambda handler, body: handler.respond(200, b"\xff\x00" * 1000)] * 8
    with FakeLlmServer([solve, *broken]) as server, pytest.raises(AmbiguousError, match="resume the run"):
        run_benchmark(Sums(), openai(server, parallel=1), folder=tmp_path / "run", verbose=False)
    assert len(read_lines(tmp_path / "run")) == 1


class Tools(Sums):
    def episode(self, item):
        yield Prompt(Prompt.user("x").messages, (Tool(name="f", parameters={}),))
        return Verdict(1.0)


def test_a_person_cannot_call_functions_natively(tmp_path):
    with pytest.raises(ChatError, match="use --calls prompt"):
        run_benchmark(Tools(), "manual", folder=tmp_path / "run", verbose=False)
