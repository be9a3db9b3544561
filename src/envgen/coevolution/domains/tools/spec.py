"""The specs of the tools domain: which tools are called in which order, and which results are passed on.

Also the random choices: the steps of a spec, and the literals of a task's calls.
"""

import re
from collections.abc import Sequence
from random import Random
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from envgen.settings import format_choice_error

from ...tasks import Spec
from ..random_choice import choose
from .apps import TOOLS, VALUES, Tool
from .calls import Call, Ref

MAX_STEPS = 5
MAX_DISTRACTORS = 6
NUM_VARIATIONS = 1000
CONSUMER_PROBABILITY = 3 / 4  # that a step is one of the tools that can use an earlier result; otherwise it is any tool
REF_PROBABILITY = 1 / 2  # that an argument is a reference, where it can be one

_ALL = list(TOOLS.values())
_PRODUCERS = [tool for tool in _ALL if tool.result_type]
_CONSUMERS = {value_type: [tool for tool in _ALL if value_type in tool.parameters.values()] for value_type in VALUES}


class ProgramStep(NamedTuple):
    tool: Tool
    refs: dict[str, int]  # parameter: the earlier step whose result it takes, counted from 0

    @property
    def literal_parameters(self) -> list[str]:
        """The parameters that take a literal instead of a result."""
        return [name for name in self.tool.parameters if name not in self.refs]

    @property
    def text(self) -> str:
        return " ".join(
            [self.tool.name, *(f"${self.refs[name] + 1}" for name in self.tool.parameters if name in self.refs)]
        )


class ToolsSpec(Spec):
    steps: tuple[Annotated[str, Field(max_length=40)], ...] = Field(min_length=1, max_length=MAX_STEPS)
    """The tools in the order of their calls. In "pay $1", an argument is the result of step 1."""
    distractors: int = Field(default=0, ge=0, le=MAX_DISTRACTORS)
    """The number of tools that are listed but not needed."""
    style: Literal["plain", "polite", "brief", "numbered", "nested", "backwards"] = "plain"
    """How the request is phrased."""
    variation: int = Field(default=0, ge=0, lt=NUM_VARIATIONS)
    """Selects the names, the amounts and the distractors."""

    @field_validator("steps")
    @classmethod
    def _normalize_steps(cls, steps: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(step.text for step in parse_steps(steps))


def parse_steps(texts: Sequence[str]) -> list[ProgramStep]:
    """The steps of a spec from their texts. A ValueError explains the first step that is wrong."""
    steps: list[ProgramStep] = []
    for number, text in enumerate(texts, 1):
        try:
            steps.append(_parse_step(text, steps))
        except ValueError as error:
            raise ValueError(f"step {number}: {error}") from None
    return steps


def _parse_step(text: str, earlier: Sequence[ProgramStep]) -> ProgramStep:
    name, *ref_texts = text.lower().split() or [""]
    if name not in TOOLS:
        raise ValueError(format_choice_error(name, list(TOOLS)))
    tool, refs = TOOLS[name], {}
    for ref_text in ref_texts:
        if not re.fullmatch(r"\$[1-9]", ref_text):
            raise ValueError(f"{ref_text!r} is not a reference such as $1; the variation selects the literals")
        index = int(ref_text[1:]) - 1
        if index >= len(earlier):
            raise ValueError(f"{ref_text} is not an earlier step")
        if index in refs.values():
            raise ValueError(f"{ref_text} is used twice")
        result_type = earlier[index].tool.result_type
        if not result_type:
            raise ValueError(f"{ref_text} has no result: it is {earlier[index].tool.signature}")
        matching = [name for name, value_type in tool.parameters.items() if value_type == result_type]
        parameter = next((name for name in matching if name not in refs), None)
        if parameter is None:
            another = "other " if matching else ""
            raise ValueError(f"{tool.signature} has no {another}argument of type {result_type} for {ref_text}")
        refs[parameter] = index
    step = ProgramStep(tool, refs)
    if not step.literal_parameters and step in earlier:
        raise ValueError(f"{step.text!r} repeats step {earlier.index(step) + 1}")
    return step


def sample_calls(steps: Sequence[ProgramStep], rng: Random) -> tuple[Call, ...]:
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
                value = choose(VALUES[value_type], rng)
            arguments[parameter] = value
            used.add((tool.name, parameter, value))
        calls.append(Call(tool.name, arguments))
    return tuple(calls)


def sample_steps(count: int, rng: np.random.Generator) -> list[str]:
    """The steps of a spec. Half of the arguments that can take an earlier result do, each result equally often."""
    steps: list[ProgramStep] = []
    while len(steps) < count:
        result_types = [step.tool.result_type for step in steps if step.tool.result_type]
        use_consumer = result_types and rng.random() < CONSUMER_PROBABILITY
        tool = choose(_CONSUMERS[choose(result_types, rng)] if use_consumer else _ALL, rng)
        step = ProgramStep(tool, _sample_refs(tool, steps, rng))
        if step.literal_parameters or step not in steps:
            steps.append(step)
    return [step.text for step in steps]


def _sample_refs(tool: Tool, steps: Sequence[ProgramStep], rng: np.random.Generator) -> dict[str, int]:
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
