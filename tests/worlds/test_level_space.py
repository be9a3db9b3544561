"""The settings of a Level class as a flat space of values."""

from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt
from line_world import LineLevel, LineWorld
from pydantic import Field, model_validator

from envgen.settings import Settings, flatten, unflatten
from envgen.worlds.check_world import ContractError, check_world
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.level_space import number_bounds, sampled_level, setting_values
from envgen.worlds.world import Level, LevelError


class Near(Settings):
    door: bool = True
    cows: int = Field(default=1, ge=0, le=3)


class ToyLevel(Level):
    light: Literal["none", "original", "bright"] = "original"
    near: Near = Near()
    width: int = Field(default=10, ge=1, le=10)
    length: int = Field(default=500, ge=1, lt=1001)
    done: tuple[Literal["climb", "fly", "swim"], ...] = ("climb",)


def test_every_setting_has_its_values_with_the_originals_first():
    space = setting_values(ToyLevel)
    assert list(space) == ["light", "near.door", "near.cows", "width", "length", "done"]
    assert space["done"] == (("climb",), ())
    assert space["light"] == ("original", "none", "bright")
    assert space["near.door"] == (True, False)
    assert space["near.cows"] == (1, 0, 2, 3)
    assert space["width"] == (10, *range(1, 10))


def test_a_long_range_is_sampled_evenly_up_to_its_upper_bound():
    original, *others = setting_values(ToyLevel)["length"]
    assert original == 500
    assert others == [101, 201, 301, 401, 600, 700, 800, 900, 1000]  # the tenth is the original itself
    assert setting_values(CrafterLevel)["time_of_day"] == (0, 30, 60, 90, 120, 150, 179, 209, 239, 269, 299)


@pytest.mark.parametrize("level_type", [ToyLevel, CrafterLevel])
def test_each_value_alone_is_a_level_with_that_override(level_type):
    for name, (original, *others) in setting_values(level_type).items():
        assert len({original, *others}) == 1 + len(others) > 1
        assert level_type.parse(unflatten({name: original})).to_overrides() == {}
        for value in others:
            expected = unflatten({name: list(value) if isinstance(value, tuple) else value})  # as JSON data
            assert level_type.parse(unflatten({name: value})).to_overrides() == expected


def test_crafter_has_all_its_settings():
    space = setting_values(CrafterLevel)
    assert len(space) == 13 + 9 + 12 + 4 + 3
    assert all(space[f"inventory.{item}"] == tuple(range(10)) for item in ("wood", "diamond"))


def test_a_list_is_unique_and_in_the_order_of_its_options():
    level = ToyLevel.parse({"done": ["Swim", "climb", "swim"]})
    assert level.done == ("climb", "swim")
    assert level == ToyLevel(done=("swim", "climb"))
    assert ToyLevel.parse(level.to_overrides()) == level
    for wrong, message in ((["fligh"], "did you mean 'fly'"), ([1], "done"), ("fly", "done"), ([["fly"]], "done")):
        with pytest.raises(LevelError, match=message):
            ToyLevel.parse({"done": wrong})


def test_dotted_names_become_nested_settings_and_back():
    assert unflatten({}) == {}
    flat = {"near.cows": 2, "light": "none", "near.door": False, "a.b.c": 1}
    nested = {"near": {"cows": 2, "door": False}, "light": "none", "a": {"b": {"c": 1}}}
    assert unflatten(flat) == nested
    assert flatten(nested) == flat


def test_an_integer_may_be_bounded_in_any_way():
    class Bounded(Level):
        small: Annotated[int, Gt(0), Le(5)] = 1
        signed: Annotated[int, Ge(-2), Lt(3)] = 0
        share: Annotated[float, Ge(0), Le(1)] = 0.5

    assert [number_bounds(field) for field in Bounded.model_fields.values()] == [(1, 5), (-2, 2), (0, 1)]
    assert setting_values(Bounded)["share"][:3] == (0.5, 0.0, 0.1111)
    assert setting_values(Bounded)["signed"] == (0, -2, -1, 1, 2)


@pytest.mark.parametrize("annotation", [int, str, float, Annotated[int, Ge(0)], Annotated[float, Gt(0), Le(1)]])
def test_a_field_without_countable_values_is_refused(annotation):
    Unbounded = type("Unbounded", (Level,), {"__annotations__": {"field": annotation}, "field": 0})
    with pytest.raises(
        LevelError,
        match=r"the setting field must be a Literal, a tuple of .*, an int with both bounds or a float with ge and le",
    ):
        setting_values(Unbounded)


@pytest.mark.parametrize(("low", "high"), [(1.62512, 9.87654), (-0.66666, 0.66666)])
def test_values_of_floats_stay_within_their_bounds(low, high):
    class FloatLevel(Level):
        slope: Annotated[float, Field(ge=low, le=high)] = high
        """How steep it is."""

    for value in setting_values(FloatLevel)["slope"]:
        assert FloatLevel.parse({"slope": value}).slope == value


def test_settings_of_other_types_are_named():
    class TextLevel(Level):
        title: str = ""
        """The title."""

    with pytest.raises(LevelError, match="the setting title must be a Literal"):
        setting_values(TextLevel)


class DoorLevel(LineLevel):
    locked: bool = False
    """The door at the end is locked."""
    has_key: bool = True
    """There is a key."""

    @model_validator(mode="after")
    def _check(self):
        if self.locked and not self.has_key:
            raise ValueError("a locked door needs a key")
        return self


class LockableLevel(DoorLevel):
    @classmethod
    def parse_sampled(cls, settings):
        return cls.parse({**settings, "has_key": True} if settings.get("locked") else settings)


def test_samples_of_settings_that_contradict_each_other_are_explained():
    sample = {"locked": True, "has_key": False}
    with pytest.raises(LevelError, match=r"DoorLevel.parse_sampled refuses .* \(a locked door needs a key\); "):
        sampled_level(DoorLevel, sample)
    assert sampled_level(LockableLevel, sample) == LockableLevel(locked=True)


def test_check_world_samples_levels():
    class Doors(LineWorld):
        Level = DoorLevel

    class LockableDoors(LineWorld):
        Level = LockableLevel

    with pytest.raises(ContractError) as error:
        check_world(Doors())
    assert error.value.violations == [
        "Level raised LevelError: DoorLevel.parse_sampled refuses a sample of settings (a locked door needs a key); "
        "override it so that it makes a valid level of every sample"
    ]
    check_world(LockableDoors())
