"""Whatever a level is parsed from, it is a level or a LevelError about what is wrong."""

from contextlib import suppress
from typing import Any, Literal

import pytest

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


@pytest.mark.parametrize("family", [CrafterLevel, HeistLevel, Toy])
def test_any_object_is_a_level_or_a_level_error(family):
    tried = [{name: value} for name in family.model_fields for value in VALUES]
    tried += [{key: 1} for key in (5, None, 10**5000, deep, (1, "a"), float("nan"), b"mode", "x" * 10_000, "\ud800")]
    tried += [5, [], b"{}", "", "[", "[" * 100_000, '{"length": %s}' % ("9" * 5000), "\ud800", *VALUES[:6]]
    for data in tried:
        with suppress(LevelError):
            assert isinstance(family.parse(data), family)


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ({"signed": "5"}, 5),
        ({"signed": "-5"}, -5),
        ({"signed": " 0 "}, 0),
        ({"mixed": "AUTO"}, "auto"),
        ({"mixed": "Very High"}, "very-high"),
        ({"mixed": "2"}, 2),
    ],
)
def test_an_option_may_be_written_as_text(data, read):
    (name,) = data
    assert getattr(Toy.parse(data), name) == read


@pytest.mark.parametrize(
    ("data", "says"),
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
def test_what_is_no_option_is_told_with_the_right_ones(data, says):
    with pytest.raises(LevelError) as error:
        Toy.parse(data)
    assert says in str(error.value)
