"""How often kinds of tasks succeed: told in tenths, forgotten slowly, and a guess for tasks not seen."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from envgen.coevolve.statistics import FADE, Statistics


def test_what_is_told_is_how_often_each_kind_succeeded_in_tenths():
    known = Statistics()
    assert known.told() == "nothing yet"
    known.add({"steps": "1", "style": "plain"}, 7, 8)
    known.add({"steps": "2", "style": "plain"}, 0, 8)
    known.add({"steps": "1", "style": "brief"}, 8, 8)
    assert known.told() == "steps 1:9 2:0, style brief:10 plain:4"
    assert known.rates()["steps"] == {"1": 15 / 16, "2": 0.0}


def test_what_was_is_forgotten_until_nothing_is_told_of_it():
    known = Statistics()
    known.add({"steps": "1"}, 8, 8)
    for _ in range(10):
        known.fade()
    known.add({"steps": "1"}, 0, 8)
    old = 8 * FADE**10
    assert known.rates()["steps"]["1"] == pytest.approx(old / (old + 8))
    known.add({"steps": "2"}, 4, 8)
    for _ in range(20):
        known.fade()
    assert known.told() == "steps 1:3"
    for _ in range(5):
        known.fade()
    assert known.told() == "nothing yet"


def test_without_knowing_anything_half_is_expected():
    assert Statistics().guess({"steps": "1"}) == 0.5


def test_a_guess_is_near_what_was_seen_and_moves_with_each_field():
    known = Statistics()
    for steps, style, hits in (("1", "plain", 90), ("1", "brief", 70), ("2", "plain", 40), ("2", "brief", 15)):
        known.add({"steps": steps, "style": style}, hits, 100)
    assert known.guess({"steps": "1", "style": "plain"}) == pytest.approx(0.9, abs=0.05)
    assert known.guess({"steps": "2", "style": "brief"}) == pytest.approx(0.15, abs=0.06)
    assert known.guess({"steps": "9", "style": "other"}) == pytest.approx(215 / 400, abs=0.01)  # that of all
    ordered = [known.guess({"steps": s, "style": t}) for s in "21" for t in ("brief", "plain")]
    assert ordered == sorted(ordered)


def test_little_is_believed_of_few():
    few, many = Statistics(), Statistics()
    for known, count in ((few, 1), (many, 100)):
        known.add({"steps": "1"}, 50, 100)
        known.add({"steps": "2"}, 0, count)
    assert many.guess({"steps": "2"}) < 0.1 < few.guess({"steps": "2"}) < 0.5


SEEN = some.lists(some.tuples(some.sampled_from("123"), some.sampled_from("ab"), some.integers(0, 8)), max_size=20)


@given(SEEN, SEEN)
def test_its_state_carries_over_exactly_through_a_checkpoint(before, after):
    def go_on(known, seen):
        for steps, style, hits in seen:
            known.add({"steps": steps, "style": style}, hits, 8)
            known.fade()
        return known

    first = go_on(Statistics(), before)
    second = Statistics()
    second.load(json.loads(json.dumps(first.state())))
    go_on(first, after), go_on(second, after)
    assert second.state() == first.state()
    assert second.told() == first.told()
    for steps in "123":
        assert second.guess({"steps": steps, "style": "a"}) == first.guess({"steps": steps, "style": "a"})
        assert 0 < first.guess({"steps": steps, "style": "a"}) < 1
