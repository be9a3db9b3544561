"""The values of arguments in Java and JavaScript, given as source text.

A text that is not a value of its type stays a text: it may be the name of a variable.
"""

import re
from typing import Any

from .calls import Call, CallError, split_top_level, unquote

MAX_CHARS = 20_000
INTEGER, LONG, BIGINT = re.compile(r"-?\d{1,300}"), re.compile(r"(-?\d{1,300})[lL]"), re.compile(r"(-?\d{1,300})n")
DOUBLE = re.compile(r"-?\d{1,300}(?:\.\d{1,300})?(?:[eE][+-]?\d{1,4})?")
FLOAT = re.compile(rf"({DOUBLE.pattern})[fF]")
DECIMAL = re.compile(r"-?\d{1,300}(?:\.\d{1,300})?")
JAVA_ARRAY = re.compile(r"new\s+[\w.<>]+\s*\[\s*\]\s*\{")
JAVA_LIST = re.compile(r"new\s+ArrayList\s*<[^<>(){}]*>\s*\(")
JAVA_MAP = re.compile(r"new\s+HashMap\s*<[^(){}]*>\s*\(\s*\)")
AS_LIST = re.compile(r"(?:Arrays\s*\.\s*asList|List\s*\.\s*of)\s*\(")
METHOD = re.compile(r"(add|put)\s*\(")
JS_ARRAY = re.compile(r"(?:\[|new\s+Array\s*\()")

JAVA_TYPES: dict[str, type] = {
    "byte": int, "short": int, "integer": int, "long": int, "float": float, "double": float, "boolean": bool,
    "char": str, "String": str, "any": str, "Array": list, "ArrayList": list, "HashMap": dict,
}  # fmt: skip
JAVASCRIPT_TYPES: dict[str, type] = {
    "String": str, "integer": int, "float": float, "Bigint": int, "Boolean": bool, "dict": dict, "array": list,
    "any": str,
}  # fmt: skip


def read_java(source: str, kind: str, element_kind: str | None = None) -> Any:
    """The value of a Java expression of this type; `element_kind` is the type of the elements of a list."""
    if len(source) > MAX_CHARS:
        return source
    try:
        match kind:
            case "Array":
                return _read_java_array(source.strip(), element_kind)
            case "ArrayList":
                return _read_java_list(source.strip(), element_kind)
            case "HashMap":
                return _read_java_map(source.strip())
            case _:
                return _read_java_scalar(source, kind)
    except CallError:
        return source


def _read_java_scalar(source: str, kind: str) -> Any:
    if kind in ("byte", "short", "integer") and INTEGER.fullmatch(source):
        return int(source)
    if kind == "long" and (match := LONG.fullmatch(source)):
        return int(match[1])
    if kind == "float" and (match := FLOAT.fullmatch(source)):
        return float(match[1])
    if kind == "double" and DOUBLE.fullmatch(source):
        return float(source)
    if kind == "boolean" and source in ("true", "false"):
        return source == "true"
    return source


def _read_java_element(source: str, kind: str | None) -> Any:
    if kind in (None, "any"):
        return _guess_java_value(source)
    return unquote(source) if kind in ("String", "char") else _read_java_scalar(source, kind)


def _guess_java_value(source: str) -> Any:
    """The value of an expression whose type is not known."""
    if source in ("true", "false"):
        return source == "true"
    if unquote(source) != source:
        return unquote(source)
    for kind in ("long", "float", "integer", "double"):
        value = _read_java_scalar(source, kind)
        if not isinstance(value, str):
            return value
    return source


def _read_java_array(source: str, kind: str | None) -> Any:
    match = JAVA_ARRAY.match(source)
    if match is None or not source.endswith("}"):
        return source
    return [_read_java_element(part, kind) for part in split_top_level(source[match.end() : -1])]


def _read_java_list(source: str, kind: str | None) -> Any:
    match = JAVA_LIST.match(source)
    if match is None:
        return source
    rest = source[match.end() :].strip()
    if (elements := AS_LIST.match(rest)) and rest.endswith(")"):
        inner = rest[elements.end() : -1].strip().removesuffix(")")
        return [_read_java_element(part, kind) for part in split_top_level(inner)]
    if not rest.startswith(")"):
        return source
    values = []
    for name, arguments in _read_initializer(rest[1:]):
        if name != "add" or len(arguments) != 1:
            return source
        values.append(_read_java_element(arguments[0], kind))
    return values


def _read_java_map(source: str) -> Any:
    match = JAVA_MAP.match(source)
    if match is None:
        return source
    values = {}
    for name, arguments in _read_initializer(source[match.end() :]):
        if name != "put" or len(arguments) != 2:
            return source
        values[unquote(arguments[0])] = _guess_java_value(arguments[1])
    return values


def _read_initializer(source: str) -> list[tuple[str, list[str]]]:
    """The calls in `{{ add(1); add(2); }}`, with their arguments."""
    source = source.strip()
    while source.startswith("{") and source.endswith("}"):
        source = source[1:-1].strip()
    calls = []
    for part in split_top_level(source, ";"):
        match = METHOD.match(part)
        if match is None or not part.endswith(")"):
            raise CallError("it is not an initializer")
        calls.append((match[1], split_top_level(part[match.end() : -1])))
    return calls


def read_javascript(source: str, kind: str, element_kind: str | None = None) -> Any:
    """The value of a JavaScript expression of this type; `element_kind` is the type of the elements of an array."""
    if len(source) > MAX_CHARS:
        return source
    try:
        match kind:
            case "array":
                return _read_javascript_array(source.strip(), element_kind)
            case "dict":
                return _read_javascript_object(source.strip())
            case _:
                return _read_javascript_scalar(source, kind)
    except CallError:
        return source


def _read_javascript_scalar(source: str, kind: str) -> Any:
    if kind == "String":
        return unquote(source)
    if kind == "integer" and INTEGER.fullmatch(source):
        return int(source)
    if kind == "float" and DECIMAL.fullmatch(source):
        return float(source)
    if kind == "Bigint" and (match := BIGINT.fullmatch(source)):
        return int(match[1])
    if kind == "Boolean" and source in ("true", "false"):
        return source == "true"
    return source


def _guess_javascript_value(source: str) -> Any:
    if source.startswith("{"):
        return _read_javascript_object(source)
    if source.startswith("["):
        return _read_javascript_array(source, None)
    if source in ("true", "false"):
        return source == "true"
    if unquote(source) != source:
        return unquote(source)
    if INTEGER.fullmatch(source):
        return int(source)
    return float(source) if DOUBLE.fullmatch(source) else source


def _read_javascript_array(source: str, kind: str | None) -> Any:
    match = JS_ARRAY.match(source)
    if match is None or source[-1] not in "])":
        return source
    parts = split_top_level(source[match.end() : -1])
    if kind in (None, "any", "array", "dict"):
        return [_guess_javascript_value(part) for part in parts]
    return [_read_javascript_scalar(part, kind) for part in parts]


def _read_javascript_object(source: str) -> Any:
    if not (source.startswith("{") and source.endswith("}")):
        return source
    values = {}
    for part in split_top_level(source[1:-1]):
        key, *rest = split_top_level(part, ":")
        if not rest:
            return source
        values[unquote(key)] = _guess_javascript_value(":".join(rest))
    return values


def write_java(value: Any, kind: str, element_kind: str | None = None) -> str:
    """Java source of a value, as `read_java` reads it."""
    if isinstance(value, list):
        elements = ", ".join(write_java(element, _element_type(element, element_kind)) for element in value)
        return f"new Object[]{{{elements}}}" if kind == "Array" else f"new ArrayList<>(Arrays.asList({elements}))"
    if isinstance(value, dict):
        puts = "".join(
            f'put("{key}", {write_java(element, _element_type(element, None))}); ' for key, element in value.items()
        )
        return f"new HashMap<>() {{{{ {puts}}}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value}{ {'long': 'L', 'float': 'f'}.get(kind, '') }"
    return f'"{value}"' if kind in ("String", "char") and '"' not in value else value


def _element_type(element: Any, kind: str | None) -> str:
    if kind not in (None, "any"):
        return kind
    return "String" if isinstance(element, str) else "integer"


def write_javascript(value: Any, kind: str) -> str:
    """JavaScript source of a value, as `read_javascript` reads it."""
    if isinstance(value, list):
        return f"[{', '.join(write_javascript(element, _element_type(element, None)) for element in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(
            f'"{key}": {write_javascript(element, _element_type(element, None))}' for key, element in value.items()
        ) + "}"  # fmt: skip
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value}{'n' if kind == 'Bigint' else ''}"
    return f'"{value}"' if kind == "String" and '"' not in value else value


def write_call(call: Call) -> str:
    """A call in Java or JavaScript. An argument that `parse_calls` would not read back becomes a string literal."""
    return f"{call.name}({', '.join(f'{name}={_write_argument(value)}' for name, value in call.arguments.items())})"


def _write_argument(source: str) -> str:
    try:
        is_one = split_top_level(source) == [source] and unquote(source) == source
    except CallError:
        is_one = False
    if is_one:
        return source
    quote = next((quote for quote in "\"'`" if quote not in source), '"')
    return f"{quote}{source}{quote}"
