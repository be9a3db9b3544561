"""The levels in a language model's reply: found in JSON, in fences or in prose, then held to the schema.

What a model wrote is data. It is parsed, never evaluated; what it says in words is cut to length and to printable
characters, and only ever shown.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from envgen.worlds.world import LevelError, nearest

from .designer import Brief, Proposed, normal

LONGEST = 100_000  # characters that are read
ATTEMPTS = 2_000  # places at which JSON is looked for
WORDS = 400  # characters kept of a purpose
CONSTANTS = {"True": "true", "False": "false", "None": "null"}


class Understood(NamedTuple):
    levels: tuple[Proposed, ...]  # those that are right
    problems: tuple[str, ...]  # a sentence each, for whoever wrote the reply


def understand(text: str, brief: Brief) -> Understood:
    if not text.strip():
        return Understood((), ("the reply is empty",))
    if len(text) > LONGEST:
        return Understood((), (f"the reply has {len(text):,} characters; at most {LONGEST:,} are read",))
    items = items_in(text, set(brief.Level.model_fields))
    if items is None:
        return Understood((), ("there is no JSON object with a list of levels in it",))
    levels, problems = [], []
    if len(items) != brief.wanted:
        problems.append(f"there are {len(items)} levels, and {brief.wanted} are wanted")
    for k, item in enumerate(items):
        one = _proposed(item, brief)
        if isinstance(one, str):
            problems.append(f"level {k + 1}: {one}")
        else:
            levels.append(one)
    return Understood(tuple(levels), tuple(problems))


def _proposed(item: Any, brief: Brief) -> Proposed | str:
    """One level, or what is wrong with it."""
    if not isinstance(item, dict) or not isinstance(item.get("level"), dict):
        return f'it should be an object with "purpose", "skills" and "level", not {json.dumps(item)[:80]}'
    if unknown := [key for key in item if key not in ("purpose", "skills", "level")]:
        return f'{unknown[0][:80]!r} is not "purpose", "skills" or "level"; settings belong into "level"'
    skills, names = item.get("skills", []), [skill.name for skill in brief.skills]
    if not isinstance(skills, list):
        return f'"skills" should be a list of names, not {json.dumps(skills)[:80]}'
    for skill in skills:
        if skill not in names:
            return f"skill {nearest(str(skill)[:80], names)}"
    try:
        level = normal(item["level"], brief.Level)
    except LevelError as error:
        return str(error)
    return Proposed(level=level, purpose=printable(item.get("purpose", "")), skills=tuple(dict.fromkeys(skills)))


def printable(text: Any) -> str:
    return "".join(c if c.isprintable() else " " for c in str(text)[:WORDS]).strip()


def items_in(text: str, settings: set[str]) -> list[Any] | None:
    """The list of levels that a text holds: the last that is called so, else the last list, else its objects.

    An object may be a level with its purpose or its bare settings.
    """
    found = list(values_in(text))
    objects = [value for value in found if isinstance(value, dict)]
    items: list[Any] | None = None
    if called := [value["levels"] for value in objects if isinstance(value.get("levels"), list)]:
        items = called[-1]
    elif lists := [value for value in found if isinstance(value, list) and value and isinstance(value[0], dict)]:
        items = lists[-1]
    elif objects:
        items = [one for one in objects if "level" in one or one.keys() <= settings]
    if not items:
        return None
    return [{"level": one} if isinstance(one, dict) and one.keys() <= settings else one for one in items]


def values_in(text: str) -> Iterator[Any]:
    """Every JSON object and list in a text, outermost only, with the slips that models make forgiven."""
    plain, decoder, at = forgiven(text), json.JSONDecoder(parse_constant=_refuse), 0
    for _ in range(ATTEMPTS):
        starts = [place for place in (plain.find("{", at), plain.find("[", at)) if place >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = decoder.raw_decode(plain, at)
            yield value
        except (ValueError, RecursionError):
            at += 1


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def forgiven(text: str) -> str:
    """Without comments and trailing commas, and with JSON's own constants for Python's."""
    kept: list[str] = []
    k = 0
    while k < len(text):
        if text[k] == '"':
            end = _end_of_string(text, k)
            kept.append(text[k:end])
            k = end
        elif text.startswith("//", k) or text[k] == "#":
            k = _or_end(text.find("\n", k), text)
        elif text.startswith("/*", k):
            k = _or_end(text.find("*/", k) + 2 if "*/" in text[k:] else -1, text)
        elif text[k].isalpha():
            end = k
            while end < len(text) and (text[end].isalnum() or text[end] == "_"):
                end += 1
            kept.append(CONSTANTS.get(text[k:end], text[k:end]))
            k = end
        else:
            if text[k] in "]}":
                _drop_comma(kept)
            kept.append(text[k])
            k += 1
    return "".join(kept)


def _end_of_string(text: str, start: int) -> int:
    """Just behind a string that begins at `start`. JSON's end on their line; in prose a quote may stand alone."""
    k = start + 1
    while k < len(text) and text[k] not in '"\n':
        k += 2 if text[k] == "\\" else 1
    return min(k + 1, len(text)) if k < len(text) and text[k] == '"' else start + 1


def _or_end(place: int, text: str) -> int:
    return place if place >= 0 else len(text)


def _drop_comma(kept: list[str]) -> None:
    k = len(kept) - 1
    while k >= 0 and kept[k].isspace():
        k -= 1
    if k >= 0 and kept[k] == ",":
        del kept[k]
