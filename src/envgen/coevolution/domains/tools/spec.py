"""The specs of the tools domain: which tools are called in which order, and which results are passed on."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator

from envgen.settings import format_choice_error

from ...tasks import Spec
from .apps import TOOLS, Tool

MAX_STEPS = 5
MAX_DISTRACTORS = 6
NUM_VARIATIONS = 1000


class Step(NamedTuple):
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


def parse_steps(texts: Sequence[str]) -> list[Step]:
    """The steps of a spec from their texts. A ValueError explains the first step that is wrong."""
    steps: list[Step] = []
    for number, text in enumerate(texts, 1):
        try:
            steps.append(_parse_step(text, steps))
        except ValueError as error:
            raise ValueError(f"step {number}: {error}") from None
    return steps


def _parse_step(text: str, earlier: Sequence[Step]) -> Step:
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
    step = Step(tool, refs)
    if not step.literal_parameters and step in earlier:
        raise ValueError(f"{step.text!r} repeats step {earlier.index(step) + 1}")
    return step
