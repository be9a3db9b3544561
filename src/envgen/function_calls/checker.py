"""Whether calls are the expected ones, by the rules of BFCL.

The data lists the acceptable values of every parameter; `""` among them means that it may be left out. Texts are
compared ignoring case, spaces and some punctuation. Parallel calls may come in any order. Where the official
checker cannot accept any answer, or raises an exception, this one follows what the data means; see
benchmarks/bfcl_checker.py.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .calls import Call, Language
from .foreign import JAVA_TYPES, JAVASCRIPT_TYPES, read_java, read_javascript

PYTHON_TYPES: dict[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "any": str,
}  # fmt: skip
TYPES: dict[Language, dict[str, type]] = {
    "python": PYTHON_TYPES, "java": JAVA_TYPES, "javascript": JAVASCRIPT_TYPES
}  # fmt: skip
LISTS = ("array", "tuple", "Array", "ArrayList")
PUNCTUATION = re.compile(r"[ ,./\-_*^]")
Expected = Mapping[str, Mapping[str, Sequence[Any]]]  # one call: {function: {parameter: acceptable values}}


class Mismatch(NamedTuple):
    error: str  # the kind, in a few words
    details: str


def check_calls(
    functions: Sequence[Mapping[str, Any]], calls: Sequence[Call], expected: Sequence[Expected], language: Language
) -> Mismatch | None:
    """The first difference between calls and the expected ones; None if there is none."""
    if len(calls) != len(expected):
        return Mismatch("wrong number of calls", f"{len(calls)} calls instead of {len(expected)}")
    remaining = list(calls)
    for expected_call in expected:
        ((name, _),) = expected_call.items()
        function = next((function for function in functions if function["name"] == name), None)
        if function is None:
            return Mismatch("no such function", f"the item has no function {name}")
        mismatches = [check_call(function, call, expected_call, language) for call in remaining]
        if None not in mismatches:
            if len(expected) == 1:
                return mismatches[0]
            return Mismatch("no matching call", f"no call matches the expected call of {name}")
        remaining.pop(mismatches.index(None))
    return None


def check_call(function: Mapping[str, Any], call: Call, expected: Expected, language: Language) -> Mismatch | None:
    """The first difference between a call and the expected one of this function."""
    ((name, acceptable),) = expected.items()
    if call.name != name:
        return Mismatch("wrong function", f"{call.name[:80]!r} instead of {name!r}")
    properties = function["parameters"]["properties"]
    for parameter in function["parameters"].get("required", ()):
        if parameter in acceptable and parameter not in call.arguments:
            return Mismatch("missing argument", f"{parameter!r} is required")
    for parameter, value in call.arguments.items():
        if parameter not in properties or parameter not in acceptable:
            return Mismatch("unexpected argument", f"{parameter[:80]!r}")
        if mismatch := _check_argument(parameter, value, acceptable[parameter], properties[parameter], language):
            return mismatch
    for parameter, values in acceptable.items():
        if parameter in properties and parameter not in call.arguments and "" not in values:
            return Mismatch("missing argument", f"{parameter!r} is expected")
    return None


def _check_argument(
    parameter: str, value: Any, acceptable: Sequence[Any], schema: Mapping[str, Any], language: Language
) -> Mismatch | None:
    kind = schema["type"]
    element_kind = schema.get("items", {}).get("type") if kind in LISTS else None
    types = TYPES[language]
    expected_type = types.get(kind)
    if expected_type is None:
        return Mismatch("unknown type", f"the type {kind!r} of {parameter!r} is not supported")
    if language != "python":
        if not isinstance(value, str):
            return _wrong_type(parameter, value, "source text")
        value = (read_java if language == "java" else read_javascript)(value, kind, element_kind)
    if kind == "tuple" and isinstance(value, tuple):
        value = list(value)
    if language == "python" and kind == "float" and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            return _wrong_type(parameter, value, kind)
    element_type = None if element_kind is None else types.get(element_kind, str)
    if language != "python" and element_kind == "any":
        element_type = None
    if not acceptable and expected_type is list:  # the only acceptable list is an empty one
        acceptable = [[]]
    example_type = _first_type(acceptable)
    if type(value) is expected_type:
        if element_type is not None and not _elements_fit(value, acceptable, element_type):
            return _wrong_type(parameter, value, f"{kind} of {element_kind}")
        is_variable = example_type not in (None, expected_type)
    elif type(value) is example_type:
        is_variable = True
    else:
        return _wrong_type(parameter, value, kind)
    if _is_acceptable(value, acceptable, expected_type, element_type, is_variable):
        return None
    return Mismatch("wrong value", f"{parameter!r} is {_quote(value)}; acceptable: {_quote(list(acceptable))}")


def _first_type(values: Sequence[Any]) -> type | None:
    return next((type(value) for value in values if value != ""), None)


def _elements_fit(value: Sequence[Any], acceptable: Sequence[Any], element_type: type) -> bool:
    """Whether all elements have the expected type, or that of the elements of an acceptable list."""
    return any(
        not isinstance(option, list) or all(type(element) in (element_type, _first_type(option)) for element in value)
        for option in acceptable
    )


def _is_acceptable(
    value: Any, acceptable: Sequence[Any], expected_type: type, element_type: type | None, is_variable: bool
) -> bool:
    if is_variable:
        return value in acceptable
    if expected_type is dict:
        return any(_dict_fits(value, option) for option in acceptable if option != "")
    if expected_type is list and element_type is dict:
        return any(
            len(value) == len(option) and all(_dict_fits(*pair) for pair in zip(value, option, strict=True))
            for option in acceptable
            if isinstance(option, list | str)
        )
    if expected_type is str:
        return normalize(value) in [normalize(option) for option in acceptable if isinstance(option, str)]
    if expected_type is list:
        normalized = [_normalize_if_text(element) for element in value]
        lists = [list(option) for option in acceptable if isinstance(option, list | str)]
        return normalized in [[_normalize_if_text(element) for element in option] for option in lists]
    return value in acceptable


def _dict_fits(value: Any, acceptable: Any) -> bool:
    if not (isinstance(value, dict) and isinstance(acceptable, dict)):
        return False
    for key, element in value.items():
        if key not in acceptable:
            return False
        options = acceptable[key]
        options = options if isinstance(options, list) else [options]
        if _normalize_if_text(element) not in [_normalize_if_text(option) for option in options]:
            return False
    return all(
        key in value or (isinstance(options, list | str) and "" in options) for key, options in acceptable.items()
    )


def normalize(text: str) -> str:
    """A text in lower case, with spaces and some punctuation removed."""
    return PUNCTUATION.sub("", text).lower().replace("'", '"')


def _normalize_if_text(value: Any) -> Any:
    return normalize(value) if isinstance(value, str) else value


def _wrong_type(parameter: str, value: Any, kind: str) -> Mismatch:
    return Mismatch("wrong type", f"{parameter!r} is {_quote(value)}, which is not of the type {kind}")


def _quote(value: Any) -> str:
    try:
        return f"{value!r:.120}"
    except (ValueError, RecursionError):  # very long integers, very deep lists
        return f"a {type(value).__name__}"
