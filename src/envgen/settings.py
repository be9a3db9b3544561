"""The base class of all settings, and messages that explain what is wrong with one."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

MAX_QUOTED_CHARS = 80  # of an unknown word
INTEGER = TypeAdapter(int)


def nearest(word: str, words: Sequence[str]) -> str:
    """`'tress' is not one of ..., did you mean 'trees'?`"""
    word = word[:MAX_QUOTED_CHARS]
    close = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{word!r} is not one of {', '.join(words)}{hint}"


class Settings(BaseModel):
    """A frozen group of settings that refuses what it does not know, with the nearest word it does know.

    Words may be written in any case and with spaces, hyphens or underscores, numbers also as text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _normalize_input(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        clean = {}
        for key, value in data.items():
            if key not in fields:
                unknown = key if isinstance(key, str) else _format_value(key)
                raise ValueError(f"{cls.__name__}: setting {nearest(unknown, list(fields))}")
            kind = fields[key].annotation
            if get_origin(kind) is Literal and isinstance(value, str):
                value = _parse_option(key, value, get_args(kind))
            clean[key] = value
        return clean


def _parse_option(name: str, text: str, options: Sequence[Any]) -> Any:
    """The option that a text stands for. Where some options are not words, an unknown text is left for pydantic to
    refuse."""
    words = {normalize_word(option): option for option in options if isinstance(option, str)}
    if normalize_word(text) in words:
        return words[normalize_word(text)]
    if all(isinstance(option, str) for option in options):
        raise ValueError(f"{name}: {nearest(text, list(words.values()))}")
    try:
        return INTEGER.validate_python(text)
    except ValidationError:
        return text


def normalize_word(word: str) -> str:
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split())


def explain(error: ValidationError) -> str:
    """What is wrong with some settings, in a sentence each."""
    return "; ".join(_describe_error(problem) for problem in error.errors())


def _describe_error(problem: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    got = "" if problem["type"] == "value_error" else f" (got {_format_value(problem['input'])})"
    return f"{place}: {message}{got}" if place else f"{message}{got}"


def _format_value(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # Python refuses to print very long integers and very deep lists
        return f"{type(value).__name__}, too large to show"
