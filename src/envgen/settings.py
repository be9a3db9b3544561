"""The base class of all settings, and error messages for invalid ones."""

import difflib
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, SupportsIndex, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from .text import plural

PositiveInt = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]

MAX_QUOTED_CHARS = 80  # of an unknown name or option
MAX_ERRORS_SHOWN = 20  # of settings, a list of levels among them
INTEGER = TypeAdapter(int)


def format_choice_error(value: Any, choices: Sequence[str]) -> str:
    """The error message for an unknown choice: `'tress' is not one of ...; did you mean 'trees'?`"""
    if not isinstance(value, str):
        return f"{format_value(value)} is not one of {', '.join(choices)}"
    value = value[:MAX_QUOTED_CHARS]
    matches = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
    hint = f"; did you mean {matches[0]!r}?" if matches else ""
    return f"{value!r} is not one of {', '.join(choices)}{hint}"


class FrozenModel(BaseModel):
    """A model that does not change and has no other fields than its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Settings(FrozenModel):
    """A frozen group of settings. An unknown name or option is an error that suggests the closest valid one.

    Options match regardless of case, with spaces, hyphens or underscores between words. Numbers may be strings.
    """

    model_config = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)
    LISTS_ARE_SETS: ClassVar[bool] = True
    """Whether lists of options are unique and in the order of the options, so that equal ones compare equal."""

    @model_validator(mode="before")
    @classmethod
    def _normalize_input(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        clean = {}
        for key, value in data.items():
            if key not in fields:
                unknown = key if isinstance(key, str) else format_value(key)
                raise ValueError(f"{cls.__name__}: setting {format_choice_error(unknown, list(fields))}")
            annotation = fields[key].annotation
            if get_origin(annotation) is Literal and isinstance(value, str):
                value = _parse_option(key, value, get_args(annotation))
            elif (options := list_options(annotation)) and isinstance(value, list | tuple):
                value = [_parse_option(key, item, options) if isinstance(item, str) else item for item in value]
                if cls.LISTS_ARE_SETS and all(item in options for item in value):
                    value = [option for option in options if option in value]
            clean[key] = value
        return clean


def list_options(annotation: Any) -> tuple[Any, ...]:
    """The options of a setting that is a list of them, `tuple[Literal[...], ...]`; empty for other settings."""
    args = get_args(annotation)
    is_list = get_origin(annotation) is tuple and len(args) == 2 and args[1] is Ellipsis
    return get_args(args[0]) if is_list and get_origin(args[0]) is Literal else ()


def _parse_option(name: str, text: str, options: Sequence[Any]) -> Any:
    """The option that a string names. If some options are not strings, pydantic rejects an unknown string later."""
    if text in options:  # the usual case
        return text
    words = {normalize_word(option): option for option in options if isinstance(option, str)}
    if normalize_word(text) in words:
        return words[normalize_word(text)]
    if all(isinstance(option, str) for option in options):
        raise ValueError(f"{name}: {format_choice_error(text, list(words.values()))}")
    try:
        return INTEGER.validate_python(text)
    except ValidationError:
        return text


def normalize_word(word: str) -> str:
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split())


def format_validation_error(
    error: ValidationError, prefix: str = "", describe: Callable[[Mapping[str, Any]], str] | None = None
) -> str:
    """The first errors in some settings as one line.

    Args:
        error: What pydantic found.
        prefix: Comes before the name of each setting.
        describe: What to say instead about one of the errors, given its details; "" for what is said otherwise.
    """
    errors = error.errors()
    shown = [
        (describe and describe(details)) or _describe_error(details, prefix) for details in errors[:MAX_ERRORS_SHOWN]
    ]
    if len(errors) > len(shown):
        shown.append(f"and {plural(len(errors) - len(shown), 'more error')}")
    return "; ".join(shown)


def _describe_error(details: Mapping[str, Any], prefix: str) -> str:
    location = prefix * bool(details["loc"]) + ".".join(str(part) for part in details["loc"])
    message = details["msg"].removeprefix("Value error, ")
    got = "" if details["type"] == "value_error" else f" (got {format_value(details['input'])})"
    return f"{location}: {message}{got}" if location else f"{message}{got}"


def format_value(value: Any) -> str:
    """The value of a setting as Python writes it, cut to a length that fits into a message."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # Python refuses to print very long integers and very deep lists
        return f"{type(value).__name__}, too large to show"


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted names: {"plan": {"cycles": 4}} -> {"plan.cycles": 4}."""
    if not isinstance(value, Mapping) or (prefix and not value):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{name}" if prefix else str(name))
    return flat


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `flatten`: {"near.cows": 2} -> {"near": {"cows": 2}}."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = name.split(".")
        group = nested
        for part in groups:
            group = group.setdefault(part, {})
        group[last] = value
    return nested


def to_integer(name: str, value: Any, error: type[Exception], minimum: int | None = None) -> int:
    """A value as an int, also if it is one of NumPy.

    Raises `error` for booleans, for whatever is not an integer, and for integers below the minimum.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise error(f"{name} must be an integer, not {value!r}")
    number = operator.index(value)
    if minimum is not None and number < minimum:
        raise error(f"{name} must be at least {minimum}, not {number}")
    return number


def to_number(name: str, value: Any, error: type[Exception]) -> float:
    """A value as a float, also if it is one of NumPy. Raises `error` for booleans and for whatever is not a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise error(f"{name} must be a number, not {value!r:.80}")
    return float(value)


def to_path(name: str, value: Any, error: type[Exception]) -> Path:
    """A value as a path, in which `~` is the home directory. Raises `error` for whatever is not a path."""
    if not isinstance(value, str | os.PathLike):
        raise error(f"{name} must be a path, not {value!r:.80}")
    return Path(os.path.expanduser(value))


def to_mapping(name: str, value: Any, error: type[Exception]) -> dict[str, Any]:
    """A copy of a mapping from names; empty for None. Raises `error` for whatever is not such a mapping."""
    if not isinstance(value, Mapping | None):
        raise error(f"{name} must be a mapping, not {value!r:.80}")
    for key in value or ():
        if not isinstance(key, str):
            raise error(f"the keys of {name} must be names, not {key!r:.80}")
    return dict(value or {})


def to_changes(name: str, value: Any, error: type[Exception]) -> dict[str, Any]:
    """The fields of some settings that were set, or a copy of a mapping from names."""
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else to_mapping(name, value, error)


def check_seconds(name: str, value: Any, error: type[Exception]) -> None:
    """Raise `error` if a value is not a number of seconds, 0 or greater."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 0:
        raise error(f"{name} must be a number of seconds, 0 or greater, not {value!r:.80}")
