"""The settings of a Level class and the values that designers choose from."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from envgen.settings import flatten, list_options, unflatten

from .world import Level, LevelError

MAX_VALUES = 10  # of a number; longer ranges of integers are sampled evenly, including the upper bound
L = TypeVar("L", bound=Level)


def setting_values(level_type: type[BaseModel]) -> dict[str, tuple[Any, ...]]:
    """The values that each setting can take, by dotted name, with the original's value first.

    Raises LevelError for a setting of another type than designers support.
    """
    space: dict[str, tuple[Any, ...]] = {}
    for name, field in setting_fields(level_type).items():
        default = field.get_default(call_default_factory=True)
        try:
            space[name] = (default, *(value for value in _field_values(field) if value != default))
        except TypeError as error:
            raise LevelError(f"the setting {name} {error}") from None
    return space


def setting_fields(level_type: type[BaseModel], prefix: str = "") -> dict[str, FieldInfo]:
    """The fields of a Level class and of the groups in it, by dotted name."""
    fields: dict[str, FieldInfo] = {}
    for name, field in level_type.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            fields |= setting_fields(annotation, f"{prefix}{name}.")
        else:
            fields[prefix + name] = field
    return fields


def level_values(level: Level) -> dict[str, Any]:
    """The settings of a level that differ from the original, by dotted name, as `setting_values` has them."""
    flat = flatten(level.to_overrides())
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in flat.items()
    }  # JSON has no tuples


def random_level(
    level_type: type[L], space: Mapping[str, tuple[Any, ...]], keep_prob: float, rng: np.random.Generator
) -> L:
    """A level whose settings keep their original value with probability `keep_prob` and are drawn uniformly otherwise.

    Args:
        space: The values of each setting, from `setting_values`.
    """
    changes = {name: values[rng.integers(len(values))]
               for name, values in space.items() if rng.random() >= keep_prob}  # fmt: skip
    return sampled_level(level_type, changes)


def sampled_level(level_type: type[L], values: Mapping[str, Any]) -> L:
    """The level of values that were sampled for each setting, by dotted name."""
    try:
        return level_type.parse_sampled(unflatten(values))
    except LevelError as error:
        raise LevelError(
            f"{level_type.__name__}.parse_sampled refuses a sample of settings ({error}); override it so that it makes "
            "a valid level of every sample"
        ) from None


def _field_values(field: FieldInfo) -> list[Any]:
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if list_options(annotation):
        return [()]  # in addition to the default; there are too many other lists
    if annotation is bool:
        return [False, True]
    if is_text(annotation):
        return []  # only its author can choose it
    low, high = number_bounds(field)
    if field.annotation is float:
        return [min(max(float(f"{value:.4g}"), low), high) for value in np.linspace(low, high, MAX_VALUES)]
    if high - low < MAX_VALUES:
        return list(range(int(low), int(high) + 1))
    return [round(low + (k + 1) * (high - low) / MAX_VALUES) for k in range(MAX_VALUES)]


def is_text(annotation: Any) -> bool:
    """Whether a setting is text that its author is free to write, such as the rows of a map: `tuple[str, ...]`."""
    return get_origin(annotation) is tuple and get_args(annotation) == (str, Ellipsis)


def number_bounds(field: FieldInfo) -> tuple[float, float]:
    """The smallest and largest value of a field that is an integer (then these are integers too) or a float."""
    low = high = None
    is_int = field.annotation is int
    for constraint in field.metadata:
        match constraint:
            case Ge(ge=limit):
                low = limit
            case Gt(gt=limit):
                low = limit + 1 if is_int else None  # pyright: ignore[reportOperatorIssue]
            case Le(le=limit):
                high = limit
            case Lt(lt=limit):
                high = limit - 1 if is_int else None  # pyright: ignore[reportOperatorIssue]
    valid = int if is_int else (int, float)
    if field.annotation not in (int, float) or not isinstance(low, valid) or not isinstance(high, valid):
        raise TypeError(
            "must be a Literal, a tuple of a Literal's values, a tuple[str, ...], a bool, an int with both bounds or a "
            f"float with ge and le, not {field!r}"
        )
    return low, high
