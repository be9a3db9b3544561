"""An independent parser: every program that a prompt of the tools domain may ask for, from its text alone."""

import re
from collections.abc import Iterator
from typing import Any

from envgen.coevolution.domains.tools.apps import NUMBER_TYPES, TOOLS, VALUES
from envgen.coevolution.domains.tools.calls import Call, Ref
from envgen.coevolution.domains.tools.phrasing import PHRASINGS

Program = tuple[Call, ...]
ORDINALS = ("first", "second", "third", "fourth", "fifth")
STYLES = {  # the pattern of a request, and the separator of its steps
    "plain": (r"first (.*)\.", ", then "),
    "polite": (r"could you please (.*)\? thank you\.", ", and then "),
    "numbered": (r"step 1: (.*)\.", r"\. step \d: "),
    "nested": (r"please (.*)\.", ", then "),
    "backwards": (r"at last (.*)\.", "; before that "),
    "brief": (r"(.*)", "; "),
}


def find_readings(prompt: str) -> set[str]:
    """The programs that a prompt may ask for, as strings; one, if the prompt is unambiguous."""
    tools, request = re.fullmatch(r"tools:\n(.*)\nrequest: (.*)", prompt, re.DOTALL).groups()
    listed_tools = [line.partition("(")[0] for line in tools.split("\n")]
    style = next(style for style, (pattern, _) in STYLES.items() if re.fullmatch(pattern, request))
    pattern, separator = STYLES[style]
    phrases = re.split(separator, re.fullmatch(pattern, request)[1])
    parser = RequestParser(style, listed_tools)
    programs: list[Program] = [()]
    for phrase in reversed(phrases) if style == "backwards" else phrases:
        programs = [extended for program in programs for extended in parser.parse_phrase(phrase, program)]
    return {repr(program) for program in programs}


class RequestParser:
    def __init__(self, style: str, listed_tools: list[str]):
        self.style, self.listed_tools = style, listed_tools
        self.letters: dict[str, int] = {}

    def parse_phrase(self, text: str, program: Program, is_noun: bool = False) -> Iterator[Program]:
        """The programs that extend `program` by the call that a phrase asks for."""
        if aside := re.fullmatch(r"(.*) \(the ([a-z ]+) is ([a-z])\)", text):
            text = aside[1]
            self.letters[aside[3]] = len(program)
        for tool in self.listed_tools:
            template = PHRASINGS[tool].polite if self.style == "polite" else PHRASINGS[tool].imperative
            if is_noun and not template.startswith("find "):
                continue
            template = template.removeprefix("find ") if is_noun or self.style == "brief" else template
            template = template.removeprefix("the ") if self.style == "brief" else template
            if match := re.fullmatch(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(template)), text):
                yield from self.parse_arguments(tool, match.groupdict(), list(TOOLS[tool].parameters), {}, program)

    def parse_arguments(
        self, tool: str, texts: dict[str, str], names: list[str], arguments: dict[str, Any], program: Program
    ) -> Iterator[Program]:
        """The programs with a call of the tool at their end; the parameters `names` are still to be parsed."""
        if not names:
            yield (*program, Call(tool, arguments))
            return
        name, *others = names
        value_type = TOOLS[tool].parameters[name]
        for value in self.parse_value(texts[name], value_type, program):
            yield from self.parse_arguments(tool, texts, others, {**arguments, name: value}, program)
        if self.style == "nested":
            for extended in self.parse_phrase(texts[name], program, is_noun=True):
                if TOOLS[extended[-1].tool].result_type == value_type:
                    reference = {name: Ref(len(extended) - 1)}
                    yield from self.parse_arguments(tool, texts, others, arguments | reference, extended)

    def parse_value(self, text: str, value_type: str, program: Program) -> Iterator[Any]:
        literal = text.removeprefix("the ") if value_type == "file" and text.startswith("the ") else text
        if value_type in NUMBER_TYPES and re.fullmatch(r"\d+", literal):
            yield int(literal)
        elif literal in VALUES[value_type] and (value_type != "file" or literal != text):
            yield literal
        for step in self.parse_reference(text, program):
            if TOOLS[program[step].tool].result_type == value_type:
                yield Ref(step)

    def parse_reference(self, text: str, program: Program) -> Iterator[int]:
        """The earlier steps that a text may refer to."""
        if self.style == "backwards":
            yield from (step for letter, step in self.letters.items() if letter == text)
        elif self.style == "numbered":
            yield from (step for step in range(len(program)) if text == f"the result of step {step + 1}")
        elif self.style == "brief" and text == "that":
            yield len(program) - 1
        else:
            for tool in {call.tool for call in program}:
                same_tool = [step for step, call in enumerate(program) if call.tool == tool]
                noun = PHRASINGS[tool].noun
                if text == f"that {noun}" and len(same_tool) == 1:
                    yield same_tool[0]
                for step, ordinal in zip(same_tool, ORDINALS, strict=False):
                    if text == f"the {ordinal} {noun}":
                        yield step
