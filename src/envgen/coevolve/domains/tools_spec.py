"""What may be chosen about a task of tool calls: which tools in which order, and which results go where."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator

from envgen.settings import nearest

from ..tasks import Spec
from .tools_apps import TOOLS, Tool

STEPS = 5
DISTRACTORS = 6
VARIATIONS = 1000


class Step(NamedTuple):
    tool: Tool
    bound: dict[str, int]  # parameter: the earlier step that it takes its result from, counted from 0

    @property
    def free(self) -> list[str]:
        """The parameters that get a word or number of their own."""
        return [name for name in self.tool.parameters if name not in self.bound]

    @property
    def text(self) -> str:
        return " ".join(
            [self.tool.name, *(f"${self.bound[name] + 1}" for name in self.tool.parameters if name in self.bound)]
        )


class ToolsSpec(Spec):
    steps: tuple[Annotated[str, Field(max_length=40)], ...] = Field(min_length=1, max_length=STEPS)
    """The tools in the order in which they are called. "pay $1": an argument is the result of step 1."""
    distractors: int = Field(default=0, ge=0, le=DISTRACTORS)
    """How many tools are listed that the task does not need."""
    style: Literal["plain", "polite", "brief", "numbered", "nested", "backwards"] = "plain"
    """How the request is worded."""
    variation: int = Field(default=0, ge=0, lt=VARIATIONS)
    """Other numbers draw other names, amounts, and tools beside those needed."""

    @field_validator("steps")
    @classmethod
    def _in_normal_form(cls, steps: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(step.text for step in program(steps))


def program(steps: Sequence[str]) -> list[Step]:
    """Steps as written, understood; a ValueError says what is wrong with the first wrong one."""
    done: list[Step] = []
    for k, written in enumerate(steps, 1):
        try:
            done.append(_step(written, done))
        except ValueError as error:
            raise ValueError(f"step {k}: {error}") from None
    return done


def _step(written: str, earlier: Sequence[Step]) -> Step:
    name, *refs = written.lower().split() or [""]
    if name not in TOOLS:
        raise ValueError(nearest(name, list(TOOLS)))
    tool, bound = TOOLS[name], {}
    for ref in refs:
        if not re.fullmatch(r"\$[1-9]", ref):
            raise ValueError(f"{ref!r} is not a reference such as $1; words and numbers are drawn from the variation")
        k = int(ref[1:]) - 1
        if k >= len(earlier):
            raise ValueError(f"{ref} is not an earlier step")
        if k in bound.values():
            raise ValueError(f"{ref} is there twice")
        kind = earlier[k].tool.result
        if not kind:
            raise ValueError(f"{ref} has no result: it is {earlier[k].tool.signature}")
        fitting = [parameter for parameter in tool.parameters if tool.parameters[parameter] == kind]
        open_one = next((parameter for parameter in fitting if parameter not in bound), None)
        if open_one is None:
            raise ValueError(f"{tool.signature} has no {'further ' if fitting else ''}{kind} for {ref} to go to")
        bound[open_one] = k
    step = Step(tool, bound)
    if not step.free and step in earlier:
        raise ValueError(f"{step.text!r} asks what step {earlier.index(step) + 1} asked")
    return step
