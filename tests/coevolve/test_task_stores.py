"""A pool only ever grows, holds each thing once, and is again what a checkpoint remembers."""

import json

import numpy as np
import pytest

from envgen.coevolve.task_stores import Pool, PoolError


def added(pool, *names):
    return pool.add(({"name": name, "more": 1} for name in names), key=lambda line: line["name"])


def names(file):
    return [json.loads(line)["name"] for line in file.read_text().splitlines()]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "pool.jsonl"


def test_each_thing_is_kept_once_in_its_order(file):
    pool = Pool(file, lambda line: line["name"])
    assert added(pool, "a", "b", "a") == 2
    assert added(pool, "b", "c") == 1
    assert added(pool, "c") == 0
    assert pool.held == names(file) == ["a", "b", "c"]
    assert len(pool) == 3


def test_what_is_there_is_never_written_anew(file):
    pool = Pool(file)
    added(pool, "a")
    before = file.read_bytes()
    added(pool, "b")
    assert file.read_bytes().startswith(before)
    assert pool.flush() == file.stat().st_size


@pytest.mark.parametrize("after", ["", '{"key": "0", "na', '{"key": "0", "name": "late"}\n'])
def test_it_is_again_what_it_was_whatever_was_written_after(file, after):
    pool = Pool(file, lambda line: line["name"])
    added(pool, "a", "b")
    length = pool.flush()
    added(pool, "c")
    with open(file, "a") as out:
        out.write(after)
    again = Pool(file, lambda line: line["name"])
    again.restore(length)
    assert again.held == names(file) == ["a", "b"]
    assert added(again, "b", "c") == 1
    assert again.held == names(file) == ["a", "b", "c"]
    assert again.flush() == file.stat().st_size


def test_it_begins_empty_whatever_lies_there(file):
    file.write_text("an unfinished")
    pool = Pool(file)
    pool.restore(0)
    assert len(pool) == 0
    assert file.read_text() == ""


def test_one_that_is_shorter_than_remembered_is_refused(file):
    pool = Pool(file)
    added(pool, "a")
    length = pool.flush()
    with pytest.raises(PoolError, match="shorter than its checkpoint"):
        pool.restore(length + 1)
    file.unlink()
    with pytest.raises(PoolError, match=str(file)):
        Pool(file).restore(length)
    Pool(file).restore(0)


def test_of_several_processes_one_writes_and_all_hold_the_same(file):
    lead, other = Pool(file), Pool(file, lead=False)
    for pool in (lead, other):
        added(pool, "a", "b", "a")
    assert lead.held == other.held
    assert lead.bytes == other.bytes == file.stat().st_size
    other.restore(lead.flush())
    assert other.held == lead.held


def test_all_that_is_there_is_drawn_alike_and_nothing_from_nothing(file):
    pool, random = Pool(file, lambda line: line["name"]), np.random.default_rng(0)
    assert pool.draw(3, random) == []
    added(pool, "a", "b", "c")
    assert pool.draw(0, random) == []
    drawn = pool.draw(3000, random)
    assert all(abs(drawn.count(name) - 1000) < 120 for name in "abc")


def test_a_pool_is_a_file_of_its_own(file, tmp_path):
    other = tmp_path / "other.jsonl"
    added(Pool(other), "a")
    before = other.read_bytes()
    file.symlink_to(other)
    with pytest.raises(PoolError, match=r"cannot open .*: it is a link"):
        Pool(file).restore(0)
    assert other.read_bytes() == before
