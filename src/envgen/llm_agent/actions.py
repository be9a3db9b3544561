"""Read the action in a language model's answer.

An answer is data. A name counts where the answer states it as its choice: as JSON, after a label such as "action:",
alone on the last or first line, in quotes or in bold. In prose, only names of several words count, because "do" or
"sleep" are also ordinary words. Names after "not" do not count. Reasoning up to a `</think>`, or without an end, is
ignored.
"""

import json
import re
from collections.abc import Sequence
from functools import cache

from envgen.text import strip_reasoning

MAX_CHARS = 20_000  # of an answer; what comes before is ignored
LABEL = re.compile(r"\b(?:action|answer|choice|move)\b[\s*_`\"']*(?::|=|(?P<verb>\bis\b))", re.IGNORECASE)
EARLIER = re.compile(r"\b(?:last|previous|past|prior|earlier)[\s*_`\"']*$", re.IGNORECASE)  # before a label
ARTICLE = re.compile(r"\s*an? +\w", re.IGNORECASE)  # after "is": the name "a" does not count in "is a good move"
QUOTED = re.compile(r"\*\*([^*\n]{1,60})\*\*|`([^`\n]{1,60})`|\"([^\"\n]{1,60})\"|'([^'\n]{1,60})'")
SEPARATORS = r"[\s_-]+"
MARKUP = r"[\s*_`\"']*"
ALTERNATIVE = re.compile(rf"{MARKUP}(?:\(?(?:[,;/|&+]|->|\b(?:or|and|then)\b){MARKUP})*", re.IGNORECASE)  # to a name
NEGATION = re.compile(r"\s+(?:not|nothing)\b", re.IGNORECASE)  # after a name: "do not move" is no choice
NEGATED = re.compile(  # before a name
    r"(?:\b(?:not|never|cannot|avoid|instead of|rather than)|n['’]t)\s+(?:(?:to|use|choose|take|try)\s+)*[*_`\"']*$",
    re.IGNORECASE,
)
MAX_CHARS_BEFORE = 60  # a label or a name, in which EARLIER and NEGATED are searched


def parse_action(text: str, actions: Sequence[str]) -> str | None:
    """The action that an answer chooses; None if it chooses none, or more than one."""
    text = strip_reasoning(text)[-MAX_CHARS:]
    names = {_normalize(name): name for name in actions}
    action, text = _find_in_json(text, names)
    if action is not None:
        return action
    text = _complete_alternatives(text, names)
    for label in [*LABEL.finditer(text)][::-1]:
        following = text[label.end() :]
        if (label["verb"] and ARTICLE.match(following)) or _ends_before(EARLIER, text, label.start()):
            continue
        if chosen := _names_at_start(following, names):
            return chosen[0] if len(set(chosen)) == 1 else None
    lines = [_normalize(re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line)) for line in text.splitlines() if line.strip()]
    for line, neighbor in ((lines[-1:], lines[-2:-1]), (lines[:1], lines[1:2])):
        if chosen := {names[name] for name in line if name in names}:
            return chosen.pop() if chosen >= {names[name] for name in neighbor if name in names} else None
    quoted = [
        names[name]
        for match in QUOTED.finditer(text)
        if (name := _normalize(next(filter(None, match.groups()), ""))) in names and not _is_negated(text, match)
    ]
    in_prose = [
        _lookup(match[0], names)
        for match in _pattern(tuple(names.values())).finditer(text)
        if re.search(SEPARATORS, match[0]) and not _is_negated(text, match)
    ]
    for candidates in (quoted, in_prose):
        if candidates:
            return candidates[0] if len(set(candidates)) == 1 else None
    return None


def _is_negated(text: str, match: re.Match[str]) -> bool:
    """Whether a name is one that the answer rejects ("I cannot move left")."""
    return _ends_before(NEGATED, text, match.start())


def _ends_before(pattern: re.Pattern[str], text: str, end: int) -> bool:
    """Whether what stands right before a position matches a pattern, which ends with `$`. Searched close to it only,
    so that a long answer of many labels or names takes no longer than another."""
    return pattern.search(text, max(0, end - MAX_CHARS_BEFORE), end) is not None


def _normalize(text: str) -> str:
    """A name without markup, punctuation at its ends, separators, and differences of case."""
    return re.sub(SEPARATORS, "", text.strip(" \t\r\n*_`\"'.,;:!?()[]{}<>#")).lower()


def _lookup(text: str, names: dict[str, str]) -> str:
    return names[_normalize(text)]


@cache
def _pattern(actions: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the names as whole words, the longest first. Separators may differ: "pick up" is `pickup`."""
    spellings = [
        r"[\s_-]*".join("[ _-]?".join(map(re.escape, word)) for word in re.split(SEPARATORS, name))
        for name in sorted(actions, key=len, reverse=True)
    ]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(spellings)})(?![\w-])", re.IGNORECASE)


def _complete_alternatives(text: str, names: dict[str, str]) -> str:
    """Write "move left or right" as "move left or move right", so that both names count."""

    def complete(match: re.Match[str]) -> str:
        name, conjunction, other = match.groups()
        *shared, _ = re.split(SEPARATORS, _lookup(name, names))
        if not shared or _normalize("".join([*shared, other])) not in names:
            return match[0]
        return f"{name}{conjunction}{' '.join(shared)} {other}"

    pattern = rf"({_pattern(tuple(names.values())).pattern})({MARKUP}(?:/|\bor\b){MARKUP})(\w+)"
    return re.sub(pattern, complete, text, flags=re.IGNORECASE)


def _names_at_start(text: str, names: dict[str, str]) -> list[str]:
    """The name at the beginning of a text, after markup, and alternatives to it in the same line ("left or right")."""
    text = text.lstrip(" \t\r\n*_`\"'([{<")
    pattern = _pattern(tuple(names.values()))
    found: list[str] = []
    start = 0
    while (match := pattern.match(text, start)) and not NEGATION.match(text, match.end()):
        found.append(_lookup(match[0], names))
        following = ALTERNATIVE.match(text, match.end())
        if following is None or "\n" in following[0]:
            break
        start = following.end()
    return found


def _find_in_json(text: str, names: dict[str, str]) -> tuple[str | None, str]:
    """The value of "action" in the last JSON object of the text that has one. Objects inside it do not count.

    Also returns the text without this object, whose other values are not the choice, whether or not it is valid.
    """
    decoder, value, span = json.JSONDecoder(strict=False), "", (0, 0)
    for start in [match.start() for match in re.finditer(r"\{", text)]:
        if start < span[1]:
            continue
        try:
            data, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and isinstance(data.get("action"), str):
            value, span = data["action"], (start, stop)
    chosen = set(_names_at_start(_complete_alternatives(value, names), names))
    return chosen.pop() if len(chosen) == 1 else None, text[: span[0]] + text[span[1] :]
