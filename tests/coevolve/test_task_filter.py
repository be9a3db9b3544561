"""No text becomes a task but one that is a spec, can be solved, is new, and is not asked in the test."""

import pytest
from toy import Toy, ToySpec

from envgen.coevolve.task_filter import REASONS, Gate, counted
from envgen.coevolve.tasks import CheckResult, Task

GOOD = '{"which":1,"letters":"ab","loud":"no"}'
HELD_OUT = '{"which":2,"letters":"ab","loud":"no"}'


@pytest.fixture
def gate():
    domain = Toy()
    return Gate(domain, [domain.make_task(ToySpec.parse(HELD_OUT))])


def test_a_spec_becomes_its_task(gate):
    task = gate.admit(GOOD)
    assert isinstance(task, Task)
    assert (task.spec.text, task.gold) == (GOOD, "a")


@pytest.mark.parametrize(
    "text",
    [
        "", "no JSON", "[1, 2]", '"which"', "null", GOOD[:-1], GOOD + "x", "[" * 100_000,
        '{"which":1,"letters":"ab","loud":"no","more":1}', '{"which":3,"letters":"ab"}', '{"which":1,"letters":"zz"}',
        '{"letters":"ab"}', '{"which":NaN,"letters":"ab"}', "\ud800",
    ],
)  # fmt: skip
def test_what_is_no_spec_is_malformed(gate, text):
    assert gate.admit(text) == "malformed"


def test_what_has_no_solution_is_named_so_each_time(gate):
    unsolvable = '{"which":2,"letters":"a","loud":"no"}'
    assert [gate.admit(unsolvable) for _ in range(2)] == ["unsolvable"] * 2


def test_a_spec_passes_once_however_it_is_spelled(gate):
    assert isinstance(gate.admit(GOOD), Task)
    assert gate.admit(GOOD) == "duplicate"
    assert gate.admit('{ "letters": "ab",\n "which": 1 }') == "duplicate"


def test_a_held_out_task_never_passes_however_it_is_spelled(gate):
    spelled = (HELD_OUT, '{"letters":"ab", "which":2}', HELD_OUT)
    assert [gate.admit(text) for text in spelled] == ["held out"] * 3


def test_a_task_whose_answer_the_checker_does_not_accept_never_passes():
    class Wrong(Toy):
        def oracle_reply(self, task):
            return "z" if task.spec.loud == "yes" else task.gold

    class Lenient(Toy):
        def check(self, task, reply):
            return CheckResult(1.0, True)

    loud = GOOD.replace("no", "yes")
    assert Gate(Wrong(), []).admit(loud) == "unsolvable"
    assert isinstance(Gate(Wrong(), []).admit(GOOD), Task)
    assert Gate(Lenient(), []).admit(GOOD) == "unsolvable"  # wrong answers are accepted too


def test_refusals_are_counted_by_their_reason():
    assert counted(["duplicate", "malformed", "duplicate", "", "not needed"]) == {
        "malformed": 1, "unsolvable": 0, "held out": 0, "duplicate": 2,
    }  # fmt: skip
    assert set(counted([])) == set(REASONS)
