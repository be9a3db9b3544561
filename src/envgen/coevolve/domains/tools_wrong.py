"""Replies that look right and are not, each wrong for a reason that does not depend on the checker."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .tools_apps import NUMBERS, TOOLS, WORDS
from .tools_calls import Call, Ref, Trace, write


def wrong(calls: Sequence[Call], listed: Sequence[str], first: Trace, second: Trace) -> tuple[str, ...]:
    """Wrong replies to the task that `calls` is the answer of; the traces are of its two worlds."""
    return (*_no_programs(calls, listed), *_other_calls(calls, listed), *_other_arguments(calls, first, second))


def _no_programs(calls: Sequence[Call], listed: Sequence[str]) -> Iterator[str]:
    text, (tool, arguments) = write(calls), calls[-1]
    yield from ("", "none", text + "\nthat is all.", f"sure: {text}", text + ")", text[:-1])
    yield "; ".join(call.tool for call in calls)
    yield text.partition("(")[2]
    yield text.removeprefix(calls[0].tool)
    yield text.replace(tool, tool.upper())
    yield f"{text[:-1]}{', ' if arguments else ''}note=none)"
    yield f"{text}; help()"
    yield f"{text}; {_any_call(next(name for name in TOOLS if name not in listed))}"
    if arguments:
        before, (name, value) = [*calls[:-1]], [*arguments.items()][-1]
        yield write([*before, Call(tool, {})])
        yield write([*before, Call(tool, {**arguments, name: Ref(len(before))})])  # its own result
        yield write([*before, Call(tool, {**arguments, name: "nothing"})])
        yield text.replace(f"{name}=", "")
        last = write([Call(tool, {name: value})]).partition("(")[2][:-1]
        yield f"{text[:-1]}, {last})"  # an argument given twice


def _other_calls(calls: Sequence[Call], listed: Sequence[str]) -> Iterator[str]:
    text = write(calls)
    yield f"{text}; {text}"
    yield f"{text}; {write(calls[:1])}"
    yield from (f"{text}; {_any_call(name)}" for name in listed)
    yield write(calls[:-1])
    yield from (_any_call(name) for name in listed if len(calls) > 1 or name != calls[0].tool)


def _any_call(tool: str) -> str:
    return write([Call(tool, {name: WORDS[kind][0] for name, kind in TOOLS[tool].parameters.items()})])


def _other_arguments(calls: Sequence[Call], first: Trace, second: Trace) -> Iterator[str]:
    """One argument is another, of a tool that is called once: no other call can make up for it."""
    tools = [call.tool for call in calls]
    for k in (k for k, tool in enumerate(tools) if tools.count(tool) == 1):
        arguments, kinds = calls[k].arguments, TOOLS[tools[k]].parameters
        for (name, value), got, elsewhere in zip(arguments.items(), first[k][1], second[k][1], strict=True):
            kind = kinds[name]
            yield _altered(calls, k, {name: next(word for word in WORDS[kind] if word != got)})
            if isinstance(value, Ref) and got != elsewhere and (kind not in NUMBERS or 0 <= got < 100):
                yield _altered(calls, k, {name: got})  # as if it were known
        for at, (one, other) in enumerate(pairwise(arguments)):
            differ = any(trace[k][1][at] != trace[k][1][at + 1] for trace in (first, second))
            if differ or kinds[one] != kinds[other]:
                yield _altered(calls, k, {one: arguments[other], other: arguments[one]})


def _altered(calls: Sequence[Call], k: int, others: Mapping[str, Any]) -> str:
    return write([*calls[:k], Call(calls[k].tool, {**calls[k].arguments, **others}), *calls[k + 1 :]])
