"""Text from outside, such as a server's message or a name in a run directory, made safe to show or to name a
directory, and the replies of language models without their reasoning.
"""

import re

REASONING_START = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
REASONING_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)


def printable(text: str, keep: str = "") -> str:
    """Replace every character that a terminal could interpret, or that cannot be shown, by a space.

    These are control characters such as escape and line breaks, characters that change the direction of text, and
    surrogates. The characters in `keep` stay.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def strip_reasoning(reply: str) -> str:
    """A reply of a language model without its reasoning: what follows the last `</think>`.

    Nothing is left of a reply that ended, such as at its maximum length, within reasoning that begins with `<think>`.
    """
    answer = REASONING_END.split(reply)[-1]
    return "" if REASONING_START.match(answer) else answer


def plural(count: int, noun: str) -> str:
    """A number of things, such as "1 run" or "2,000 runs"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def to_file_name(name: str) -> str:
    """A name without the separators of paths."""
    return name.replace("/", "-").replace("\\", "-")


def model_label(llm: str) -> str:
    """A language model as a part of the name of a directory: `openai:org/model` becomes `openai-org-model`."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", llm).strip("-.")


def to_label(name: str) -> str:
    """A name as a part of the name of a directory: `module:Class` becomes `module-Class`."""
    return name.replace(":", "-").replace(".", "-")
