"""The settings of a Level class as one flat space of values, for sampling, learned policies and measurements."""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

MAX_VALUES = 10  # of an integer; longer ranges are sampled evenly, including the upper bound


def setting_values(Level: type[BaseModel], prefix: str = "") -> dict[str, tuple[Any, ...]]:
    """The values that each setting can take, by dotted name, with the original's value first."""
    space: dict[str, tuple[Any, ...]] = {}
    for name, field in Level.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            space |= setting_values(annotation, f"{prefix}{name}.")
        else:
            default = field.get_default(call_default_factory=True)
            space[prefix + name] = (default, *(value for value in _field_values(field) if value != default))
    return space


def _field_values(field: FieldInfo) -> list[Any]:
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return [False, True]
    low, high = int_bounds(field)
    if high - low < MAX_VALUES:
        return list(range(low, high + 1))
    return [round(low + (k + 1) * (high - low) / MAX_VALUES) for k in range(MAX_VALUES)]


def int_bounds(field: FieldInfo) -> tuple[int, int]:
    """The smallest and largest value of an integer field."""
    low = high = None
    for constraint in field.metadata:
        match constraint:
            case Ge(ge=limit):
                low = limit
            case Gt(gt=limit):
                low = limit + 1  # pyright: ignore[reportOperatorIssue]
            case Le(le=limit):
                high = limit
            case Lt(lt=limit):
                high = limit - 1  # pyright: ignore[reportOperatorIssue]
    if field.annotation is not int or not isinstance(low, int) or not isinstance(high, int):
        raise TypeError(f"a level's field must be a Literal, a bool or an int with both bounds, not {field!r}")
    return low, high


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nest values by dotted name: {"near.cows": 2} becomes {"near": {"cows": 2}}."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = name.split(".")
        group = nested
        for part in groups:
            group = group.setdefault(part, {})
        group[last] = value
    return nested


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The inverse of `unflatten`."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
