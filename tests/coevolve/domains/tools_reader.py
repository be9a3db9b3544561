"""A scripted reader: what a careful person makes of a prompt of the domain `tools`, by its text alone."""

import re
from collections.abc import Iterator
from typing import Any

from envgen.coevolve.domains.tools_apps import NUMBERS, TOOLS, WORDS
from envgen.coevolve.domains.tools_calls import Call, Ref
from envgen.coevolve.domains.tools_words import PHRASES

Program = tuple[Call, ...]
ORDINALS = ("first", "second", "third", "fourth", "fifth")
STYLES = {  # what a request looks like from outside, and what stands between its steps
    "plain": (r"first (.*)\.", ", then "),
    "polite": (r"could you please (.*)\? thank you\.", ", and then "),
    "numbered": (r"step 1: (.*)\.", r"\. step \d: "),
    "nested": (r"please (.*)\.", ", then "),
    "backwards": (r"at last (.*)\.", "; before that "),
    "brief": (r"(.*)", "; "),
}


def readings(prompt: str) -> set[str]:
    """Every program that a prompt may ask for, as the calls' representations; one, if it is clear."""
    tools, request = re.fullmatch(r"tools:\n(.*)\nrequest: (.*)", prompt, re.DOTALL).groups()
    listed = [line.partition("(")[0] for line in tools.split("\n")]
    style = next(style for style, (shape, _) in STYLES.items() if re.fullmatch(shape, request))
    shape, between = STYLES[style]
    orders = re.split(between, re.fullmatch(shape, request)[1])
    reader = Reader(style, listed)
    found: list[Program] = [()]
    for order in reversed(orders) if style == "backwards" else orders:
        found = [longer for done in found for longer in reader.order(order, done)]
    return {repr(program) for program in found}


class Reader:
    def __init__(self, style: str, listed: list[str]):
        self.style, self.listed = style, listed
        self.letters: dict[str, int] = {}

    def order(self, text: str, done: Program, noun: bool = False) -> Iterator[Program]:
        """The programs that `done` may become with what a text orders, or finds if it is a noun."""
        if named := re.fullmatch(r"(.*) \(the ([a-z ]+) is ([a-z])\)", text):
            text = named[1]
            self.letters[named[3]] = len(done)
        for tool in self.listed:
            words = PHRASES[tool].polite if self.style == "polite" else PHRASES[tool].order
            if noun and not words.startswith("find "):
                continue
            words = words.removeprefix("find ") if noun or self.style == "brief" else words
            words = words.removeprefix("the ") if self.style == "brief" else words
            if found := re.fullmatch(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(words)), text):
                yield from self.filled(tool, found.groupdict(), list(TOOLS[tool].parameters), {}, done)

    def filled(
        self, tool: str, texts: dict[str, str], names: list[str], given: dict[str, Any], done: Program
    ) -> Iterator[Program]:
        """The programs with a call of the tool at their end, the parameters `names` yet to be read."""
        if not names:
            yield (*done, Call(tool, given))
            return
        name, *others = names
        kind = TOOLS[tool].parameters[name]
        for value in self.values(texts[name], kind, done):
            yield from self.filled(tool, texts, others, {**given, name: value}, done)
        if self.style == "nested":
            for longer in self.order(texts[name], done, noun=True):
                if TOOLS[longer[-1].tool].result == kind:
                    yield from self.filled(tool, texts, others, {**given, name: Ref(len(longer) - 1)}, longer)

    def values(self, text: str, kind: str, done: Program) -> Iterator[Any]:
        plain = text.removeprefix("the ") if kind == "file" and text.startswith("the ") else text
        if kind in NUMBERS and re.fullmatch(r"\d+", plain):
            yield int(plain)
        elif plain in WORDS[kind] and (kind != "file" or plain != text):
            yield plain
        yield from (Ref(k) for k in self.referred(text, done) if TOOLS[done[k].tool].result == kind)

    def referred(self, text: str, done: Program) -> Iterator[int]:
        if self.style == "backwards":
            yield from (k for letter, k in self.letters.items() if letter == text)
        elif self.style == "numbered":
            yield from (k for k in range(len(done)) if text == f"the result of step {k + 1}")
        elif self.style == "brief" and text == "that":
            yield len(done) - 1
        else:
            for tool in {call.tool for call in done}:
                alike = [k for k, call in enumerate(done) if call.tool == tool]
                if text == f"that {PHRASES[tool].noun}" and len(alike) == 1:
                    yield alike[0]
                yield from (
                    k for k, word in zip(alike, ORDINALS, strict=False) if text == f"the {word} {PHRASES[tool].noun}"
                )
