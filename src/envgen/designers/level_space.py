"""The fields of a Level as one flat list of choices, for random draws, learned policies and measurements."""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

MAX_VALUES = 10  # values of a number; of longer ranges so many are taken, evenly up to the greatest


def setting_values(Level: type[BaseModel], prefix: str = "") -> dict[str, tuple[Any, ...]]:
    """By dotted name, the values each field can take, the original's first."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, field in Level.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= setting_values(kind, f"{prefix}{name}.")
        else:
            default = field.get_default(call_default_factory=True)
            found[prefix + name] = (default, *(value for value in _values(field) if value != default))
    return found


def _values(field: FieldInfo) -> list[Any]:
    kind = field.annotation
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if kind is bool:
        return [False, True]
    low, high = int_bounds(field)
    if high - low < MAX_VALUES:
        return list(range(low, high + 1))
    return [round(low + (k + 1) * (high - low) / MAX_VALUES) for k in range(MAX_VALUES)]


def int_bounds(field: FieldInfo) -> tuple[int, int]:
    """The least and greatest value of a whole number."""
    low = high = None
    for mark in field.metadata:
        match mark:
            case Ge(ge=limit):
                low = limit
            case Gt(gt=limit):
                low = limit + 1  # pyright: ignore[reportOperatorIssue]
            case Le(le=limit):
                high = limit
            case Lt(lt=limit):
                high = limit - 1  # pyright: ignore[reportOperatorIssue]
    if field.annotation is not int or not isinstance(low, int) or not isinstance(high, int):
        raise TypeError(f"a level's field must be a choice of words, a bool or a bounded int, not {field!r}")
    return low, high


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name as a level's nested settings."""
    level: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = name.split(".")
        inside = level
        for group in groups:
            inside = inside.setdefault(group, {})
        inside[last] = value
    return level
