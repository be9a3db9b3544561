"""Replies that look right and are wrong, each for a reason that does not depend on the checker."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .apps import NUMBER_TYPES, TOOLS, VALUES
from .calls import Call, Ref, Trace, format_calls


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
    """Replies with one argument changed, of a tool that is called once, so that no other call can make up for it."""
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
