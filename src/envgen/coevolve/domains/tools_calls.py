"""Programs of calls as text: `price(item=tea); pay(person=ann, amount=$1)`. Read, written and executed.

A reply is data: it is cut at semicolons, line ends and commas, each piece must be a call, an argument, a listed word, a
small number or `$k`, and only then do the simulated tools run. Whatever can be read can be executed.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from .tools_apps import NUMBERS, TOOLS, WORDS, Facts

LONGEST = 1000  # characters of a reply that are read
MOST = 10  # calls

_FENCED = re.compile(r"```(?:[a-z]*\n)?([^`]*)```")
_CALL = re.compile(r"([a-z]+)[ \t]*\(([^()]*)\)")
_ARGUMENT = re.compile(r"""([a-z]+)[ \t]*=[ \t]*(["']?)(\$?[a-z0-9]+)\2""")


class CallError(ValueError):
    """A reply is no program of the listed tools; the message says why."""


class Ref(NamedTuple):
    """The result of an earlier call, counted from 0."""

    step: int


class Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]  # a word, a number or a Ref for every parameter, in their order


Trace = list[tuple[str, tuple[Any, ...], Any]]  # the calls that ran: tool, arguments, result


def write(calls: Sequence[Call]) -> str:
    return "; ".join(f"{tool}({', '.join(map(_pair, arguments.items()))})" for tool, arguments in calls)


def _pair(argument: tuple[str, Any]) -> str:
    name, value = argument
    return f"{name}=${value.step + 1}" if isinstance(value, Ref) else f"{name}={value}"


def read(reply: str, listed: Collection[str]) -> list[Call]:
    """The calls of a reply, or a CallError.

    They stand between semicolons or on lines of their own. Quotes around a value and a fence around all are allowed.
    """
    if len(reply) > LONGEST:
        raise CallError(f"the reply has {len(reply):,} characters; at most {LONGEST:,} are read")
    text = reply.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    pieces = [piece for line in text.split("\n") for piece in map(str.strip, line.split(";")) if piece]
    if not pieces:
        raise CallError("there is no call in the reply")
    if len(pieces) > MOST:
        raise CallError(f"the reply has {len(pieces)} calls; at most {MOST} are executed")
    calls: list[Call] = []
    for piece in pieces:
        calls.append(_call(piece, listed, calls))
    return calls


def _call(piece: str, listed: Collection[str], earlier: Sequence[Call]) -> Call:
    found = _CALL.fullmatch(piece)
    if not found:
        raise CallError(f"{piece[:60]!r} is not a call such as tool(argument=value)")
    if found[1] not in listed:
        raise CallError(f"{found[1][:60]!r} is not a listed tool")
    tool = TOOLS[found[1]]
    given: dict[str, str] = {}
    for part in found[2].split(",") if found[2].strip() else ():
        argument = _ARGUMENT.fullmatch(part.strip())
        if not argument:
            raise CallError(f"{part.strip()[:60]!r} is not an argument such as name=value")
        if argument[1] not in tool.parameters or argument[1] in given:
            fault = "gets it twice" if argument[1] in given else "has no such argument"
            raise CallError(f"{argument[1][:60]!r}: {tool.signature} {fault}")
        given[argument[1]] = argument[3]
    if missing := [name for name in tool.parameters if name not in given]:
        raise CallError(f"{tool.signature} is called without {', '.join(missing)}")
    return Call(tool.name, {name: _value(given[name], kind, earlier) for name, kind in tool.parameters.items()})


def _value(text: str, kind: str, earlier: Sequence[Call]) -> Any:
    if text.startswith("$"):
        k = int(text[1:]) if re.fullmatch("[1-9][0-9]?", text[1:]) else 0
        if not 1 <= k <= len(earlier):
            raise CallError(f"{text[:60]!r} is not the result of an earlier call")
        if TOOLS[earlier[k - 1].tool].result != kind:
            raise CallError(f"{text} is the result of {TOOLS[earlier[k - 1].tool].signature}, which is no {kind}")
        return Ref(k - 1)
    if kind in NUMBERS and re.fullmatch("[0-9]{1,2}", text):
        return int(text)
    if text not in WORDS[kind]:
        raise CallError(f"{text[:60]!r} is no {kind}")
    return text


def execute(calls: Sequence[Call], world: int) -> tuple[Trace, Facts]:
    """What ran, in its order, and what it changed."""
    facts, trace = Facts(world), []
    for tool, arguments in calls:
        given = tuple(trace[value.step][2] if isinstance(value, Ref) else value for value in arguments.values())
        trace.append((tool, given, TOOLS[tool].run(facts, *given)))
    return trace, facts
