"""Read the action in a language model's answer.

An answer is data. A name counts where the answer states it as its choice: as JSON, after a label such as "action:",
alone on the last or first line, in quotes or in bold. In prose, only names of several words count, because "do" or
"sleep" are also ordinary words.
"""

import json
import re
from collections.abc import Sequence
from functools import cache

MAX_CHARS = 20_000  # of an answer; what comes before is ignored
LABEL = re.compile(r"\b(?:action|answer|choice|move)\b[\s*_`\"']*(?::|=|\bis\b)", re.IGNORECASE)
QUOTED = re.compile(r"\*\*([^*\n]{1,60})\*\*|`([^`\n]{1,60})`|\"([^\"\n]{1,60})\"|'([^'\n]{1,60})'")
SEPARATORS = r"[\s_-]+"


def parse_action(text: str, actions: Sequence[str]) -> str | None:
    """The action that an answer chooses; None if it chooses none, or more than one."""
    text = text[-MAX_CHARS:]
    names = {_normalize(name): name for name in actions}
    if (action := _find_in_json(text, names)) is not None:
        return action
    for start in [label.end() for label in LABEL.finditer(text)][::-1]:
        if (action := _begins_with(text[start:], actions)) is not None:
            return action
    lines = [line for line in text.splitlines() if line.strip()]
    for line in (*lines[-1:], *lines[:1]):
        if (name := _normalize(re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line))) in names:
            return names[name]
    quoted = [_normalize(next(filter(None, match.groups()), "")) for match in QUOTED.finditer(text)]
    for candidates in (
        [names[name] for name in quoted if name in names],
        [
            _lookup(match[0], names)
            for match in _pattern(tuple(actions)).finditer(text)
            if re.search(SEPARATORS, match[0])
        ],
    ):
        if candidates:
            return candidates[0] if len(set(candidates)) == 1 else None
    return None


def _normalize(text: str) -> str:
    """A name without markup, punctuation at its ends, and differences of case and separators."""
    return re.sub(SEPARATORS, " ", text.strip(" \t\r\n*_`\"'.,;:!?()[]{}<>#")).lower()


def _lookup(text: str, names: dict[str, str]) -> str:
    return names[_normalize(text)]


@cache
def _pattern(actions: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the names as whole words, the longest first, with any separators between their words."""
    words = [
        [re.escape(word) for word in re.split(SEPARATORS, name)] for name in sorted(actions, key=len, reverse=True)
    ]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(SEPARATORS.join(parts) for parts in words)})(?![\w-])", re.IGNORECASE)


def _begins_with(text: str, actions: Sequence[str]) -> str | None:
    """The name at the beginning of a text, after markup and before anything that is not a word."""
    match = _pattern(tuple(actions)).match(text.lstrip(" \t\r\n*_`\"'([{<"))
    return _lookup(match[0], {_normalize(name): name for name in actions}) if match else None


def _find_in_json(text: str, names: dict[str, str]) -> str | None:
    """The value of "action" in the last JSON object of the text."""
    for start in [match.start() for match in re.finditer(r"\{", text)][::-1]:
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("action"), str):
            return names.get(_normalize(value["action"]))
    return None
