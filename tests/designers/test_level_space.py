"""A Level class as a flat list of choices: every field, the original's value first, and nothing that is no level."""

from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import Field

from envgen.designers.designer import to_overrides
from envgen.designers.level_space import int_bounds, setting_values, unflatten
from envgen.settings import Settings
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.world import Level


class Near(Settings):
    door: bool = True
    cows: int = Field(default=1, ge=0, le=3)


class Toy(Level):
    light: Literal["none", "original", "bright"] = "original"
    near: Near = Near()
    width: int = Field(default=10, ge=1, le=10)
    length: int = Field(default=500, ge=1, lt=1001)


def test_every_field_is_named_with_its_values_the_originals_first():
    space = setting_values(Toy)
    assert list(space) == ["light", "near.door", "near.cows", "width", "length"]
    assert space["light"] == ("original", "none", "bright")
    assert space["near.door"] == (True, False)
    assert space["near.cows"] == (1, 0, 2, 3)
    assert space["width"] == (10, *range(1, 10))


def test_of_a_long_range_ten_values_are_taken_evenly_up_to_the_greatest():
    original, *others = setting_values(Toy)["length"]
    assert original == 500
    assert others == [101, 201, 301, 401, 600, 700, 800, 900, 1000]  # the tenth is the original itself
    assert setting_values(CrafterLevel)["time_of_day"] == (0, 30, 60, 90, 120, 150, 179, 209, 239, 269, 299)


@pytest.mark.parametrize("Family", [Toy, CrafterLevel])
def test_each_choice_alone_is_a_level_that_changes_that_and_nothing_else(Family):
    for name, (original, *others) in setting_values(Family).items():
        assert len({original, *others}) == 1 + len(others) > 1
        assert to_overrides(unflatten({name: original}), Family) == {}
        for value in others:
            assert to_overrides(unflatten({name: value}), Family) == unflatten({name: value})


def test_crafters_settings_are_all_there():
    space = setting_values(CrafterLevel)
    assert len(space) == 12 + 6 + 12 + 4 + 2
    assert all(space[f"inventory.{item}"] == tuple(range(10)) for item in ("wood", "diamond"))


def test_values_by_dotted_name_become_nested_settings():
    assert unflatten({}) == {}
    assert unflatten({"near.cows": 2, "light": "none", "near.door": False, "a.b.c": 1}) == {
        "near": {"cows": 2, "door": False}, "light": "none", "a": {"b": {"c": 1}},
    }  # fmt: skip


def test_a_whole_number_may_be_bounded_in_any_way():
    class Bounded(Level):
        one: Annotated[int, Gt(0), Le(5)] = 1
        other: Annotated[int, Ge(-2), Lt(3)] = 0

    assert [int_bounds(field) for field in Bounded.model_fields.values()] == [(1, 5), (-2, 2)]
    assert setting_values(Bounded)["other"] == (0, -2, -1, 1, 2)


@pytest.mark.parametrize("kind", [int, str, float, Annotated[int, Ge(0)], Annotated[float, Ge(0), Le(1)]])
def test_a_field_whose_values_cannot_be_counted_is_refused(kind):
    Open = type("Open", (Level,), {"__annotations__": {"field": kind}, "field": 0})
    with pytest.raises(TypeError, match="must be a choice of words, a bool or a bounded int"):
        setting_values(Open)
