"""The task filter accepts exactly the texts that are valid, solvable, new and not held out."""

import pytest
from toy import Toy, ToySpec

from envgen.coevolution.task_filter import TaskFilter, count_rejections
from envgen.coevolution.tasks import CheckResult

VALID = '{"which":1,"letters":"ab","loud":"no"}'
HELD_OUT = '{"which":2,"letters":"ab","loud":"no"}'


@pytest.fixture
def task_filter():
    domain = Toy()
    return TaskFilter(domain, [domain.make_task(ToySpec.parse(HELD_OUT))])


def test_valid_spec_becomes_a_task(task_filter):
    result = task_filter.check(VALID)
    assert result.rejection is None
    assert (result.task.spec.text, result.task.gold) == (VALID, "a")


@pytest.mark.parametrize(
    "text",
    [
        "", "no JSON", "[1, 2]", '"which"', "null", VALID[:-1], VALID + "x", "[" * 100_000,
        '{"which":1,"letters":"ab","loud":"no","more":1}', '{"which":3,"letters":"ab"}', '{"which":1,"letters":"zz"}',
        '{"letters":"ab"}', '{"which":NaN,"letters":"ab"}', "\ud800",
    ],
)  # fmt: skip
def test_invalid_specs_are_malformed(task_filter, text):
    result = task_filter.check(text)
    assert (result.task, result.rejection) == (None, "malformed")


def test_spec_without_solution_is_unsolvable_each_time(task_filter):
    unsolvable = '{"which":2,"letters":"a","loud":"no"}'
    assert [task_filter.check(unsolvable).rejection for _ in range(2)] == ["unsolvable"] * 2


def test_spec_is_accepted_once_in_any_spelling(task_filter):
    assert task_filter.check(VALID).task is not None
    assert task_filter.check(VALID).rejection == "duplicate"
    assert task_filter.check('{ "letters": "ab",\n "which": 1 }').rejection == "duplicate"


def test_held_out_task_is_rejected_in_any_spelling(task_filter):
    spellings = (HELD_OUT, '{"letters":"ab", "which":2}', HELD_OUT)
    assert [task_filter.check(text).rejection for text in spellings] == ["held_out"] * 3


def test_specs_that_were_accepted_before_are_duplicates(task_filter):
    task_filter.mark_accepted([ToySpec.parse(VALID)])
    assert task_filter.check(VALID).rejection == "duplicate"


def test_task_whose_checker_is_wrong_is_unsolvable():
    class WrongOracle(Toy):
        def oracle_reply(self, task):
            return "z" if task.spec.loud == "yes" else task.gold

    class AcceptsEverything(Toy):
        def check(self, task, reply):
            return CheckResult(1.0, True)

    loud = VALID.replace("no", "yes")
    assert TaskFilter(WrongOracle(), []).check(loud).rejection == "unsolvable"
    assert TaskFilter(WrongOracle(), []).check(VALID).task is not None
    assert TaskFilter(AcceptsEverything(), []).check(VALID).rejection == "unsolvable"


def test_rejections_are_counted_by_reason():
    counts = count_rejections(["duplicate", "malformed", "duplicate", None, "not_needed"])
    assert counts == {"malformed": 1, "unsolvable": 0, "held_out": 0, "duplicate": 2}
    assert count_rejections([]) == {"malformed": 0, "unsolvable": 0, "held_out": 0, "duplicate": 0}
