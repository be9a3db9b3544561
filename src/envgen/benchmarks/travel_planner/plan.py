"""A plan in a reply: one object per day, read as data within limits."""

import ast
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from envgen.coevolution.domains.travel.plan import FIELDS, MAX_VALUE_CHARS, Day
from envgen.python_source import PARSE_ERRORS, parse_expression

MAX_CHARS = 50_000  # of the text of a plan
MAX_DEPTH = 20
MAX_DAYS = 60
MAX_STARTS = 20  # arrays that are tried, the last ones first
START = re.compile(r"\[\s*\{")


def find_plan(text: str) -> list[Day] | None:
    """The plan in a reply; None if it has none. It is a JSON array of objects, or the same in Python's syntax.

    Other text around it may contain brackets. Of several arrays, the last is taken.
    """
    starts = [match.start() for match in START.finditer(text)] or [max(0, text.find("["))]
    for start in reversed(starts[-MAX_STARTS:]):
        value = _parse_array(text[start : start + MAX_CHARS])
        if (plan := read_plan(value)) is not None:
            return plan
    return None


def _parse_array(source: str) -> Any:
    """The array that a text begins with; None if it is broken or too deep."""
    stop = source.rfind("]") + 1
    if not _is_shallow(source[:stop]):
        return None
    try:
        return json.JSONDecoder().raw_decode(source)[0]
    except (ValueError, RecursionError):
        pass
    with suppress(*PARSE_ERRORS):
        return ast.literal_eval(parse_expression(source[:stop]))
    return None


def read_plan(value: Any) -> list[Day] | None:
    """The days of a plan, without empty ones at the end."""
    if not isinstance(value, list):
        return None
    days = [_read_day(entry) if isinstance(entry, Mapping) else Day() for entry in value[:MAX_DAYS]]
    while days and days[-1] == Day():
        days.pop()
    return days or None


def _is_shallow(source: str) -> bool:
    depth = 0
    for char in source:
        depth += (char in "([{") - (char in ")]}")
        if depth > MAX_DEPTH:
            return False
    return True


def _read_day(entry: Mapping[Any, Any]) -> Day:
    fields = {str(key).strip().lower().replace(" ", "_"): value for key, value in entry.items()}
    return Day(**{name: _read_field(fields[name]) for name in FIELDS if name in fields})


def _read_field(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = "".join(f"{part};" for part in value if isinstance(part, str))
    return (value.strip()[:MAX_VALUE_CHARS] if isinstance(value, str) else "") or "-"
