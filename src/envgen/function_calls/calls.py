"""Read the function calls in a reply, in Python, Java or JavaScript syntax. Nothing is ever evaluated.

A reply is a list of calls with keyword arguments, `[f(a=1), g(b="x")]`. Python values are parsed with `ast`. The
arguments of Java and JavaScript calls stay source text, except that string literals lose their quotes; `foreign.py`
reads them according to their types.
"""

import ast
import json
import operator
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from envgen.designers.chat.protocol import ToolCall
from envgen.python_source import PARSE_ERRORS, parse_expression
from envgen.runs.files import parse_json

Language = Literal["python", "java", "javascript"]
MAX_CHARS = 50_000  # of a reply with calls; longer ones are refused
MAX_DEPTH = 60  # of nested brackets
MAX_CALLS = 200  # in one reply
MAX_NUMBER = 1e15  # operands of arithmetic in an argument
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
FENCE = re.compile(r"```(?:[\w+-]{1,20}(?=[\s\[]))?\s*")  # a name is that of a language only if a call follows it
NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\s*\.\s*[A-Za-z_$][\w$]*)*")
PARAMETER = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*=(?!=)")
TYPE_ARGUMENTS = re.compile(r"(?<=\w)<[\w\s,.?\[\]<]{0,200}>+")  # of Java, such as <String, Integer>
OPENING, CLOSING = "([{", ")]}"


class CallError(ValueError):
    """A reply cannot be read as function calls."""


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]
    positional: tuple[Any, ...] = ()


def parse_calls(text: str, language: Language = "python") -> list[Call]:
    """The calls in a reply. Raises CallError if it is anything else, such as prose. `[]` contains no call."""
    source = _strip_markup(text)
    if len(source) > MAX_CHARS:
        raise CallError(f"the reply has more than {MAX_CHARS:,} characters")
    _check_depth(source)
    calls = _parse_python(source) if language == "python" else _parse_foreign(source)
    if len(calls) > MAX_CALLS:
        raise CallError(f"the reply has more than {MAX_CALLS} calls")
    return calls


def parse_native(calls: Sequence[ToolCall], names: dict[str, str]) -> list[Call]:
    """The calls that a server reports. `names` maps the names that were sent to those of the functions."""
    parsed = []
    for call in calls[:MAX_CALLS]:
        if len(call.arguments) > MAX_CHARS:
            raise CallError(f"the arguments of {call.name[:80]!r} have more than {MAX_CHARS:,} characters")
        try:
            arguments = parse_json(call.arguments or "{}")
        except ValueError:
            raise CallError(f"the arguments of {call.name[:80]!r} are not JSON") from None
        if not isinstance(arguments, dict):
            raise CallError(f"the arguments of {call.name[:80]!r} are not a JSON object")
        parsed.append(Call(names.get(call.name, call.name), arguments))
    return parsed


def write_call(call: Call) -> str:
    """The call in Python syntax."""
    arguments = [*map(repr, call.positional), *(f"{name}={value!r}" for name, value in call.arguments.items())]
    return f"{call.name}({', '.join(arguments)})"


def _strip_markup(text: str) -> str:
    """The content of a code block if the reply is one, or of a reply in quotes, with brackets around it."""
    source = text.strip()
    if source.startswith("```") and source.endswith("```"):
        source = FENCE.sub("", source, count=1).removesuffix("```")
    source = source.strip("`\n '")
    source = source if source.startswith("[") else f"[{source}"
    return source if source.endswith("]") else f"{source}]"


def _check_depth(source: str) -> None:
    depth = 0
    for char in source:
        if char in OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                raise CallError(f"the reply nests more than {MAX_DEPTH} brackets")
        elif char in CLOSING:
            depth = max(0, depth - 1)


# --- Python


def _parse_python(source: str) -> list[Call]:
    try:
        body = parse_expression(source)
        elements = body.elts if isinstance(body, ast.List) else [body]
        return [_read_call(element) for element in elements]
    except CallError:
        raise
    except PARSE_ERRORS as error:
        raise CallError(f"the reply is not a list of calls ({type(error).__name__})") from None


def _read_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise CallError("the reply contains something that is not a call")
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        raise CallError("the name of a function is an expression")
    name = ".".join([function.id, *reversed(parts)])
    arguments = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise CallError(f"a call of {name[:80]} unpacks a dictionary")
        if keyword.arg in arguments:
            raise CallError(f"the argument {keyword.arg[:80]} is given twice")
        arguments[keyword.arg] = _read_value(keyword.value)
    return Call(name, arguments, tuple(_read_value(argument) for argument in node.args))


def _read_value(node: ast.expr) -> Any:
    match node:
        case ast.Constant():
            return "..." if node.value is ... else node.value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.UnaryOp(op=ast.UAdd(), operand=ast.Constant(value=int() | float() as value)):
            return value
        case ast.List():
            return [_read_value(element) for element in node.elts]
        case ast.Tuple():
            return tuple(_read_value(element) for element in node.elts)
        case ast.Dict():
            if None in node.keys:
                raise CallError("an argument unpacks a dictionary")
            return {
                _read_value(key): _read_value(value)
                for key, value in zip(node.keys, node.values, strict=True)
                if key is not None
            }
        case ast.Name():
            return node.id  # a variable
        case ast.BinOp():
            return _calculate(node)
        case ast.Call(keywords=[]) | ast.Subscript():
            return ast.unparse(node)
        case ast.Call():
            call = _read_call(node)
            return {call.name: call.arguments}
        case _:
            raise CallError(f"an argument is a Python expression of the kind {type(node).__name__}")


def _calculate(node: ast.BinOp) -> Any:
    """The result of arithmetic with numbers, such as 5 * 60, or of adding texts."""
    left, right = _read_value(node.left), _read_value(node.right)
    apply = OPERATORS.get(type(node.op))
    are_numbers = all(type(value) in (int, float) and abs(value) <= MAX_NUMBER for value in (left, right))
    are_texts = isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add)
    if apply is None or not (are_numbers or are_texts):
        raise CallError("an argument is an expression that is not calculated")
    try:
        return apply(left, right)
    except ArithmeticError as error:
        raise CallError(f"an argument cannot be calculated ({type(error).__name__})") from None


# --- Java and JavaScript


def split_top_level(source: str, separator: str = ",") -> list[str]:
    """The parts of a text between separators that are outside of brackets and quotes; blank parts are left out."""
    parts, start, depth, quote, k = [], 0, 0, "", 0
    while k < len(source):
        char = source[k]
        if quote:
            if char == "\\":
                k += 1
            elif char == quote:
                quote = ""
        elif char in "\"'`":
            quote = char
        elif char in OPENING:
            depth += 1
        elif char in CLOSING:
            depth -= 1
            if depth < 0:
                raise CallError("the reply has brackets that were not opened")
        elif char == "<" and (types := TYPE_ARGUMENTS.match(source, k)):
            k = types.end() - 1
        elif char == separator and depth == 0:
            parts.append(source[start:k])
            start = k + 1
        k += 1
    if quote or depth:
        raise CallError("the reply has brackets or quotes that are not closed")
    parts.append(source[start:])
    return [part.strip() for part in parts if part.strip()]


def unquote(source: str) -> str:
    """The text of a string literal, as it is written; anything else stays as it is."""
    is_literal = len(source) >= 2 and source[0] == source[-1] and source[0] in "\"'`"
    return source[1:-1] if is_literal and source[0] not in source[1:-1].replace("\\" + source[0], "") else source


def _parse_foreign(source: str) -> list[Call]:
    calls = []
    for part in split_top_level(source[1:-1]):
        text = part.removesuffix(";").strip()
        match = NAME.match(text)
        rest = text[match.end() :].strip() if match else ""
        if match is None or not (rest.startswith("(") and rest.endswith(")")):
            raise CallError("the reply contains something that is not a call")
        arguments: dict[str, Any] = {}
        positional = []
        for argument in split_top_level(rest[1:-1]):
            parameter = PARAMETER.match(argument)
            if parameter is None:
                positional.append(unquote(argument))
                continue
            if parameter[1] in arguments:
                raise CallError(f"the argument {parameter[1][:80]} is given twice")
            arguments[parameter[1]] = unquote(argument[parameter.end() :].strip())
        calls.append(Call(re.sub(r"\s+", "", match[0]), arguments, tuple(positional)))
    return calls


def write_json_call(call: Call, number: int) -> ToolCall:
    """The call as a server reports it."""
    return ToolCall(id=f"call_{number}", name=call.name, arguments=json.dumps(call.arguments))
