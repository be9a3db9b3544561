"""A budget that several processes share is never exceeded, whatever happens to them."""

import json
import subprocess
import sys
import time

import budget_worker
import pytest
from budget_worker import MAX_TOKENS, PROMPT_TOKENS, REPLY_TOKENS, make_request, open_chat

from envgen.designers.chat import budget_file
from envgen.designers.chat.budget_file import BudgetFile, SharedBudgetError, SharedLimits
from envgen.designers.chat.protocol import ChatError
from envgen.designers.chat.runtime import LlmRuntime

CALL = PROMPT_TOKENS + REPLY_TOKENS
RESERVED = 3 + MAX_TOKENS  # for a prompt of four bytes


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "budget.json"
    BudgetFile.create(file, SharedLimits(max_tokens=1000))
    return file


def total_usage(file):
    entries = json.loads(file.read_text())["usage"].values()
    return {name: sum(entry[name] for entry in entries) for name in ("calls", "tokens", "cost")}


def start(file, name, *args):
    command = [sys.executable, budget_worker.__file__, str(file), str(file.parent / name / "ledger.jsonl"), *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_together_use_all_of_the_budget_and_no_more(file):
    processes = [start(file, name) for name in "abc"]
    calls = [int(process.communicate()[0]) for process in processes]
    used = total_usage(file)
    assert used == {"calls": sum(calls), "tokens": CALL * sum(calls), "cost": CALL * sum(calls)}
    assert 1000 - RESERVED < used["tokens"] <= 1000
    entries = json.loads(file.read_text())["usage"]
    assert set(entries) == {"a/ledger.jsonl", "b/ledger.jsonl", "c/ledger.jsonl"}
    assert all(entry["reserved"] is None for entry in entries.values())


@pytest.mark.parametrize(
    ("limits", "calls"), [({"max_calls": 3}, 3), ({"max_cost": 200.0}, 4), ({"max_tokens": RESERVED - 1}, 0)]
)
def test_every_limit_is_kept(tmp_path, limits, calls):
    file = tmp_path / "budget.json"
    BudgetFile.create(file, SharedLimits(**limits))
    assert budget_worker.main(file, tmp_path / "ledger.jsonl") == calls
    (name,) = limits
    with pytest.raises(SharedBudgetError, match=f"is spent: {name} is .* raise {name} and repeat the command"):
        open_chat(file, tmp_path / "ledger.jsonl").complete(make_request(99))


def test_a_call_waits_until_others_are_settled(tmp_path):
    file = tmp_path / "budget.json"
    BudgetFile.create(file, SharedLimits(max_tokens=2 * RESERVED - 1))
    other = open_chat(file, tmp_path / "other" / "ledger.jsonl")
    assert other.budget_file is not None
    other.budget_file.reserve(make_request(0), other.totals(), other.prices, 30.0)
    chat, waits = open_chat(file, tmp_path / "ledger.jsonl"), []

    def settle_other(seconds):
        waits.append(seconds)
        other.budget_file.settle(other.totals())

    chat.sleep = settle_other
    assert chat.complete(make_request(1)).text == "yes"
    assert len(waits) == 1


def test_what_a_killed_process_reserved_counts_until_its_run_is_resumed(file):
    process = start(file, "killed", "hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "sent\n"
    process.kill()
    process.communicate()
    content = json.loads(file.read_text())
    entry = content["usage"]["killed/ledger.jsonl"]
    assert entry["tokens"] == 0
    assert entry["reserved"]["tokens"] == RESERVED
    entry["reserved"]["expires"] = time.time() - 1
    file.write_text(json.dumps(content))
    calls = budget_worker.main(file, file.parent / "next" / "ledger.jsonl")
    assert 1000 - 2 * RESERVED < calls * CALL <= 1000 - RESERVED
    open_chat(file, file.parent / "killed" / "ledger.jsonl")  # its ledger says that one call may have been charged
    entry = json.loads(file.read_text())["usage"]["killed/ledger.jsonl"]
    assert (entry["calls"], entry["reserved"]) == (1, None)
    assert 0 < entry["tokens"] <= RESERVED


def test_a_reservation_from_before_the_clock_was_set_back_is_lost_and_counts(file, tmp_path, monkeypatch):
    killed = open_chat(file, tmp_path / "killed" / "ledger.jsonl")
    killed.budget_file.reserve(make_request(0), killed.totals(), killed.prices, 30.0)
    year = 365 * 86400.0
    set_back = time.time() - year
    monkeypatch.setattr(budget_file.time, "time", lambda: set_back)
    calls = budget_worker.main(file, tmp_path / "next" / "ledger.jsonl")  # does not wait for a year
    assert 1000 - 2 * RESERVED < calls * CALL <= 1000 - RESERVED


def test_raised_limits_keep_what_was_used(file, tmp_path):
    budget_worker.main(file, tmp_path / "a" / "ledger.jsonl")
    used = total_usage(file)
    BudgetFile.create(file, SharedLimits(max_tokens=2000))
    assert total_usage(file) == used
    open_chat(file, tmp_path / "a" / "ledger.jsonl").complete(make_request(500))
    assert total_usage(file)["calls"] == used["calls"] + 1


def test_a_file_that_is_no_budget_is_refused_and_not_changed(tmp_path):
    file = tmp_path / "notes.json"
    with pytest.raises(SharedBudgetError, match="there is no shared budget"):
        BudgetFile(file, tmp_path / "ledger.jsonl")
    file.write_text('{"my": "notes"}')
    with pytest.raises(SharedBudgetError, match="is not a shared budget"):
        open_chat(file, tmp_path / "ledger.jsonl")
    assert file.read_text() == '{"my": "notes"}'


def test_a_limit_on_dollars_needs_prices(tmp_path):
    file = tmp_path / "budget.json"
    BudgetFile.create(file, SharedLimits(max_cost=1.0))
    chat = open_chat(file, tmp_path / "ledger.jsonl")
    with pytest.raises(ChatError, match="max_cost needs the prices"):
        type(chat)(chat.backend, chat.ledger, budget_file=chat.budget_file)


def test_a_run_records_that_it_has_a_shared_budget_but_not_its_file(file):
    record = LlmRuntime(shared_budget=file).for_record()
    assert "shared_budget" not in record
    assert str(file) not in json.dumps(record)
    assert record["has_shared_budget"]
    assert "has_shared_budget" not in LlmRuntime().for_record()
