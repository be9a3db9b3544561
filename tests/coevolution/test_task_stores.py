"""The filter accepts exactly the valid, solvable, new specs that are not held out. Stores are append-only, hold each
record once, and are restored to the length in a checkpoint.
"""

import json
import resource
from dataclasses import replace

import numpy as np
import pytest
from toy import Toy, ToySpec

from envgen.coevolution.task_stores import TaskFilter, TaskStore, TaskStoreError, count_rejections
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
    assert (result.task.spec.text, result.task.answer_key) == (VALID, "a")


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


def test_another_spec_with_the_prompt_of_a_held_out_task_is_rejected():
    class Whispering(Toy):
        def make_task(self, spec):
            return super().make_task(spec.model_copy(update={"loud": "no"}))

    domain = Whispering()
    task_filter = TaskFilter(domain, [domain.make_task(ToySpec.parse(HELD_OUT))])
    assert task_filter.check(HELD_OUT.replace('"no"', '"yes"')).rejection == "held_out"
    assert task_filter.check(VALID).task is not None


def test_in_several_turns_tasks_with_the_same_prompt_may_differ():
    class Hiding(Toy):
        is_multi_turn = True

        def make_task(self, spec):
            return replace(super().make_task(spec), prompt="Which letter?")

    domain = Hiding()
    task_filter = TaskFilter(domain, [domain.make_task(ToySpec(which=1, letters="ab"))])
    same, other = (domain.make_task(ToySpec(which=which, letters=text)) for which, text in ((1, "ac"), (2, "ab")))
    assert task_filter.held_out.has_task(same)
    assert not task_filter.held_out.has_task(other)


def test_specs_that_were_accepted_before_are_duplicates(task_filter):
    task_filter.mark_accepted([ToySpec.parse(VALID)])
    assert task_filter.check(VALID).rejection == "duplicate"


def test_task_whose_checker_is_wrong_is_unsolvable():
    class WrongOracle(Toy):
        def oracle_reply(self, task):
            return "z" if task.spec.loud == "yes" else task.answer_key

    class AcceptsEverything(Toy):
        def check(self, task, reply):
            return CheckResult(1.0, True)

    loud = VALID.replace("no", "yes")
    assert TaskFilter(WrongOracle(), []).check(loud).rejection == "unsolvable"
    assert TaskFilter(WrongOracle(), []).check(VALID).task is not None
    assert TaskFilter(AcceptsEverything(), []).check(VALID).rejection == "unsolvable"


def test_a_task_that_cannot_be_made_is_unsolvable():
    class Failing(Toy):
        def make_task(self, spec):
            return super().make_task(spec) if spec.loud == "no" else [][0]

    task_filter = TaskFilter(Failing(), [])
    assert task_filter.check(VALID.replace("no", "yes")).rejection == "unsolvable"
    assert task_filter.check(VALID).task is not None


def test_rejections_are_counted_by_reason():
    counts = count_rejections(["duplicate", "malformed", "duplicate", None, "not_needed"])
    assert counts == {"malformed": 1, "unsolvable": 0, "held_out": 0, "duplicate": 2}
    assert count_rejections([]) == {"malformed": 0, "unsolvable": 0, "held_out": 0, "duplicate": 0}


def add(store, *names):
    return store.add(({"name": name, "more": 1} for name in names), key=lambda record: record["name"])


def read_names(file):
    return [json.loads(line)["name"] for line in file.read_text().splitlines()]


def select_name(record):
    return record["name"]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "store.jsonl"


def test_each_record_is_stored_once_in_order(file):
    store = TaskStore(file, select_name)
    assert add(store, "a", "b", "a") == 2
    assert add(store, "b", "c") == 1
    assert add(store, "c") == 0
    assert store.items == read_names(file) == ["a", "b", "c"]
    assert len(store) == 3


def test_existing_lines_are_never_rewritten(file):
    store = TaskStore(file)
    add(store, "a")
    before = file.read_bytes()
    add(store, "b")
    assert file.read_bytes().startswith(before)
    assert store.flush() == file.stat().st_size


@pytest.mark.parametrize("later_bytes", ["", '{"key": "0", "na', '{"key": "0", "name": "late"}\n'])
def test_restore_drops_everything_written_after_the_checkpoint(file, later_bytes):
    store = TaskStore(file, select_name)
    add(store, "a", "b")
    length = store.flush()
    add(store, "c")
    with open(file, "a") as out:
        out.write(later_bytes)
    restored = TaskStore(file, select_name)
    restored.restore(length)
    assert restored.items == read_names(file) == ["a", "b"]
    assert add(restored, "b", "c") == 1
    assert restored.items == read_names(file) == ["a", "b", "c"]
    assert restored.flush() == file.stat().st_size


def test_restore_to_zero_empties_the_file(file):
    file.write_text("an unfinished")
    store = TaskStore(file)
    store.restore(0)
    assert len(store) == 0
    assert file.read_text() == ""


def test_file_shorter_than_its_checkpoint_is_refused(file):
    store = TaskStore(file)
    add(store, "a")
    length = store.flush()
    with pytest.raises(TaskStoreError, match=f"has {length} bytes, but the checkpoint expects at least {length + 1}"):
        store.restore(length + 1)
    file.unlink()
    with pytest.raises(TaskStoreError, match=str(file)):
        TaskStore(file).restore(length)
    TaskStore(file).restore(0)


def test_only_the_main_process_writes_and_all_hold_the_same(file):
    main, other = TaskStore(file), TaskStore(file, is_main=False)
    for store in (main, other):
        add(store, "a", "b", "a")
    assert main.items == other.items
    assert main.num_bytes == other.num_bytes == file.stat().st_size
    other.restore(main.flush())
    assert other.items == main.items


def test_samples_are_uniform_and_an_empty_store_has_none(file):
    store, rng = TaskStore(file, select_name), np.random.default_rng(0)
    assert store.sample(3, rng) == []
    add(store, "a", "b", "c")
    assert store.sample(0, rng) == []
    samples = store.sample(3000, rng)
    assert all(abs(samples.count(name) - 1000) < 120 for name in "abc")


def test_links_are_refused(file, tmp_path):
    target = tmp_path / "target.jsonl"
    add(TaskStore(target), "a")
    before = target.read_bytes()
    file.symlink_to(target)
    with pytest.raises(TaskStoreError, match=r"cannot open .*link"):
        TaskStore(file).restore(0)
    assert target.read_bytes() == before


def test_a_changed_file_is_refused(file):
    store = TaskStore(file, select_name)
    add(store, "a", "b")
    length, checksum = store.flush(), store.checksum.hexdigest()
    add(store, "c")
    restored = TaskStore(file, select_name)
    restored.restore(length, checksum)
    assert add(restored, "c") == 1
    assert restored.checksum.hexdigest() == store.checksum.hexdigest()
    file.write_text(file.read_text().replace('"b"', '"x"'))
    with pytest.raises(TaskStoreError, match="has changed since the checkpoint was written; restore the file"):
        TaskStore(file, select_name).restore(length, checksum)


@pytest.mark.parametrize(
    "line", ["{oops", "[]", "3", '{"name": "a"}', '{"key": "0"}', "[" * 100_000, '{"key": [], "name": "a"}']
)
def test_a_damaged_line_is_named(file, line):
    store = TaskStore(file, select_name)
    add(store, "a")
    with open(file, "a") as out:
        out.write(line + "\n")
    with pytest.raises(TaskStoreError, match=r"line 2 of .* is damaged .*; restore the file"):
        TaskStore(file, select_name).restore(file.stat().st_size)


def test_a_full_disk_is_reported(file, tmp_path):
    """A limit of 4 KB per file makes the system refuse to write, as a full disk does."""
    store = TaskStore(file)
    add(store, "a")
    length = store.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(TaskStoreError, match=r"cannot write .*: .+; correct this \(is the disk full\?\)"):
            add(store, *(f"record {k}" for k in range(200)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    restored = TaskStore(file, select_name)
    restored.restore(length)
    assert restored.items == ["a"]
    assert add(restored, "record 0") == 1
