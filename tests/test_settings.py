"""Parsing settings: any input gives valid settings or an error that names the problem."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from envgen.curriculum.plan import PracticeSettings
from envgen.settings import check_seconds, format_choice_error, format_validation_error, to_number, to_path
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.world import Level, LevelError


class Toy(Level):
    signed: Literal[-5, 0, 5] = 0
    mixed: Literal["auto", "very-high", 1, 2] = "auto"


def deep(depth: int) -> list:
    nested: list = []
    for _ in range(depth):
        nested = [nested]
    return nested


LOOP: list = []
LOOP.append(LOOP)
VALUES: list[Any] = [
    10**5000, -(10**5000), float("nan"), float("inf"), deep(10), deep(5000), LOOP, {1, 2}, b"5", object, 5j, None, True,
    "\ud800", "", "9" * 5000, {5: 5}, {None: 1}, {10**5000: 1}, {("a", 1): 1}, {float("nan"): 1}, Toy(),
]  # fmt: skip


@pytest.mark.parametrize("Kind", [CrafterLevel, HeistLevel, Toy])
def test_parse_returns_a_level_or_raises_level_error(Kind):
    inputs = [{name: value} for name in Kind.model_fields for value in VALUES]
    inputs += [{key: 1} for key in (5, None, 10**5000, deep, (1, "a"), float("nan"), b"mode", "x" * 10_000, "\ud800")]
    inputs += [5, [], b"{}", "", "[", "[" * 100_000, '{"length": %s}' % ("9" * 5000), "\ud800", *VALUES[:6]]
    for data in inputs:
        with suppress(LevelError):
            assert isinstance(Kind.parse(data), Kind)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"signed": "5"}, 5),
        ({"signed": "-5"}, -5),
        ({"signed": " 0 "}, 0),
        ({"mixed": "AUTO"}, "auto"),
        ({"mixed": "Very High"}, "very-high"),
        ({"mixed": "2"}, 2),
    ],
)
def test_options_may_be_given_as_text(data, expected):
    (name,) = data
    assert getattr(Toy.parse(data), name) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"signed": "6"}, "signed: Input should be -5, 0 or 5 (got 6)"),
        ({"signed": "five"}, "signed: Input should be -5, 0 or 5 (got 'five')"),
        ({"mixed": "atuo"}, "mixed: Input should be 'auto', 'very-high', 1 or 2 (got 'atuo')"),
        ({"signed": 10**5000}, "(got int, too large to show)"),
        ({"mixed": deep(5000)}, "(got list, too large to show)"),
        ({10**5000: 1}, "setting 'int, too large to show' is not one of signed, mixed"),
        ({"s" * 10_000: 1}, f"setting {'s' * 80!r} is not one of signed, mixed"),
    ],
)
def test_invalid_option_is_reported_with_the_valid_ones(data, message):
    with pytest.raises(LevelError) as error:
        Toy.parse(data)
    assert message in str(error.value)


def test_a_prefix_comes_before_the_name_of_each_setting():
    with pytest.raises(ValidationError) as error:
        PracticeSettings(share=2, num_snapshots=0)
    message = format_validation_error(error.value, "practice.")
    assert message.startswith("practice.share: ")
    assert "; practice.num_snapshots: " in message
    with pytest.raises(ValidationError) as error:
        PracticeSettings(shar=0.5)
    assert format_validation_error(error.value, "practice.").startswith("PracticeSettings: setting 'shar'")


def test_an_error_shows_the_first_of_many():
    with pytest.raises(ValidationError) as error:
        TypeAdapter(list[int]).validate_python(["a"] * 1025)
    message = format_validation_error(error.value)
    assert message.startswith("0: Input should be a valid integer")
    assert message.endswith("; and 1,005 more errors")
    assert message.count(";") == 20
    with pytest.raises(ValidationError) as error:
        TypeAdapter(list[int]).validate_python(["a"] * 21)
    assert format_validation_error(error.value).endswith("; and 1 more error")


def test_numbers_of_numpy_are_numbers():
    assert [to_number("speed", value, ValueError) for value in (np.float32(0.5), np.int64(2), 3)] == [0.5, 2, 3]
    for seconds in (0, 1.5, np.float32(1), np.int64(30)):
        check_seconds("save_every", seconds, ValueError)


@pytest.mark.parametrize("value", [None, "5", True, [1]])
def test_what_is_not_a_number_is_an_error_that_names_the_argument(value):
    with pytest.raises(ValueError, match="speed must be a number, not"):
        to_number("speed", value, ValueError)
    with pytest.raises(ValueError, match="save_every must be a number of seconds, 0 or greater, not"):
        check_seconds("save_every", value, ValueError)


def test_a_path_may_begin_with_the_home_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert to_path("folder", "~/runs", ValueError) == to_path("folder", Path("~/runs"), ValueError) == tmp_path / "runs"
    assert to_path("folder", "runs/~", ValueError) == Path("runs/~")


@pytest.mark.parametrize("value", [None, 5, ["out"], b"out"])
def test_what_is_not_a_path_is_an_error_that_names_the_argument(value):
    with pytest.raises(ValueError, match="folder must be a path, not"):
        to_path("folder", value, ValueError)


@pytest.mark.parametrize("value", [None, 3, ["quick"]])
def test_a_choice_that_is_not_a_string_is_reported_with_the_valid_ones(value):
    assert format_choice_error(value, ["paper", "quick"]) == f"{value!r} is not one of paper, quick"
