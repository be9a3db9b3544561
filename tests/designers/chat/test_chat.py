"""Chat: replies are recorded, never paid for twice, and limited by the budget, across server errors and crashes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import chat_worker
import pytest
from chat_worker import make_request

from envgen.designers.chat.backends import OpenAIBackend
from envgen.designers.chat.chat import Chat, UsageTracker
from envgen.designers.chat.ledger import Budget, Ledger, LedgerError, Prices, UsageTotals, enforce
from envgen.designers.chat.offline import ReplayBackend
from envgen.designers.chat.protocol import (
    AmbiguousError,
    Backend,
    BudgetExceededError,
    ChatError,
    RejectedError,
    Reply,
    RetryableError,
)
from fake_llm_server import FakeLlmServer, completion, echo_key, hang_response, raw, status, truncated_response

KEY = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def open_chat(tmp_path):
    """Creates a chat in the same run directory each time, as a resumed program does; it records its pauses."""

    def open_chat(server: FakeLlmServer, timeout: float = 20, **kw) -> Chat:
        pauses = []
        backend = OpenAIBackend("model", server.url, timeout=timeout)
        chat = Chat(backend, Ledger(tmp_path / "ledger.jsonl"), sleep=pauses.append, **kw)
        chat.pauses = pauses
        return chat

    return open_chat


def events(folder: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (folder / "ledger.jsonl").read_text().splitlines()]


def test_a_resumed_program_gets_recorded_replies_and_sends_only_new_requests(open_chat, tmp_path):
    with FakeLlmServer(["red", "green", "blue", "white"]) as server:
        chat = open_chat(server)
        texts = [chat.complete(make_request("color?")).text, chat.complete(make_request("color?")).text]
        texts.append(chat.complete(make_request("another?")).text)
        assert texts == ["red", "green", "blue"]
        before = (tmp_path / "ledger.jsonl").read_bytes()
        chat = open_chat(server)
        repeated = [chat.complete(make_request("color?")).text, chat.complete(make_request("color?")).text]
        assert [*repeated, chat.complete(make_request("another?")).text] == texts
        assert len(server.requests) == 3
        assert (tmp_path / "ledger.jsonl").read_bytes() == before
        assert chat.complete(make_request("color?")).text == "white"
        assert chat.totals().calls == 4


def test_a_call_killed_midway_counts_and_is_repeated(tmp_path):
    with FakeLlmServer(["first", hang_response]) as server:
        env = {**os.environ, "OPENAI_API_KEY": KEY}
        command = [sys.executable, chat_worker.__file__, str(tmp_path), server.url]
        process = subprocess.Popen(command, env=env)
        while process.poll() is None and len(server.requests) < 2:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert events(tmp_path) == ["request", "reply", "validation", "request"]
    with FakeLlmServer(["second"]) as server:
        assert chat_worker.main(tmp_path, server.url) == ["first", "second"]
        assert len(server.requests) == 1
    assert events(tmp_path) == ["request", "reply", "validation", "request", "request", "reply"]
    assert Ledger(tmp_path / "ledger.jsonl").totals().calls == 3


def test_the_ledger_records_everything(open_chat, tmp_path):
    with FakeLlmServer([status(503), completion("{oops", prompt=7, reply=2)]) as server:
        chat = open_chat(server, prices=Prices(prompt=1e6, reply=2e6), backoff=0.5)
        chat.complete(make_request("levels?"))
        chat.record_validation(make_request("levels?"), False, ["not JSON"])
        assert chat.pauses == [0.5]
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["request", "failure", "request", "reply", "validation"]
    request, failure, _, reply, validation = lines
    assert request["number"] == failure["number"] == 1
    assert request["backend"] == "openai:model"
    assert request["request"]["messages"] == [{"role": "user", "content": "levels?"}]
    assert failure["kind"] == "retryable"
    assert "503" in failure["error"]
    assert reply["text"] == "{oops"
    assert reply["usage"] == {"prompt_tokens": 7, "cached_tokens": None, "reply_tokens": 2, "cost": None}
    assert reply["cost"] == 11.0
    assert validation["errors"] == ["not JSON"]
    assert len({line["digest"] for line in lines}) == 1


def test_a_request_is_on_disk_before_its_reply_is_used(open_chat, tmp_path):
    with FakeLlmServer(["kept"]) as server:
        chat = open_chat(server)

        class Checked(Chat):
            def _cost(self, reply):
                assert events(tmp_path) == ["request"]
                return None

        checked = Checked(chat.backend, chat.ledger)
        checked.complete(make_request("?"))
    assert events(tmp_path) == ["request", "reply"]


def test_failed_requests_are_retried_with_growing_pauses(open_chat):
    answers = [status(500), truncated_response, raw(b"<html>", "text/html"), status(429, wait=9), "at last"]
    with FakeLlmServer(answers) as server:
        chat = open_chat(server, backoff=1.0)
        assert chat.complete(make_request("?")).text == "at last"
        assert chat.pauses == [1, 2, 4, 9]
        assert chat.totals().calls == 3  # two ambiguous, one answered; those that were turned away do not count


@pytest.mark.parametrize(("answer", "pauses"), [(status(429, wait=9999), [120, 120]), (status(503), [40, 60])])
def test_pauses_are_limited(open_chat, answer, pauses):
    with FakeLlmServer([answer] * 3) as server:
        chat = open_chat(server, backoff=40, attempts=3)
        with pytest.raises(RetryableError):
            chat.complete(make_request("?"))
        assert chat.pauses == pauses


def test_the_last_error_says_that_the_run_can_be_resumed(open_chat):
    with FakeLlmServer([status(503, "overloaded")] * 3 + ["at last"]) as server:
        with pytest.raises(RetryableError, match=r"overloaded.*tried 3 times; resume the run"):
            open_chat(server, attempts=3).complete(make_request("?"))
        assert open_chat(server, attempts=3).complete(make_request("?")).text == "at last"


def test_a_rejected_request_is_not_retried_and_costs_nothing(open_chat):
    with FakeLlmServer([status(401)]) as server:
        chat = open_chat(server)
        with pytest.raises(RejectedError):
            chat.complete(make_request("?"))
        assert len(server.requests) == 1
        assert chat.pauses == []
        assert chat.totals().calls == 0


@pytest.mark.parametrize(
    "budget",
    [{"max_calls": 2}, {"max_tokens": 240}, {"max_cost": 0.2}],
)
def test_limits_hold_across_resumes(open_chat, budget):
    prices = Prices(prompt=800, reply=1000)  # 0.1 dollars a call of 100 and 20 tokens
    with FakeLlmServer(["one", "two", "three", "three"]) as server:
        open_chat(server, budget=Budget(**budget), prices=prices).complete(make_request("1"))
        chat = open_chat(server, budget=Budget(**budget), prices=prices)
        assert [chat.complete(make_request("1")).text, chat.complete(make_request("2")).text] == ["one", "two"]
        [cap] = budget
        for _ in range(2):
            with pytest.raises(
                BudgetExceededError, match=rf"{cap} is .*2 calls, 240 tokens, \$0.2000.*raise {cap} and resume"
            ):
                chat.complete(make_request("3"))
        chat = open_chat(server, budget=Budget(**budget), prices=prices)
        assert chat.complete(make_request("2")).text == "two"  # recorded replies are free
        assert len(server.requests) == 2
        raised = Budget(**{cap: 10 * value for cap, value in budget.items()})
        assert open_chat(server, budget=raised, prices=prices).complete(make_request("3")).text == "three"


def test_an_unknown_cost_is_not_named_when_the_budget_is_spent():
    with pytest.raises(BudgetExceededError, match="1 calls, 120 tokens and 2 seconds; raise max_calls"):
        enforce(Budget(max_calls=1), UsageTotals(1, 100, 20, seconds=2.0, unpriced_calls=1))


def test_time_is_limited_and_includes_failed_calls(open_chat):
    with FakeLlmServer([hang_response, hang_response]) as server:
        with pytest.raises(AmbiguousError):
            open_chat(server, timeout=2, attempts=1).complete(make_request("?"))
        with pytest.raises(BudgetExceededError, match="max_seconds"):
            open_chat(server, budget=Budget(max_seconds=0.2)).complete(make_request("?"))
        assert len(server.requests) == 1


def test_retries_stop_at_the_limit(open_chat):
    with FakeLlmServer([truncated_response] * 9) as server:
        chat = open_chat(server, budget=Budget(max_calls=2))
        with pytest.raises(BudgetExceededError):
            chat.complete(make_request("?"))
        assert len(server.requests) == 2
        assert len(chat.pauses) == 1  # no pause before an error


def test_unreported_usage_counts_as_the_maximum(open_chat):
    prices = Prices(prompt=1e6, reply=1e6)
    with FakeLlmServer([truncated_response, completion("abcdefgh", prompt=None)]) as server:
        chat = open_chat(server, prices=prices)
        chat.complete(make_request("12345678"))
        used = chat.totals()
        assert used.calls == 2
        assert used.prompt_tokens == used.reply_tokens == used.cost == 0
        assert used.estimated_tokens == (3 + 50) + (3 + 3)
        assert used.estimated_cost == used.estimated_tokens
        with pytest.raises(BudgetExceededError):
            open_chat(server, budget=Budget(max_tokens=59)).complete(make_request("more"))


def test_a_reported_cost_takes_precedence(open_chat):
    with FakeLlmServer([completion("x", cost=0.5)]) as server:
        chat = open_chat(server, prices=Prices(prompt=1e6, reply=1e6))
        chat.complete(make_request("?"))
        assert chat.totals().cost == 0.5


def test_cached_tokens_have_a_price_of_their_own(open_chat, tmp_path):
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}
    body = {"choices": [{"message": {"content": "yes"}}], "usage": usage}
    prices = Prices(prompt=1e6, reply=1e7, cached=1e5)
    with FakeLlmServer([raw(json.dumps(body).encode())]) as server:
        chat = open_chat(server, prices=prices)
        chat.complete(make_request("?"))
        assert chat.totals().cost == pytest.approx(2 + 0.8 + 20)
    file = tmp_path / "ledger.jsonl"
    file.write_text(file.read_text().replace('"cost": 22.8', '"cost": null'))
    assert Ledger(file).totals(prices).cost == pytest.approx(22.8)  # of replies that were recorded without prices
    assert Ledger(file).totals(Prices(prompt=1e6, reply=1e7)).cost == pytest.approx(30)


def test_max_cost_needs_prices(open_chat):
    with FakeLlmServer() as server, pytest.raises(ChatError, match="max_cost needs the prices of openai:model"):
        open_chat(server, budget=Budget(max_cost=1))


def test_a_budget_documents_its_fields_and_refuses_invalid_values():
    assert all(field.description for field in Budget.model_fields.values())
    for fields in ({"max_calls": 0}, {"max_cost": float("nan")}, {"max_call": 3}):
        with pytest.raises(ValueError, match="max_c"):
            Budget(**fields)


def test_a_replay_gets_the_same_replies_for_free(open_chat, tmp_path):
    with FakeLlmServer(["red", "green", truncated_response, "blue"]) as server:
        chat = open_chat(server, prices=Prices(prompt=1, reply=1))
        texts = [chat.complete(make_request(text)).text for text in ("color?", "color?", "another?")]
    other = tmp_path / "other" / "ledger.jsonl"
    chat = Chat(ReplayBackend(tmp_path), Ledger(other), Budget(max_cost=1))
    assert chat.complete(make_request("color?")).text == "red"
    chat = Chat(ReplayBackend(tmp_path), Ledger(other), Budget(max_cost=1))  # killed and resumed in between
    assert [chat.complete(make_request(text)).text for text in ("color?", "color?", "another?")] == texts
    assert chat.totals().cost == 0
    with pytest.raises(RejectedError, match=r"differs from the one in .*: request 4 \(\w{8}\) is not recorded"):
        chat.complete(make_request("something new"))
    with pytest.raises(RejectedError, match="is recorded 2 times and was sent once more"):
        chat.complete(make_request("color?"))


def test_calls_in_flight_are_awaited_if_the_budget_may_be_enough(tmp_path):
    request, tracker, pauses = make_request("?"), UsageTracker(), []
    ledgers = [Ledger(tmp_path / f"{k}.jsonl") for k in range(2)]
    for ledger in ledgers:
        tracker.open(ledger.file, ledger)
    number = ledgers[0].record_request(request.digest, request.model_dump(mode="json"), "backend")

    def end_the_other_call(seconds: float) -> None:
        pauses.append(seconds)
        usage = {"prompt_tokens": 1, "reply_tokens": 1}
        ledgers[0].record_reply(number, request.digest, Reply(text="ok", model="m", usage=usage), None, 1.0)

    with FakeLlmServer(["red"]) as server:
        budget = Budget(max_tokens=request.max_tokens)
        backend = OpenAIBackend("model", server.url, timeout=20)
        chat = Chat(backend, ledgers[1], budget, sleep=end_the_other_call, usage_tracker=tracker)
        assert chat.complete(request).text == "red"
        assert len(pauses) == 1
        with pytest.raises(BudgetExceededError):
            chat.complete(make_request("once more"))
    assert len(pauses) == 1  # nothing is in flight


def test_the_usage_of_closed_conversations_is_kept_and_replaced(tmp_path):
    tracker = UsageTracker(usage={"a": UsageTotals(calls=2), "b": UsageTotals(calls=3)})
    assert tracker.totals().calls == 5
    tracker.open("a", Ledger(tmp_path / "ledger.jsonl"))
    assert tracker.totals().calls == 3
    tracker.close("a")
    assert tracker.totals().calls == 3


def test_the_cost_of_lost_calls_is_unknown_without_prices(tmp_path):
    ledger, request = Ledger(tmp_path / "ledger.jsonl"), make_request("?")
    number = ledger.record_request(request.digest, request.model_dump(mode="json"), "backend")
    assert ledger.totals().unpriced_calls == 0  # it may still get its reply
    ledger.record_failure(number, request.digest, "ambiguous", "no reply", 1.0)
    assert ledger.totals().unpriced_calls == 1
    assert ledger.totals(Prices(prompt=1, reply=1)).unpriced_calls == 0


def test_a_rejection_is_replayed_unless_a_reply_followed(open_chat, tmp_path):
    with FakeLlmServer([status(400), status(401), "red"]) as server:
        chat = open_chat(server)
        for text in ("refused", "later accepted"):
            with pytest.raises(RejectedError):
                chat.complete(make_request(text))
        assert chat.complete(make_request("later accepted")).text == "red"
    chat = Chat(ReplayBackend(tmp_path), Ledger(tmp_path / "other" / "ledger.jsonl"))
    assert chat.complete(make_request("later accepted")).text == "red"
    with pytest.raises(RejectedError) as caught:
        chat.complete(make_request("refused"))
    assert caught.value.status == 400


def test_an_incomplete_line_is_removed_and_its_call_repeated(open_chat, tmp_path):
    file = tmp_path / "ledger.jsonl"
    with FakeLlmServer(["one", "two", "two"]) as server:
        chat = open_chat(server)
        chat.complete(make_request("1"))
        chat.complete(make_request("2"))
        whole = file.read_bytes()
        for length in (len(whole) - 1, len(whole) - 40):  # in the middle of the last reply
            file.write_bytes(whole[:length])
            assert Ledger(file).totals().calls == 2  # the second may have been charged
            assert file.read_bytes().endswith(b"}\n")
        chat = open_chat(server)
        assert [chat.complete(make_request("1")).text, chat.complete(make_request("2")).text] == ["one", "two"]
        assert chat.totals().calls == 3
        assert open_chat(server).totals().calls == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", "line 3 of .* is damaged"),
        ("[]", "line 3 of .* is damaged"),
        ('{"event": "reply", "number": 1}', "line 3 of .* has no cost, digest"),
        (
            '{"event": "failure", "number": 9, "digest": "", "kind": "rejected", "error": "", "seconds": 1}',
            "no request",
        ),
        ('{"event": "request", "number": 1, "digest": "", "backend": "", "request": {}}', "line 3 of .* is damaged"),
        ("[" * 100_000, "line 3 of .* is damaged"),
        ('{"event": "validation", "digest": "", "ok": true, "errors": [{}]}', "line 3 of .* is damaged"),
    ],
)
def test_a_damaged_ledger_is_refused(open_chat, tmp_path, line, message):
    with FakeLlmServer(["one"]) as server:
        open_chat(server).complete(make_request("1"))
        with open(tmp_path / "ledger.jsonl", "a") as out:
            out.write(line + "\n")
        with pytest.raises(LedgerError, match=message):
            open_chat(server)


def edited(file: Path, line: int, /, **values) -> bytes:
    """The ledger with some values of a line changed."""
    lines = file.read_bytes().splitlines(keepends=True)
    lines[line - 1] = json.dumps({**json.loads(lines[line - 1]), **values}).encode() + b"\n"
    return b"".join(lines)


@pytest.mark.parametrize(
    ("number", "values"),
    [
        (1, {"number": "1"}), (1, {"number": True}), (1, {"digest": 5}), (1, {"time": "today"}), (1, {"timeout": -1}),
        (1, {"timeout": 1e400}), (2, {"seconds": "3"}), (2, {"seconds": None}), (2, {"cost": "free"}),
        (2, {"cost": float("nan")}), (2, {"usage": []}), (2, {"usage": {"prompt_tokens": -1}}), (2, {"text": 5}),
    ],
)  # fmt: skip
def test_values_of_the_wrong_type_are_damage(open_chat, tmp_path, number, values):
    with FakeLlmServer(["one"]) as server:
        open_chat(server).complete(make_request("1"))
        (tmp_path / "ledger.jsonl").write_bytes(edited(tmp_path / "ledger.jsonl", number, **values))
        with pytest.raises(LedgerError, match=f"line {number} of .* is damaged"):
            open_chat(server)


def test_a_reply_without_its_usage_is_estimated(open_chat, tmp_path):
    with FakeLlmServer(["one"]) as server:
        open_chat(server).complete(make_request("1"))
        (tmp_path / "ledger.jsonl").write_bytes(edited(tmp_path / "ledger.jsonl", 2, usage={}))
        assert open_chat(server).totals().estimated_tokens > 0


@pytest.mark.parametrize(("repeated", "message"), [(1, "repeats request 1"), (2, "ends request 1 a second time")])
def test_duplicated_lines_are_refused(open_chat, tmp_path, repeated, message):
    file = tmp_path / "ledger.jsonl"
    with FakeLlmServer(["one"]) as server:
        open_chat(server).complete(make_request("1"))
        file.write_bytes(file.read_bytes() + file.read_bytes().splitlines(keepends=True)[repeated - 1])
        with pytest.raises(LedgerError, match=f"line 3 of .* {message}"):
            open_chat(server)
        with pytest.raises(LedgerError, match=message):
            ReplayBackend(tmp_path)


def test_an_oversized_ledger_is_not_read(tmp_path):
    file = tmp_path / "ledger.jsonl"
    with open(file, "wb") as out:
        out.truncate(1 << 40)  # a sparse file, which would fill the memory
    for open_ledger in (Ledger, ReplayBackend):
        with pytest.raises(LedgerError, match="it has 1,099,511,627,776 bytes, but at most"):
            open_ledger(file)


def test_calls_that_were_killed_count_towards_the_seconds(open_chat, tmp_path):
    """A call that was killed counts until the next request, and at most until its timeout."""
    file = tmp_path / "ledger.jsonl"
    with FakeLlmServer(["one", "two"]) as server:
        open_chat(server, timeout=50).complete(make_request("1"))
        whole, request = file.read_bytes(), file.read_bytes().splitlines(keepends=True)[0]
        assert json.loads(request)["timeout"] == 50
        assert open_chat(server).totals().seconds < 10
        file.write_bytes(request)
        chat = open_chat(server, budget=Budget(max_seconds=40))
        assert chat.totals().seconds == 50
        with pytest.raises(BudgetExceededError, match="max_seconds is 40"):
            chat.complete(make_request("1"))
        for start, seconds in (("2001-01-01T00:00:00+00:00", 50), ("2001-01-01T00:00:47+00:00", 13)):
            later = {"number": 2, "time": "2001-01-01T00:01:00+00:00"}
            file.write_bytes(
                edited(file, 1, time=start) + json.dumps({**json.loads(request), **later}).encode() + b"\n"
            )
            assert open_chat(server).totals().seconds == seconds + 50
            file.write_bytes(request)
        file.write_bytes(whole)
        assert open_chat(server, budget=Budget(max_seconds=40)).complete(make_request("2")).text == "two"


def test_nothing_is_sent_if_the_ledger_cannot_be_written(open_chat, tmp_path):
    with FakeLlmServer(["one"]) as server:
        chat = open_chat(server)
        (tmp_path / "ledger.jsonl").unlink()
        (tmp_path / "ledger.jsonl").mkdir()
        with pytest.raises(LedgerError, match="cannot write the ledger"):
            chat.complete(make_request("1"))
        assert server.requests == []


def test_a_repeated_validation_is_not_written_again(open_chat, tmp_path):
    with FakeLlmServer(["one"]) as server:
        for _ in range(2):
            chat = open_chat(server)
            chat.complete(make_request("1"))
            chat.record_validation(make_request("1"), True)
    assert events(tmp_path) == ["request", "reply", "validation"]


def test_a_key_is_never_written_or_shown(tmp_path):
    texts = []
    answers = [echo_key(503), completion(f"you are {KEY}"), echo_key(401), raw(KEY.encode()), truncated_response]
    with FakeLlmServer(answers) as server:
        address = server.url.replace("//", "//crafty:hunter22@")
        for base_url in (server.url, address):
            server.answers = iter(answers)
            folder = tmp_path / str(len(texts))
            backend = OpenAIBackend("model", base_url)
            chat = Chat(backend, Ledger(folder / "ledger.jsonl"), attempts=2, sleep=lambda seconds: None)
            request = make_request(f"I wrote my key {KEY} into the prompt")
            texts.append(chat.complete(request).text)
            chat.record_validation(request, False, [f"{KEY} is no JSON"])
            for text in ("rejected", "ambiguous"):
                with pytest.raises(ChatError) as caught:
                    chat.complete(make_request(text))
                texts.append(str(caught.value))
            resumed = Chat(backend, Ledger(folder / "ledger.jsonl"))
            assert resumed.complete(request).text == texts[-3] == "you are [key]"
    written = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert written.count("[key]") >= 8
    for text in (*texts, written):
        assert not any(secret in text for secret in (KEY, "hunter22", "crafty:", "Y3JhZnR5"))


def test_the_secrets_of_any_backend_are_redacted(tmp_path):
    class Careless(Backend):
        name, secrets = "careless", (KEY,)

        def send(self, request):
            if "fail" in request.messages[0].content:
                raise RejectedError(f"{KEY} is wrong")
            return Reply(text=f"{KEY} is right", model=KEY)

    chat = Chat(Careless(), Ledger(tmp_path / "ledger.jsonl"))
    assert chat.complete(make_request("succeed")).text == "[key] is right"
    with pytest.raises(RejectedError, match=r"^\[key\] is wrong$"):
        chat.complete(make_request("fail"))
    assert KEY not in (tmp_path / "ledger.jsonl").read_text()


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_ledger_is_a_regular_file(tmp_path, kind):
    file, other = tmp_path / "ledger.jsonl", tmp_path / "other"
    other.write_text("not a ledger")
    if kind == "link":
        file.symlink_to(other)
    else:
        os.mkfifo(file)
    with pytest.raises(LedgerError, match=r"cannot open the ledger .*: it is (a symbolic link|not a regular file)"):
        Ledger(file)
    assert other.read_text() == "not a ledger"


def test_a_ledger_named_by_the_user_may_be_a_link(tmp_path):
    other = tmp_path / "other"
    other.write_text("")
    (tmp_path / "mine").symlink_to(other)
    assert ReplayBackend(tmp_path / "mine").name.endswith("mine")
