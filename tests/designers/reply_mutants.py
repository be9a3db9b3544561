"""Damaged replies of a language model, for the tests of the parser and the attacks."""

import copy
import functools
import json
import random
from typing import Any

from envgen.designers import prompt
from envgen.designers.reply import MAX_ERROR_CHARS, ParsedReply
from envgen.settings import unflatten
from envgen.worlds.level_space import setting_values

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 5, 6, 10**17, 10**18, 10**400, 10**4000, 2.5, 5.0, -0.0, 1e300,
    float("nan"), float("inf"), -float("inf"), "", " ", "0", "5", " 5 ", "5.0", "-5", "+5", "1e1", "5_0", "six",
    "9" * 5000, "٥", "true", "True", "None", "NaN", "null", "original", "ORIGINAL", "very common", "x" * 5_000,
    "\ud800", "\x00", "\u202e", "parameter1", "parameter2", "option1", "option999", "item1", "goal1", "world1",
    "levels", "level", "{}", "[5]", [], [5], ["5"], [[]], [None], {}, {"5": 5}, {"": ""}, {"level": {}},
    {"levels": []}, {"blue": "yes"}, {"x" * 5_000: 1},
    functools.reduce(lambda inner, _: [inner], range(15), 0),
    functools.reduce(lambda inner, _: {"a": inner}, range(30), {}),
]  # fmt: skip
SCRAPS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "5",
    '"5"',
    "NaN",
    "-",
    "1e999",
    "null",
    "//",
    "#",
    "\ud800",
    "",
    " ",
]


def valid_reply(world: Any, rng: random.Random) -> dict[str, Any]:
    space = setting_values(world.Level)

    def item() -> dict[str, Any]:
        picked = rng.sample(sorted(space), rng.randint(1, 6))
        skills = [skill.name for skill in rng.sample(world.skills, rng.randint(0, 2))]
        level = unflatten({name: rng.choice(space[name]) for name in picked})
        return {"purpose": "p", "skills": skills, "level": level}

    return {"reasoning": "r", "levels": [item(), item()]}


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as its container and its key or index."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [node for key in keys for node in ((value, key), *nodes(value[key]))]


def mutate(reply: dict[str, Any], rng: random.Random) -> None:
    if not reply:
        return
    holder, key = rng.choice(nodes(reply))
    value = copy.deepcopy(rng.choice(VALUES))
    names = [name for inner, name in nodes(reply) if isinstance(inner, dict)]
    match rng.randrange(6):
        case 0 | 1 | 2:
            holder[key] = value
        case 3:
            holder[key] = str(holder[key])
        case 4 if isinstance(holder, dict):
            name = rng.choice([*names, *(item for item in VALUES if isinstance(item, str))])
            holder[name] = holder.pop(key) if rng.random() < 0.5 else value
        case _ if isinstance(holder, list):
            holder.insert(key, value)
        case _:
            holder.pop(key)


def damage(text: str, rng: random.Random) -> str:
    position = rng.randrange(len(text) + 1)
    return text[:position] + rng.choice(SCRAPS) + text[position + rng.choice([0, 0, 1, 1, 3, 20]) :]


def mutant(world: Any, rng: random.Random) -> str:
    reply = valid_reply(world, rng)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        mutate(reply, rng)
    text = json.dumps(reply, ensure_ascii=False)
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        text = damage(text, rng)
    return text


def find_problem(world: Any, parsed: ParsedReply, brief: Any, names: Any = None) -> str:
    """What is wrong with a parsed reply: it must be levels, or sentences about errors; empty if nothing is."""
    if not (parsed.errors or len(parsed.levels) == brief.num_levels):
        return "neither errors nor enough levels"
    for level in parsed.levels:
        json.dumps(level.model_dump(mode="json"), allow_nan=False).encode()
        if not isinstance(level.level, world.Level):
            return "a level of another class"
        if world.Level.parse(level.level.to_overrides()) != level.level:
            return "a level that does not survive being written"
        if hasattr(level.level, "to_params"):  # what the engine of its world reads
            level.level.to_params()
    for error in parsed.errors:
        if not (error.isprintable() and 0 < len(error) <= MAX_ERROR_CHARS):
            return f"an error that is not one short line: {error!r:.200}"
    report = prompt.error_report(brief, parsed.errors)
    (names.encode(report) if names else report).encode()
    return ""
