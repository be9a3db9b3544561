"""Programs of tool calls as text: `price(item=tea); pay(person=ann, amount=$1)`. Parsed, formatted and executed.

A reply is data. It is split at semicolons, line breaks and commas, and every part must be a call of a listed tool, an
argument, a known literal, a small number or a reference `$k`; only then do the simulated tools run. Every program that
can be parsed can be executed.

`wrong_programs` gives replies that look right and are wrong, each for a reason that does not depend on the checker.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from .apps import NUMBER_TYPES, TOOLS, VALUES, AppState

MAX_REPLY_CHARS = 1000
MAX_CALLS = 10

_FENCE = re.compile(r"```(?:[a-z]*\n)?([^`]*)```")
_CALL = re.compile(r"([a-z]+)[ \t]*\(([^()]*)\)")
_ARGUMENT = re.compile(r"""([a-z]+)[ \t]*=[ \t]*(["']?)(\$?[a-z0-9]+)\2""")


class CallError(ValueError):
    """A reply is not a program of the listed tools; the message says why."""


class Ref(NamedTuple):
    """A reference to the result of an earlier call. Steps count from 0 here and from 1 in text."""

    step: int


class Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]  # a literal, a number or a Ref for every parameter, in the order of the signature


Trace = list[tuple[str, tuple[Any, ...], Any]]  # one (tool, arguments, result) for each executed call


def format_calls(calls: Sequence[Call]) -> str:
    """The text of a program; `parse_calls` reverses it."""
    return "; ".join(f"{tool}({', '.join(map(_format_argument, arguments.items()))})" for tool, arguments in calls)


def _format_argument(argument: tuple[str, Any]) -> str:
    name, value = argument
    return f"{name}=${value.step + 1}" if isinstance(value, Ref) else f"{name}={value}"


def parse_calls(reply: str, listed_tools: Collection[str]) -> list[Call]:
    """The calls of a reply.

    Calls are separated by semicolons or line breaks. Quotes around a value and a code fence around the whole reply are
    accepted.

    Raises:
        CallError: The reply is not a program of the listed tools.
    """
    if len(reply) > MAX_REPLY_CHARS:
        raise CallError(f"the reply has {len(reply):,} characters; the limit is {MAX_REPLY_CHARS:,}")
    text = reply.strip()
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1]
    parts = [part for line in text.split("\n") for part in map(str.strip, line.split(";")) if part]
    if not parts:
        raise CallError("the reply contains no call")
    if len(parts) > MAX_CALLS:
        raise CallError(f"the reply has {len(parts)} calls; the limit is {MAX_CALLS}")
    calls: list[Call] = []
    for part in parts:
        calls.append(_parse_call(part, listed_tools, calls))
    return calls


def _parse_call(text: str, listed_tools: Collection[str], earlier: Sequence[Call]) -> Call:
    match = _CALL.fullmatch(text)
    if not match:
        raise CallError(f"{text[:60]!r} is not a call such as tool(argument=value)")
    if match[1] not in listed_tools:
        raise CallError(f"{match[1][:60]!r} is not a listed tool")
    tool = TOOLS[match[1]]
    values: dict[str, str] = {}
    for part in match[2].split(",") if match[2].strip() else ():
        argument = _ARGUMENT.fullmatch(part.strip())
        if not argument:
            raise CallError(f"{part.strip()[:60]!r} is not an argument such as name=value")
        name, value = argument[1], argument[3]
        if name not in tool.parameters:
            raise CallError(f"{tool.signature} has no argument {name[:60]!r}")
        if name in values:
            raise CallError(f"{tool.signature} gets the argument {name!r} twice")
        values[name] = value
    if missing := [name for name in tool.parameters if name not in values]:
        raise CallError(f"{tool.signature} is called without {', '.join(missing)}")
    arguments = {name: _parse_value(values[name], value_type, earlier) for name, value_type in tool.parameters.items()}
    return Call(tool.name, arguments)


def _parse_value(text: str, value_type: str, earlier: Sequence[Call]) -> Any:
    if text.startswith("$"):
        step = int(text[1:]) if re.fullmatch("[1-9][0-9]?", text[1:]) else 0
        if not 1 <= step <= len(earlier):
            raise CallError(f"{text[:60]!r} does not refer to an earlier call")
        tool = TOOLS[earlier[step - 1].tool]
        if tool.result_type != value_type:
            raise CallError(f"{text} is the result of {tool.signature}, not of type {value_type}")
        return Ref(step - 1)
    if value_type in NUMBER_TYPES and re.fullmatch("[0-9]{1,2}", text):
        return int(text)
    if text not in VALUES[value_type]:
        raise CallError(f"{text[:60]!r} is not a valid {value_type}")
    return text


def execute(calls: Sequence[Call], seed: int) -> tuple[Trace, AppState]:
    """Run the calls in order, from the initial state of a seed. Returns the trace and the changed state."""
    state, trace = AppState(seed), []
    for tool, arguments in calls:
        values = tuple(trace[value.step][2] if isinstance(value, Ref) else value for value in arguments.values())
        trace.append((tool, values, TOOLS[tool].run(state, *values)))
    return trace, state


def wrong_programs(calls: Sequence[Call], listed_tools: Sequence[str], first: Trace, second: Trace) -> tuple[str, ...]:
    """Wrong replies to the task that `calls` answers. The traces are those of its two hidden states."""
    return (
        *_malformed(calls, listed_tools),
        *_extra_or_missing_calls(calls, listed_tools),
        *_changed_arguments(calls, first, second),
    )


def _malformed(calls: Sequence[Call], listed_tools: Sequence[str]) -> Iterator[str]:
    text, (tool, arguments) = format_calls(calls), calls[-1]
    yield from ("", "none", text + "\nthat is all.", f"sure: {text}", text + ")", text[:-1])
    yield "; ".join(call.tool for call in calls)
    yield text.partition("(")[2]
    yield text.removeprefix(calls[0].tool)
    yield text.replace(tool, tool.upper())
    yield f"{text[:-1]}{', ' if arguments else ''}note=none)"
    yield f"{text}; help()"
    yield f"{text}; {_example_call(next(name for name in TOOLS if name not in listed_tools))}"
    if arguments:
        before, (name, value) = [*calls[:-1]], [*arguments.items()][-1]
        yield format_calls([*before, Call(tool, {})])
        yield format_calls([*before, Call(tool, {**arguments, name: Ref(len(before))})])  # refers to its own result
        yield format_calls([*before, Call(tool, {**arguments, name: "nothing"})])
        yield text.replace(f"{name}=", "")
        repeated_argument = format_calls([Call(tool, {name: value})]).partition("(")[2][:-1]
        yield f"{text[:-1]}, {repeated_argument})"


def _extra_or_missing_calls(calls: Sequence[Call], listed_tools: Sequence[str]) -> Iterator[str]:
    text = format_calls(calls)
    yield f"{text}; {text}"
    yield f"{text}; {format_calls(calls[:1])}"
    yield from (f"{text}; {_example_call(name)}" for name in listed_tools)
    yield format_calls(calls[:-1])
    yield from (_example_call(name) for name in listed_tools if len(calls) > 1 or name != calls[0].tool)


def _example_call(tool: str) -> str:
    arguments = {name: VALUES[value_type][0] for name, value_type in TOOLS[tool].parameters.items()}
    return format_calls([Call(tool, arguments)])


def _changed_arguments(calls: Sequence[Call], first: Trace, second: Trace) -> Iterator[str]:
    """Replies with changed arguments, only of tools that are called once: another call could compensate for them."""
    tools = [call.tool for call in calls]
    for step in (step for step, tool in enumerate(tools) if tools.count(tool) == 1):
        arguments, types = calls[step].arguments, TOOLS[tools[step]].parameters
        for (name, value), actual, other in zip(arguments.items(), first[step][1], second[step][1], strict=True):
            value_type = types[name]
            yield _replace_arguments(calls, step, {name: next(word for word in VALUES[value_type] if word != actual)})
            can_be_literal = value_type not in NUMBER_TYPES or 0 <= actual < 100
            if isinstance(value, Ref) and actual != other and can_be_literal:
                yield _replace_arguments(calls, step, {name: actual})  # a lucky guess
        for index, (name, next_name) in enumerate(pairwise(arguments)):
            differ = any(trace[step][1][index] != trace[step][1][index + 1] for trace in (first, second))
            if differ or types[name] != types[next_name]:
                swapped = {name: arguments[next_name], next_name: arguments[name]}
                yield _replace_arguments(calls, step, swapped)


def _replace_arguments(calls: Sequence[Call], step: int, arguments: Mapping[str, Any]) -> str:
    call = Call(calls[step].tool, {**calls[step].arguments, **arguments})
    return format_calls([*calls[:step], call, *calls[step + 1 :]])
