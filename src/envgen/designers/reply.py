"""The levels in a language model's reply: found in JSON, in fences or in prose, then held to the schema.

What a model wrote is data. It is parsed, never evaluated; what it says in words is cut to length and to printable
characters, and only ever shown.
"""

import json
import re
from typing import Any, NamedTuple

from envgen.settings import nearest
from envgen.worlds.world import LevelError

from .designer import Brief, ProposedLevel, to_overrides
from .json_in_text import LONGEST, Piece, pieces, printable

COMPLAINT = 800  # characters of a problem, which may quote the reply
TOLD = 10  # problems that are told


class Understood(NamedTuple):
    levels: tuple[ProposedLevel, ...]  # those that are right
    problems: tuple[str, ...]  # a sentence each, for whoever wrote the reply


def understand(text: str, brief: Brief) -> Understood:
    if not text.strip():
        return Understood((), ("the reply is empty",))
    if len(text) > LONGEST:
        return Understood((), (f"the reply has {len(text):,} characters; at most {LONGEST:,} are read",))
    items, trouble = items_in(text, set(brief.Level.model_fields))
    if items is None:
        return Understood((), (trouble or "there is no JSON object with a list of levels in it",))
    levels, problems = [], []
    if len(items) != brief.num_levels:
        problems.append(f"the number of levels is {len(items)}, not {brief.num_levels}")
        problems += [trouble] if trouble else []
    for k, item in enumerate(items[: brief.num_levels]):
        one = _proposed(item, brief)
        if isinstance(one, str):
            problems.append(printable(f"level {k + 1}: {one}", COMPLAINT))
        else:
            levels.append(one)
    if len(problems) > TOLD:
        problems[TOLD:] = [f"and {len(problems) - TOLD} problems more"]
    return Understood(tuple(levels), tuple(problems))


def _proposed(item: Any, brief: Brief) -> ProposedLevel | str:
    """One level, or what is wrong with it."""
    if not isinstance(item, dict) or not isinstance(item.get("level"), dict):
        return f'it should be an object with "purpose", "skills" and "level", not {json.dumps(item)[:80]}'
    if unknown := [key for key in item if key not in ("purpose", "skills", "level")]:
        return f'{unknown[0][:80]!r} is not "purpose", "skills" or "level"; settings belong into "level"'
    skills, names = item.get("skills", []), [skill.name for skill in brief.skills]
    if not isinstance(skills, list):
        return f'"skills" should be a list of names, not {json.dumps(skills)[:80]}'
    known = {_plain(name): name for name in names}
    for skill in skills:
        if _plain(skill) not in known:
            return f"skill {nearest(str(skill)[:80], names)}"
    try:
        level = to_overrides(item["level"], brief.Level)
    except LevelError as error:
        return str(error)
    purpose = printable(item.get("purpose") or "")
    return ProposedLevel(
        level=level, purpose=purpose, skills=tuple(dict.fromkeys(known[_plain(skill)] for skill in skills))
    )


def _plain(name: Any) -> str:
    return "_".join(re.split(r"[\s_-]+", str(name).strip().lower()))


def items_in(text: str, settings: set[str]) -> tuple[list[Any] | None, str]:
    """The list of levels that a text holds: the last that is called so, else the last list, else its objects. Beside
    it what is wrong with the JSON, if some of it is broken.

    An object may be a level with its purpose or its bare settings.
    """
    found = list(pieces(text))
    values, broken = [one for one in found if not one.trouble], [one for one in found if one.trouble]
    if unread := [one for one in broken if '"levels"' in text[one.start : one.end]]:
        values = [one for one in values if one.start > unread[-1].start]  # what came before was a draft
    called = [items for one in values if (items := _called_levels(one.value)) is not None]
    lists = [one.value for one in values if isinstance(one.value, list) and isinstance([*one.value, 0][0], dict)]
    objects = [one.value for one in values if _is_level(one, settings)]
    items = _as_list(called[-1]) if called else lists[-1] if lists else objects or None
    if items is not None:
        items = [{"level": one} if isinstance(one, dict) and one.keys() <= settings else one for one in items]
    return items, broken[-1].trouble if broken else ""


def _called_levels(value: Any) -> Any:
    """What is called "levels" in an object, the least deep inside; None if nothing is."""
    row = [value] if isinstance(value, dict) else []
    while row:
        if found := [one["levels"] for one in row if isinstance(one.get("levels"), list | str)]:
            return found[-1]
        row = [inner for one in row for inner in one.values() if isinstance(inner, dict)]
    return None


def _as_list(items: list[Any] | str) -> list[Any] | None:
    """The list itself, also where a model wrote it as a text."""
    if isinstance(items, list):
        return items
    return next((piece.value for piece in pieces(items) if isinstance(piece.value, list)), None)


def _is_level(piece: Piece, settings: set[str]) -> bool:
    """Whether an object may be a level by itself; a part of something broken may look like one."""
    one = piece.value
    if not isinstance(one, dict) or "level" in one:
        return isinstance(one, dict)
    return len(one) > 0 and not piece.inside and one.keys() <= settings
