"""Read the levels in a language model's reply: find the JSON in it, repair common slips, validate the levels.

A reply is data. It is parsed, never evaluated, in bounded time; its free text is cut to a fixed length and to printable
characters.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from envgen import text as safe_text
from envgen.settings import format_choice_error
from envgen.worlds.world import LevelError

from .designer import MAX_WEIGHT, MIN_WEIGHT, Brief, LevelChain, ProposedLevel
from .earlier_levels import EarlierLevel, chain_stages, make_chain, merge_settings

KEYS = ("purpose", "skills", "level")
RICH_KEYS = (*KEYS, "weight", "base", "chain")
NO_BASE = "none"

MAX_CHARS = 100_000  # of a reply; longer ones are rejected
MAX_TEXT_CHARS = 400  # of free text that is kept
MAX_ERROR_CHARS = 800  # of an error message, which may quote the reply
MAX_ERRORS = 10  # reported to the model


class ParsedReply(NamedTuple):
    levels: tuple[ProposedLevel, ...]  # the valid ones
    errors: tuple[str, ...]  # messages for the author of the reply
    positions: tuple[int, ...] = ()  # of the valid levels in the reply, from 0


def parse_reply(
    text: str,
    brief: Brief,
    clean: Callable[[Any], Any] = lambda value: value,
    earlier_levels: Mapping[str, EarlierLevel] | None = None,
) -> ParsedReply:
    """Parse the levels in a reply and validate each of them.

    Args:
        clean: Removes from decoded text what must not be recorded.
        earlier_levels: The levels that new ones may be based on, by name; None where levels have no base, no chain and
            no weight.
    """
    if not text.strip():
        return ParsedReply((), ("the reply is empty",))
    text = safe_text.strip_reasoning(text)
    if not text.strip():
        return ParsedReply((), ("the reply contains only reasoning",))
    if len(text) > MAX_CHARS:
        return ParsedReply((), (f"the reply has {len(text):,} characters; the limit is {MAX_CHARS:,}",))
    items, json_error = find_items(text, brief.Level.model_fields.keys())
    items, json_error = clean(items), clean(json_error)
    if items is None:
        return ParsedReply((), (json_error or "the reply has no JSON object with a list of levels",))
    levels, errors, positions = [], [], []
    if len(items) != brief.num_levels:
        errors.append(f"the number of levels is {len(items)}, not {brief.num_levels}")
        errors += [json_error] if json_error else []
    for k, item in enumerate(items[: brief.num_levels]):
        try:
            levels.append(_parse_item(item, brief, earlier_levels))
            positions.append(k)
        except (_ItemError, LevelError) as error:
            errors.append(printable(f"level {k + 1}: {error}", MAX_ERROR_CHARS))
    if len(errors) > MAX_ERRORS:
        errors[MAX_ERRORS:] = [f"and {len(errors) - MAX_ERRORS} more errors"]
    return ParsedReply(tuple(levels), tuple(errors), tuple(positions))


class _ItemError(ValueError):
    """What is wrong with a level, in words for the author of the reply."""


def _parse_item(item: Any, brief: Brief, earlier_levels: Mapping[str, EarlierLevel] | None) -> ProposedLevel:
    """One level. Raises _ItemError or LevelError."""
    settings = _check_keys(item, KEYS if earlier_levels is None else RICH_KEYS)
    earlier_levels = earlier_levels or {}
    skills = _parse_skills(item.get("skills"), brief)
    base = _parse_base(item.get("base"), earlier_levels)
    weight = _parse_weight(item.get("weight"))
    chain_skill = _normalize(item.get("chain") or NO_BASE)
    chain_skill = "" if chain_skill == NO_BASE else chain_skill
    if base:
        source = earlier_levels[base].proposed
        skills = skills or source.skills
        if source.chain is not None:
            if settings:
                raise _ItemError(f'level {base} is a chain, which can be repeated but not changed; leave "level" empty')
            if chain_skill not in ("", source.chain.skill):
                raise _ItemError(f'level {base} is a chain for {source.chain.skill}; leave out "base" or "chain"')
            chain_skill = source.chain.skill
        elif chain_skill:
            raise _ItemError(f'a chain has no base; leave out "chain", or "base" {base}')
        else:
            settings = merge_settings(source.level.to_overrides(), settings)
    if chain_skill:
        chain = _parse_chain(chain_skill, settings, brief, earlier_levels)
        level, skills = chain.levels[chain.start], skills or (chain_skill,)
    else:
        chain, level = None, brief.Level.parse(settings)
    purpose = printable(item.get("purpose") or "")
    return ProposedLevel(level=level, purpose=purpose, skills=skills, weight=weight, base=base, chain=chain)


def _check_keys(item: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """The settings of a level. It may have none if it has a base or a chain."""
    has_source = keys is RICH_KEYS and isinstance(item, dict) and not item.keys().isdisjoint(("base", "chain"))
    if not isinstance(item, dict) or ("level" not in item and not has_source):
        raise _ItemError(f'expected an object with "purpose", "skills" and "level", not {json.dumps(item)[:80]}')
    settings = item.get("level")
    if settings is None and has_source:
        settings = {}
    settings = _without_nulls(settings)
    if not isinstance(settings, dict):
        raise _ItemError(f'"level" must be an object with settings, not {json.dumps(settings)[:80]}')
    if unknown := [key for key in item if key not in keys]:
        names = ", ".join(f'"{key}"' for key in keys[:-1])
        raise _ItemError(f'{unknown[0][:80]!r} is not {names} or "{keys[-1]}"; settings belong inside "level"')
    return settings


def _without_nulls(settings: Any) -> Any:
    """The settings without those that are null, which models write for what they leave out."""
    if not isinstance(settings, dict):
        return settings
    return {name: _without_nulls(value) for name, value in settings.items() if value is not None}


def _parse_skills(value: Any, brief: Brief) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _ItemError(f'"skills" must be a list of names, not {json.dumps(value)[:80]}')
    by_normalized_name = {_normalize(skill.name): skill.name for skill in brief.skills}
    for name in value:
        if _normalize(name) not in by_normalized_name:
            raise _ItemError(f"skill {format_choice_error(str(name)[:80], [*by_normalized_name.values()])}")
    return tuple(dict.fromkeys(by_normalized_name[_normalize(name)] for name in value))


def _parse_base(value: Any, earlier_levels: Mapping[str, EarlierLevel]) -> str:
    """The name of an earlier level; empty for a new level."""
    words = str("" if value is None else value).strip().lower().split()
    if not words or words[-1] in (NO_BASE, "new"):
        return ""
    base = words[-1]  # also of "Level 1.2"
    if isinstance(value, float) and f"{base}0" in earlier_levels:
        raise _ItemError(f'"base" must be a string: the number {base} could be level {base} or level {base}0')
    if base not in earlier_levels:
        known = ", ".join(earlier_levels) or "there are none yet"
        raise _ItemError(f'"base" {base[:80]!r} is not the name of an earlier level ({known})')
    return base


def _parse_weight(value: Any) -> float:
    if value is None:
        return 1
    weight = math.nan
    if type(value) in (int, float, str):
        with suppress(ValueError):
            weight = float(value)
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        raise _ItemError(
            f'"weight" must be a number from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, not {json.dumps(value)[:80]}'
        )
    return weight


def _parse_chain(
    skill: str, settings: Mapping[str, Any], brief: Brief, earlier_levels: Mapping[str, EarlierLevel]
) -> LevelChain:
    names = list(chain_stages(brief))
    if skill not in names:
        raise _ItemError(f'"chain" {format_choice_error(skill, names) if names else "is not possible in this world"}')
    if settings:
        raise _ItemError('a chain has no settings of its own; leave "level" empty, or leave out "chain"')
    return make_chain(skill, brief, earlier_levels)


def _normalize(name: Any) -> str:
    return "_".join(re.split(r"[\s_-]+", str(name).strip().lower()))


def printable(text: Any, max_chars: int = MAX_TEXT_CHARS) -> str:
    return safe_text.printable(str(text)[:max_chars]).strip()


# --- Which JSON in the text is meant


def find_items(text: str, setting_names: Any) -> tuple[list[Any] | None, str]:
    """Find the list of levels in a text, and the error in its JSON if some of it is broken.

    The last list named "levels" is taken, else the last list of objects, else all objects that look like levels. An
    object may be a level with its purpose and skills, or just the settings of a level.
    """
    setting_names = set(setting_names)
    spans = list(iter_json(text))
    values, broken = [span for span in spans if not span.error], [span for span in spans if span.error]
    if broken_lists := [span for span in broken if '"levels"' in text[span.start : span.end]]:
        values = [span for span in values if span.start > broken_lists[-1].start]  # anything before was a draft
    named = [items for span in values if (items := _find_levels(span.value)) is not None]
    lists = [
        span.value for span in values if isinstance(span.value, list) and span.value and isinstance(span.value[0], dict)
    ]
    objects = [span.value for span in values if _may_be_level(span, setting_names)]
    named = [items for items in named if items] or named
    items = _to_list(named[-1]) if named else lists[-1] if lists else objects or None
    if items is not None:
        items = [{"level": item} if isinstance(item, dict) and item.keys() <= setting_names else item for item in items]
    return items, broken[-1].error if broken else ""


def _find_levels(value: Any) -> Any:
    """The value of the outermost key "levels" in an object, or None."""
    objects = [value] if isinstance(value, dict) else []
    while objects:
        if matches := [obj["levels"] for obj in objects if isinstance(obj.get("levels"), list | str)]:
            return matches[-1]
        objects = [inner for obj in objects for inner in obj.values() if isinstance(inner, dict)]
    return None


def _to_list(items: list[Any] | str) -> list[Any] | None:
    """The list itself, even if the model wrote it as a JSON string."""
    if isinstance(items, list):
        return items
    return next((span.value for span in iter_json(items) if isinstance(span.value, list)), None)


def _may_be_level(span: "JsonSpan", setting_names: set[str]) -> bool:
    """Whether an object may be a level on its own. A fragment of broken JSON can look like one."""
    value = span.value
    if not isinstance(value, dict) or "level" in value:
        return isinstance(value, dict)
    return len(value) > 0 and not span.inside_broken and value.keys() <= setting_names


# --- JSON anywhere in a text, with the slips that language models make repaired
#
# json-repair was tried instead: it needs more than 15 seconds for 100,000 characters of '["', exceeds the recursion
# limit on nested brackets, and reports a reply that was cut off as complete.

# Where JSON is broken, the search continues inside it. These limits bound the time for that.
MAX_ATTEMPTS = 2_000  # positions at which parsing is tried
MAX_PARSED_CHARS = 10 * MAX_CHARS  # in all attempts together
MAX_DEPTH = 20  # nested objects and lists

OPENING = re.compile(r"[{\[]")
JSON_START = re.compile(r'\{\s*"[^"\n]*"\s*:|\[\s*\{\s*"')  # does not occur in prose
TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]++|\\.)*+(?:"|\Z))'
    r"|(?P<space>(?:\s|//[^\n]*|\#[^\n]*|/\*(?:.*?\*/|.*))++)"  # comments count as space
    r"|[A-Za-z_]\w*|.",
    re.DOTALL,
)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
PYTHON_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
MAX_DIGITS = 18  # longer integers become floats, which no setting accepts
DECODER = json.JSONDecoder(strict=False, parse_int=lambda text: int(text) if len(text) <= MAX_DIGITS else float(text))


class JsonSpan(NamedTuple):
    """A part of a text that starts with a bracket: a value, or broken JSON with its error."""

    start: int
    end: int
    value: Any = None
    error: str = ""
    inside_broken: bool = False  # within broken JSON


def iter_json(text: str) -> Iterator[JsonSpan]:
    """Yield every outermost JSON object and list in a text."""
    position = broken_end = num_chars = 0
    for _ in range(MAX_ATTEMPTS):
        opening = OPENING.search(text, position)
        if opening is None or num_chars > MAX_PARSED_CHARS:
            return
        start = opening.start()
        repaired, end = repair(text, start)
        num_chars += end - start
        try:
            value = DECODER.decode(repaired)
        except json.JSONDecodeError as error:
            position = start + 1
            if start >= broken_end and JSON_START.match(text, start):
                broken_end = end
                yield JsonSpan(start, end, error=_describe(error))
        else:
            position = end
            yield JsonSpan(start, end, value, inside_broken=start < broken_end)


def _describe(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
        return "the JSON has no end; the reply may have been cut off"
    context = error.doc[max(0, error.pos - 30) : error.pos + 20]
    return printable(f"the JSON is broken in {context!r}: {error.msg}")


def repair(text: str, start: int) -> tuple[str, int]:
    """The JSON from an opening bracket to the one that closes it, repaired, and where it ends.

    Removes comments, trailing commas and needless backslashes, and replaces Python's constants by JSON's.
    """
    output: list[str] = []
    comma, depth, end = "", 0, start
    for token in TOKEN.finditer(text, start):
        word, end = token[0], token.end()
        if token["space"]:
            word = " "
        elif word == ",":
            output.append(comma)
            comma = ","
            continue
        else:
            output.append("" if word in "]}" else comma)
            comma = ""
        if token["string"]:
            word = ESCAPE.sub(lambda match: match[0] if match[1] in '"\\/bfnrtu' else match[1], word)
        output.append(PYTHON_CONSTANTS.get(word, word))
        depth += (word in "[{") - (word in "]}")
        if depth == 0 or depth > MAX_DEPTH:
            break
    return "".join(output), end
