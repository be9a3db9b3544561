"""What is drawn: the words and numbers of a task's calls, and the steps of a spec."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from .tools_apps import TOOLS, WORDS, Tool
from .tools_calls import Call, Ref
from .tools_spec import Step

LINKABLE = 3 / 4  # how often a step is one that could use an earlier result; else it is any
LINKED = 1 / 2  # how often an argument is a reference if it can be one

_ALL = list(TOOLS.values())
_MAKERS = [tool for tool in _ALL if tool.result]
_TAKERS = {kind: [tool for tool in _ALL if kind in tool.parameters.values()] for kind in WORDS}


def calls_of(steps: Sequence[Step], random: Random) -> tuple[Call, ...]:
    """The steps with their words and numbers. No argument of a tool gets the same one twice, nor two of a call."""
    said: set[tuple[str, str, Any]] = set()
    calls = []
    for tool, bound in steps:
        arguments: dict[str, Any] = {}
        for parameter, kind in tool.parameters.items():
            if parameter in bound:
                arguments[parameter] = Ref(bound[parameter])
                continue
            word = None
            while word is None or word in arguments.values() or (tool.name, parameter, word) in said:
                word = WORDS[kind][int(random.random() * len(WORDS[kind]))]
            arguments[parameter] = word
            said.add((tool.name, parameter, word))
        calls.append(Call(tool.name, arguments))
    return tuple(calls)


def shuffled(names: Sequence[str], random: Random) -> list[str]:
    return sorted(names, key=lambda _: random.random())


def one(choices: Sequence[Any], random: np.random.Generator) -> Any:
    return choices[int(random.integers(len(choices)))]


def steps_of(count: int, random: np.random.Generator) -> list[str]:
    """Steps of a spec. Where an argument can take an earlier result, half do, each of the results equally often."""
    steps: list[Step] = []
    while len(steps) < count:
        results = [step.tool.result for step in steps if step.tool.result]
        tool = one(_TAKERS[one(results, random)] if results and random.random() < LINKABLE else _ALL, random)
        step = Step(tool, _bound(tool, steps, random))
        if step.free or step not in steps:
            steps.append(step)
    return [step.text for step in steps]


def _bound(tool: Tool, steps: Sequence[Step], random: np.random.Generator) -> dict[str, int]:
    """Which arguments take which results."""
    bound: dict[str, int] = {}
    free = set()  # types: a reference goes to the first argument of its type, so none can pass one that is left free
    for parameter, kind in tool.parameters.items():
        fitting = [k for k, step in enumerate(steps) if step.tool.result == kind and k not in bound.values()]
        if fitting and kind not in free and random.random() < LINKED:
            bound[parameter] = one(fitting, random)
        else:
            free.add(kind)
    return bound


def linked_pair(random: np.random.Generator) -> list[str]:
    """Two steps of which the second takes the result of the first."""
    maker = one(_MAKERS, random)
    return [maker.name, f"{one(_TAKERS[maker.result], random).name} $1"]
