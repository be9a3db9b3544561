"""However a good reply is damaged, it is read as levels or as sentences about what is wrong with it, in every world and
with codes for names."""

import copy
import functools
import json
import random
import time
from typing import Any

import pytest

from envgen.designers import prompt
from envgen.designers.designer import Brief
from envgen.designers.level_space import setting_values, unflatten
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


def brief(world: Any, num_levels: int = 2) -> Brief:
    return Brief(
        world.name,
        world.rules,
        world.skills,
        world.Level,
        world.skill_levels,
        num_levels,
        cycle=1,
        num_cycles=4,
        seed=0,
    )


def good(world: Any, chance: random.Random) -> dict[str, Any]:
    told = setting_values(world.Level)

    def item() -> dict[str, Any]:
        picked = chance.sample(sorted(told), chance.randint(1, 6))
        skills = [skill.name for skill in chance.sample(world.skills, chance.randint(0, 2))]
        level = unflatten({name: chance.choice(told[name]) for name in picked})
        return {"purpose": "p", "skills": skills, "level": level}

    return {"reasoning": "r", "levels": [item(), item()]}


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value, as what holds it and its key or index."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *nodes(value[key]))]


def mutate(reply: dict[str, Any], chance: random.Random) -> None:
    if not reply:
        return
    holder, key = chance.choice(nodes(reply))
    value = copy.deepcopy(chance.choice(VALUES))
    names = [name for inner, name in nodes(reply) if isinstance(inner, dict)]
    match chance.randrange(6):
        case 0 | 1 | 2:
            holder[key] = value
        case 3:
            holder[key] = str(holder[key])
        case 4 if isinstance(holder, dict):
            name = chance.choice([*names, *(one for one in VALUES if isinstance(one, str))])
            holder[name] = holder.pop(key) if chance.random() < 0.5 else value
        case _ if isinstance(holder, list):
            holder.insert(key, value)
        case _:
            holder.pop(key)


def damage(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(SCRAPS) + text[at + chance.choice([0, 0, 1, 1, 3, 20]) :]


def mutant(world: Any, chance: random.Random) -> str:
    reply = good(world, chance)
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        mutate(reply, chance)
    text = json.dumps(reply, ensure_ascii=False)
    for _ in range(chance.choice([0, 0, 0, 1, 3])):
        text = damage(text, chance)
    return text


@pytest.mark.parametrize("obfuscate", [False, True])
@pytest.mark.parametrize("name", WORLDS)
def test_no_mutated_reply_breaks_the_reader(name, obfuscate):
    world, chance = WORLDS[name], random.Random(f"{name} {obfuscate}")
    about, names = brief(world), NameObfuscator(world.Level, world.skills, world.name)
    outcomes = {True: 0, False: 0}
    began = time.process_time()
    for _ in range(MUTANTS):
        text = mutant(world, chance)
        if obfuscate:
            text = names.decode(names.encode(text))
        understood = parse_reply(text, about)
        assert understood.errors or len(understood.levels) == about.num_levels, text
        for level in understood.levels:
            assert set(level.level) <= set(world.Level.model_fields)
            json.dumps(level.model_dump(mode="json"), allow_nan=False).encode()
            world.Level.parse(level.level).to_params()
        for problem in understood.errors:
            assert problem.isprintable(), text
            assert 0 < len(problem) <= MAX_ERROR_CHARS
        again = prompt.error_report(about, understood.errors)
        assert (names.encode(again) if obfuscate else again).encode()
        outcomes[not understood.errors] += 1
    assert time.process_time() - began < 10
    assert min(outcomes.values()) > MUTANTS // 20  # both happen


@pytest.mark.parametrize("obfuscate", [False, True])
@pytest.mark.parametrize("name", WORLDS)
def test_any_value_in_place_of_any_setting_gives_a_level_or_a_sentence(name, obfuscate):
    world = WORLDS[name]
    about, names = brief(world, num_levels=1), NameObfuscator(world.Level, world.skills, world.name)
    for setting in (*setting_values(world.Level), *world.Level.model_fields):
        for value in VALUES:
            text = json.dumps({"levels": [{"level": unflatten({setting: value})}]})
            understood = parse_reply(names.decode(names.encode(text)) if obfuscate else text, about)
            assert len(understood.levels) + len(understood.errors) == 1
