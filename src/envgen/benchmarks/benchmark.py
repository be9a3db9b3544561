"""What a benchmark is: items in categories, an episode for each of them, and a verdict.

An episode is a generator. It yields what to send to the model, receives the reply without the model's reasoning, and
returns the verdict:

    def episode(self, item):
        reply = yield Prompt.user("What is the capital of " + item.data["country"] + "?")
        return Verdict.of(item.data["capital"] in reply.text, "wrong answer")

In an episode of several turns the environment answers between two prompts. It must answer equal replies equally,
because an interrupted episode is repeated from its beginning with the recorded replies. A `finally` clause releases
what the episode holds, also when it is abandoned.

What a model writes is data. An episode never executes it, and no reply may make it raise an exception, hang, or use a
lot of memory.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from envgen.designers.chat.protocol import Message, Reply, Tool
from envgen.errors import EnvgenError
from envgen.runs.files import parse_json, read_regular

MAX_DATA_BYTES = 512 << 20  # of one file of a benchmark
NO_TEXT = "(no reply)"  # an empty reply in a conversation that goes on: some servers refuse empty messages


class BenchmarkError(EnvgenError):
    """A benchmark cannot be used: its data is missing or damaged, or an option is wrong."""


@dataclass(frozen=True)
class Item:
    """One question of a benchmark. `id` consists of letters, digits, `.`, `_` and `-`, and is unique."""

    id: str
    category: str
    data: Any = field(repr=False)


@dataclass(frozen=True)
class Prompt:
    """The conversation to send to the model, and the functions that it may call natively."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()

    @classmethod
    def user(cls, text: str, system: str = "") -> Self:
        messages = [Message(role="system", content=system)] if system else []
        return cls((*messages, Message(role="user", content=text)))


@dataclass(frozen=True)
class Verdict:
    """The result of an episode.

    Args:
        score: From 0 to 1. Accuracy is its mean.
        error: Why the score is not 1, in a few words that are the same for all such items: they are counted.
        details: The same in a sentence about this item.
        counts: Further rates by name, as (passed, total). The rate of several items is the quotient of the sums.
    """

    score: float
    error: str = ""
    details: str = ""
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, is_correct: bool, error: str, details: str = "") -> Self:
        return cls(1.0) if is_correct else cls(0.0, error, details)


Episode = Generator[Prompt, Reply, Verdict]


class Benchmark(Protocol):
    """A benchmark whose data is loaded. Subclass it to inherit the defaults of the optional members."""

    name: str
    data_version: str
    """The version of the package with the data, or a checksum of the files. A run resumes only with the same data."""
    categories: Sequence[str]
    averages: Mapping[str, Sequence[str]] = {}
    """Rows of the table below the categories: name, and the categories whose accuracies are averaged."""
    averaged_rates: Mapping[str, Sequence[str]] = {}
    """Columns of the table: name, and the rates of `Verdict.counts` that are averaged."""

    def items(self, category: str) -> Sequence[Item]:
        """All items of a category, in a fixed order."""
        ...

    def episode(self, item: Item) -> Episode:
        """Begin the episode of an item. Several episodes may take place at the same time, in different threads."""
        ...

    def gold_replies(self, item: Item) -> Sequence[Reply] | None:
        """Replies that solve the item, in the order in which its episode asks for them; None if the data has none."""
        ...


def text_reply(text: str) -> Reply:
    """A reply of text alone."""
    return Reply(text=text, model="gold")


def read_data_file(folder: Path | None, names: Sequence[str], where: str) -> tuple[Path, bytes]:
    """Read the first of these files that exists in the folder that the user named.

    Args:
        where: Where to get the data, and under which license. It is part of the error message if there is no such file.
    """
    if folder is None:
        raise BenchmarkError(f"pass --data with the folder of {names[0]}. {where}")
    for name in names:
        file = folder / name
        if file.is_file():
            try:
                return file, read_regular(file.resolve(), max_bytes=MAX_DATA_BYTES)
            except OSError as error:
                raise BenchmarkError(f"cannot read {file}: {error.strerror}") from None
    expected = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    raise BenchmarkError(f"there is no {expected} in {folder}. {where}")


def parse_json_file(file: Path, content: bytes) -> Any:
    try:
        return parse_json(content)
    except ValueError as error:
        raise BenchmarkError(f"{file} is not valid JSON: {error}; get the file again") from None


def parse_json_lines(file: Path, content: bytes) -> list[Any]:
    """One JSON value per line."""
    values = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                values.append(parse_json(line))
            except ValueError as error:
                raise BenchmarkError(
                    f"line {number} of {file} is not valid JSON: {error}; get the file again"
                ) from None
    return values


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
