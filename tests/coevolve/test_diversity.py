"""The numbers that would show an environment that says the same again and again."""

import pytest

from envgen.coevolve.diversity import diversity


def test_copies_are_neither_distinct_nor_spread():
    found = diversity(["a b c d"] * 4, [{"steps": "1", "style": "plain"}] * 4)
    assert found == {"distinct": 0.25, "repeats": 1.0, "entropy": {"steps": 0.0, "style": 0.0}}


def test_what_no_two_say_is_distinct_and_spread():
    found = diversity(["a b c", "d e f", "g h i", "j k l"], [{"steps": k} for k in "1234"])
    assert found == {"distinct": 1.0, "repeats": 0.0, "entropy": {"steps": 2.0}}


def test_half_and_half_is_one_bit_whatever_became_of_other_texts():
    found = diversity(["x", "y", "no spec"], [{"steps": "1"}, {"steps": "2"}])
    assert found["entropy"] == {"steps": 1.0}
    assert found["distinct"] == 1.0
    assert diversity(["x"] * 3, [{"a": "1"}, {"a": "1"}, {"a": "2"}])["entropy"]["a"] == pytest.approx(0.918)


def test_a_field_that_not_all_have_is_measured_where_it_is():
    assert diversity(["x", "y"], [{"a": "1"}, {"a": "2", "b": "1"}])["entropy"] == {"a": 1.0, "b": 0.0}


def test_of_nothing_nothing_is_said():
    assert diversity([], []) == {"distinct": 0.0, "repeats": 0.0, "entropy": {}}
    assert diversity(["no spec"], [])["entropy"] == {}
