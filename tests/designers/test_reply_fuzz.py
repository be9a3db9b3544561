"""However a valid reply is damaged, it is parsed to levels or to sentences about its errors, in every world and with
codes for names."""

import copy
import functools
import json
import random
import time
from typing import Any

import pytest
from samples import world_brief

from envgen.designers import prompt
from envgen.designers.designer import setting_values, unflatten
from envgen.designers.names import NameObfuscator
from envgen.designers.reply import MAX_ERROR_CHARS, parse_reply
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist

WORLDS = {"crafter": Crafter, "heist": Heist}
MUTANTS = 3_000
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


@pytest.mark.parametrize("obfuscate", [False, True])
@pytest.mark.parametrize("name", WORLDS)
def test_no_mutated_reply_breaks_the_parser(name, obfuscate):
    world, rng = WORLDS[name], random.Random(f"{name} {obfuscate}")
    brief, names = world_brief(world, num_levels=2), NameObfuscator(world.Level, world.skills, world.name)
    counts = {True: 0, False: 0}
    start = time.process_time()
    for _ in range(MUTANTS):
        text = mutant(world, rng)
        if obfuscate:
            text = names.decode(names.encode(text))
        parsed = parse_reply(text, brief)
        assert parsed.errors or len(parsed.levels) == brief.num_levels, text
        for level in parsed.levels:
            json.dumps(level.model_dump(mode="json"), allow_nan=False).encode()
            assert isinstance(level.level, world.Level)
            level.level.to_params()
        for error in parsed.errors:
            assert error.isprintable(), text
            assert 0 < len(error) <= MAX_ERROR_CHARS
        report = prompt.error_report(brief, parsed.errors)
        assert (names.encode(report) if obfuscate else report).encode()
        counts[not parsed.errors] += 1
    assert time.process_time() - start < 10
    assert min(counts.values()) > MUTANTS // 20  # there are valid and invalid ones


@pytest.mark.parametrize("obfuscate", [False, True])
@pytest.mark.parametrize("name", WORLDS)
def test_any_value_of_any_setting_gives_a_level_or_an_error(name, obfuscate):
    world = WORLDS[name]
    brief, names = world_brief(world, num_levels=1), NameObfuscator(world.Level, world.skills, world.name)
    for setting in (*setting_values(world.Level), *world.Level.model_fields):
        for value in VALUES:
            text = json.dumps({"levels": [{"level": unflatten({setting: value})}]})
            parsed = parse_reply(names.decode(names.encode(text)) if obfuscate else text, brief)
            assert len(parsed.levels) + len(parsed.errors) == 1
