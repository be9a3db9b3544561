"""BFCL with the data of the installed package."""

import importlib.util
import resource
import sys
from pathlib import Path
from random import Random

import pytest

from envgen.benchmarks.benchmark import BenchmarkError
from envgen.benchmarks.bfcl.benchmark import Bfcl
from envgen.benchmarks.bfcl.data import MULTI_TURN
from envgen.benchmarks.bfcl.process import Worker, WorkerError
from envgen.benchmarks.bfcl.prompts import make_tools
from envgen.benchmarks.bfcl.worker import limit_resources
from envgen.benchmarks.runner import select_items
from envgen.designers.chat.protocol import Reply
from envgen.function_calls.calls import Call
from hostile_replies import attack, play

if importlib.util.find_spec("bfcl_eval") is None or importlib.util.find_spec("mpmath") is None:
    pytest.skip("needs bfcl-eval: pip install --no-deps bfcl-eval==2026.3.23", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore:invalid")  # escape sequences and literals in hostile replies
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module", params=["prompt", "native"])
def bfcl(request):
    return Bfcl(request.param)


def say(text):
    return Reply(text=text, model="m")


def test_gold_replies_are_right_and_empty_ones_wrong(bfcl):
    single = [name for name in bfcl.categories if name not in MULTI_TURN]
    for item in [*select_items(bfcl, single, 20, 0), *select_items(bfcl, MULTI_TURN, 1, 0)]:
        assert play(bfcl, item, bfcl.gold_replies(item)).score == 1, item.id
        assert play(bfcl, item, [say("")]).score == ("irrelevance" in item.category), item.id


def test_known_wrong_replies_are_wrong(bfcl):
    for item in select_items(bfcl, ["simple_python", "parallel", "live_multiple"], 20, 0):
        (gold,) = bfcl.gold_replies(item)
        other = next(other for other in bfcl.items(item.category) if other.data["function"] != item.data["function"])
        for reply in (say("I do not know."), *bfcl.gold_replies(other)):
            assert play(bfcl, item, [reply]).score == 0
        twice = Reply(text=f"[{gold.text}, {gold.text}]", model="m", tool_calls=gold.tool_calls * 2)
        assert play(bfcl, item, [twice]).score == 0


def test_categories_have_the_published_sizes():
    sizes = {name: len(Bfcl().items(name)) for name in Bfcl().categories}
    assert sizes == {
        "simple_python": 400, "simple_java": 100, "simple_javascript": 50, "multiple": 200, "parallel": 200,
        "parallel_multiple": 200, "irrelevance": 240, "live_simple": 258, "live_multiple": 1053, "live_parallel": 16,
        "live_parallel_multiple": 24, "live_irrelevance": 884, "live_relevance": 16, "multi_turn_base": 200,
        "multi_turn_miss_func": 200, "multi_turn_miss_param": 200, "multi_turn_long_context": 200,
    }  # fmt: skip


def test_the_checker_agrees_with_the_official_one(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bfcl_checker

    for name in [name for name in sys.modules if name.startswith("bfcl_eval")]:
        monkeypatch.delitem(sys.modules, name)
    official, gold, rng = bfcl_checker.OfficialChecker(), list(bfcl_checker.iter_gold()), Random(0)
    others = ["", 0, 1, True, None, [], {}, ["x"], {"a": 1}, (1, 2), "None"]
    counts = {True: 0, False: 0}
    for _ in range(1000):
        entry, calls, category = rng.choice(gold)
        result = bfcl_checker.compare(official, entry, bfcl_checker.mutate(calls, rng, others), category)
        assert result.ours == result.theirs or result.reason, (entry["id"], calls)
        counts[result.ours] += 1
    assert min(counts.values()) > 100
    monkeypatch.delitem(sys.modules, "bfcl_checker")


def test_every_turn_is_checked(bfcl):
    item = bfcl.items("multi_turn_base")[0]
    gold = list(bfcl.gold_replies(item))
    verdict = play(bfcl, item, [*gold[:2], say("Done.")])
    assert (verdict.error, verdict.counts["turns"]) == ("no call", (1, 4))
    verdict = play(bfcl, item, [gold[0], say("Done."), say("Done.")])
    assert verdict.details.startswith("turn 2")
    assert play(bfcl, item, [gold[2], say("Done.")]).error == "wrong state"
    assert play(bfcl, item, [gold[0]]).error == "too many steps"


def test_results_are_shown_to_the_model(bfcl):
    item = bfcl.items("multi_turn_base")[0]
    episode = bfcl.episode(item)
    first = next(episode)
    assert bool(first.tools) == bfcl.is_native
    shown = episode.send(bfcl.gold_replies(item)[0]).messages
    assert '"current_working_directory": "document"' in shown[len(first.messages) + 1].content
    assert shown[-1].role == ("tool" if bfcl.is_native else "user")
    episode.close()


def test_tools_have_names_of_their_own():
    names = ["a.b", "a-b", "a b", *(f"{'x' * 64}{k}" for k in range(12))]
    tools, functions = make_tools([{"name": name, "description": "", "parameters": {}} for name in names])
    assert list(functions.values()) == names
    assert list(functions) == [tool.name for tool in tools]
    assert list(functions)[:4] == ["a_b", "a-b", "a_b_2", "x" * 64]
    assert max(map(len, functions)) == 64


def test_functions_that_are_missing_at_first_are_added_later(bfcl):
    item = bfcl.items("multi_turn_miss_func")[0]
    ((turn, (name,)),) = item.data["missed_function"].items()
    gold = list(bfcl.gold_replies(item))
    episode = bfcl.episode(item)
    prompts = [next(episode), *(episode.send(reply) for reply in gold[:-1])]
    episode.close()
    added = [any("From now on you can also" in message.content for message in prompt.messages) for prompt in prompts]
    offered = [
        name in {tool.name for tool in prompt.tools} if bfcl.is_native
        else any(f'{{"name": "{name}"' in message.content for message in prompt.messages)
        for prompt in prompts
    ]  # fmt: skip
    assert offered == added
    assert 0 < added.index(True) < len(prompts)
    assert int(turn) > 0


@pytest.fixture
def worker():
    worker = Worker(["MathAPI", "GorillaFileSystem"], {}, False)
    yield worker
    worker.close()


def test_wrong_calls_are_results_and_not_errors(worker):
    calls = [
        Call("add", {"a": 1, "b": 2}), Call("add", {"x": 1}), Call("nothing", {}), Call("_load_scenario", {}),
        Call("__init__", {}), Call("os.system", {"command": "true"}), Call("add", {"a": "x" * 1000, "b": None}),
    ]  # fmt: skip
    results = worker.run("model", calls)
    assert results[0] == '{"result": 3}'
    assert results[1].startswith("Error during execution:")
    assert [result.partition(" is not")[2] for result in results[2:6]] == [" defined"] * 4
    assert worker.differences() == []


def test_a_worker_is_limited_in_time_and_memory(worker, monkeypatch):
    monkeypatch.setattr("envgen.benchmarks.bfcl.process.CALL_SECONDS", 1.0)
    with pytest.raises(WorkerError):
        worker.run("model", [Call("logarithm", {"value": 2, "base": 3, "precision": 10**8})])


def test_a_worker_refuses_networks_processes_and_files(tmp_path):
    import subprocess

    script = Path(sys.modules["envgen.benchmarks.bfcl.process"].__file__ or "").with_name("worker.py")
    code = f"""
import os, runpy, socket, sys
names = runpy.run_path({str(script)!r})
names["limit_resources"]()
sys.addaudithook(names["refuse"])
for attempt in (lambda: socket.socket(), lambda: socket.getaddrinfo("localhost", 1), lambda: os.system("true"),
                lambda: os.fork(), lambda: open({str(tmp_path / "x")!r}, "w"), lambda: os.remove("x"),
                lambda: os.posix_spawn("/bin/true", ["true"], {{}})):
    try:
        attempt()
    except RuntimeError:
        continue
    print("allowed")
try:
    bytearray(3 << 30)
    print("allowed")
except MemoryError:
    print("done")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.stdout == "done\n", result.stderr
    assert list(tmp_path.iterdir()) == []


def test_only_macos_may_lack_the_limit_on_memory(monkeypatch):
    applied = []

    def setrlimit(kind, limits):
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        applied.append(kind)

    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    with pytest.raises(ValueError, match="current limit"):
        limit_resources()
    monkeypatch.setattr(sys, "platform", "darwin")
    limit_resources()
    assert {resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE} < set(applied)


def test_windows_has_no_workers(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BenchmarkError, match="need Linux or macOS"):
        Worker([], {}, False)


def test_hostile_replies_are_wrong_and_never_executed(bfcl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    single = ["simple_python", "simple_java", "simple_javascript", "parallel_multiple", "live_simple"]
    items = select_items(bfcl, single, 40, 0)
    assert attack(bfcl, items, 2000) < 700
    assert list(tmp_path.iterdir()) == []


def test_hostile_replies_in_several_turns(bfcl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    item = bfcl.items("multi_turn_base")[0]
    hostile = ["[cd(folder='" + "../" * 10_000 + "')]", "[mv(source='\\0', destination=[1])]", "[echo(content={})]" * 3]
    for text in hostile:
        assert play(bfcl, item, [say(text)]).score == 0
    assert list(tmp_path.iterdir()) == []
