"""Random choices: the steps of a spec, and the literals of a task's calls."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from .apps import TOOLS, VALUES, Tool
from .calls import Call, Ref
from .spec import Step

CONSUMER_PROBABILITY = 3 / 4  # that a step is one of the tools that can use an earlier result; otherwise it is any tool
REF_PROBABILITY = 1 / 2  # that an argument is a reference, where it can be one

_ALL = list(TOOLS.values())
_PRODUCERS = [tool for tool in _ALL if tool.result_type]
_CONSUMERS = {value_type: [tool for tool in _ALL if value_type in tool.parameters.values()] for value_type in VALUES}


def sample_calls(steps: Sequence[Step], rng: Random) -> tuple[Call, ...]:
    """Fill in the literals of some steps.

    No parameter of a tool gets the same literal twice, and no two arguments of a call are equal. The only method of
    `rng` used is random(), because its stream is the same in every version of Python.
    """
    used: set[tuple[str, str, Any]] = set()
    calls = []
    for tool, refs in steps:
        arguments: dict[str, Any] = {}
        for parameter, value_type in tool.parameters.items():
            if parameter in refs:
                arguments[parameter] = Ref(refs[parameter])
                continue
            value = None
            while value is None or value in arguments.values() or (tool.name, parameter, value) in used:
                value = VALUES[value_type][int(rng.random() * len(VALUES[value_type]))]
            arguments[parameter] = value
            used.add((tool.name, parameter, value))
        calls.append(Call(tool.name, arguments))
    return tuple(calls)


def shuffle(names: Sequence[str], rng: Random) -> list[str]:
    return sorted(names, key=lambda _: rng.random())


def choose(options: Sequence[Any], rng: np.random.Generator) -> Any:
    return options[int(rng.integers(len(options)))]


def sample_steps(count: int, rng: np.random.Generator) -> list[str]:
    """The steps of a spec. Half of the arguments that can take an earlier result do, each result equally often."""
    steps: list[Step] = []
    while len(steps) < count:
        result_types = [step.tool.result_type for step in steps if step.tool.result_type]
        use_consumer = result_types and rng.random() < CONSUMER_PROBABILITY
        tool = choose(_CONSUMERS[choose(result_types, rng)] if use_consumer else _ALL, rng)
        step = Step(tool, _sample_refs(tool, steps, rng))
        if step.literal_parameters or step not in steps:
            steps.append(step)
    return [step.text for step in steps]


def _sample_refs(tool: Tool, steps: Sequence[Step], rng: np.random.Generator) -> dict[str, int]:
    """Which parameters take which results."""
    refs: dict[str, int] = {}
    literal_types = set()  # a reference goes to the first parameter of its type, so none may follow a literal
    for parameter, value_type in tool.parameters.items():
        candidates = [
            index
            for index, step in enumerate(steps)
            if step.tool.result_type == value_type and index not in refs.values()
        ]
        if candidates and value_type not in literal_types and rng.random() < REF_PROBABILITY:
            refs[parameter] = choose(candidates, rng)
        else:
            literal_types.add(value_type)
    return refs


def sample_linked_pair(rng: np.random.Generator) -> list[str]:
    """Two steps, the second of which takes the result of the first."""
    producer = choose(_PRODUCERS, rng)
    return [producer.name, f"{choose(_CONSUMERS[producer.result_type], rng).name} $1"]
