"""A model that hears codes instead of names can design all the same, and hears no name."""

import json
import re
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from envgen.designers import prompt
from envgen.designers.designer import Brief
from envgen.designers.level_space import setting_values, unflatten
from envgen.designers.names import RESERVED, NameObfuscator
from envgen.designers.reply import parse_reply
from envgen.settings import Settings
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.world import Level, Skill

SKILLS = [skill.name for skill in Crafter.skills]
NAMES = NameObfuscator(Crafter.Level, Crafter.skills, Crafter.name)


class Piles(Settings):
    stone: int = Field(default=0, ge=0, le=9)
    """How many stones."""
    stones: int = Field(default=0, ge=0, le=9)
    level: bool = False
    title: Literal["level", "purpose", "item1"] = "level"
    size: Literal[0, 5, 7] = 0
    mixed: Literal["auto", 3, True] = "auto"


class Odd(Level):
    """An Odd world, whose names are each other's plurals, words of JSON schemas, codes, and words of a reply."""

    type: Literal["default", "enum", "Type"] = "default"
    properties: Literal["stone", "none"] = "none"
    item2: int = Field(default=1, ge=0, lt=4)
    option1: bool = True
    skill: Literal["skills", "skill", "goal1"] = "skill"
    piles: Piles = Piles()


ODD = (Skill("parameter1"), Skill("enum_2", ("parameter1",)), Skill("level"))


def brief(facts: Any = dict, wanted: int = 1, world: Any = Crafter) -> Brief:
    return Brief(
        world.name,
        world.rules,
        world.skills,
        world.Level,
        world.skill_levels,
        wanted,
        cycle=1,
        num_cycles=4,
        seed=0,
        setting_effects=facts,
    )


def odd_brief() -> Brief:
    return Brief("odd", "Be odd.", ODD, Odd, {}, 1, cycle=1, num_cycles=1, seed=0)


def levels_of(kind: type[Level]):
    """Any level, as the settings that it changes."""
    told = setting_values(kind)
    return st.dictionaries(st.sampled_from(sorted(told)), st.integers(0, 99)).map(
        lambda picks: unflatten({name: told[name][k % len(told[name])] for name, k in picks.items()})
    )


@pytest.mark.parametrize("kind", [Crafter.Level, Heist.Level, Odd])
def test_what_was_hidden_is_shown_again_for_every_value_of_every_setting(kind):
    names = {
        Crafter.Level: NAMES,
        Heist.Level: NameObfuscator(Heist.Level, Heist.skills, Heist.name),
        Odd: NameObfuscator(Odd, ODD, "odd"),
    }[kind]
    for name, values in setting_values(kind).items():
        for value in values:
            text = json.dumps(unflatten({name: value}))
            hidden = names.encode(text)
            assert names.decode(hidden) == text
            for word in re.findall(r'"([^"]*)"', hidden):
                assert word in RESERVED or re.fullmatch(r"(parameter|item|option)\d+", word)


@settings(max_examples=50)
@given(levels_of(Crafter.Level), st.lists(st.sampled_from(SKILLS), max_size=4, unique=True))
def test_any_level_with_its_skills_hidden_and_shown_is_itself(level, skills):
    text = json.dumps({"levels": [{"purpose": "", "skills": skills, "level": level}]})
    assert NAMES.decode(NAMES.encode(text)) == text
    assert NAMES.encode(NAMES.encode(text)) == NAMES.encode(text)


@settings(max_examples=50)
@given(levels_of(Odd), st.lists(st.sampled_from([skill.name for skill in ODD]), max_size=3, unique=True))
def test_so_is_one_of_a_world_whose_names_are_made_to_confuse(level, skills):
    names = NameObfuscator(Odd, ODD, "odd")
    text = json.dumps({"levels": [{"purpose": "", "skills": skills, "level": level}]})
    assert names.decode(names.encode(text)) == text


def test_every_name_has_a_code_of_its_own():
    assert len(set(NAMES.codes.values())) == len(NAMES.codes)
    assert NAMES.codes["diamond"] != NAMES.codes["diamonds"]
    assert set(NAMES.codes) >= {*Crafter.Level.model_fields, *SKILLS, "very common", "wood_pickaxe", "crafter"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Trees", "trees"), ("a tree", "trees"), ("tree per world", "trees"), ("TIME OF DAY", "time_of_day"),
        ("a wood pickaxe", "wood_pickaxe"), ("Wood_Pickaxe", "wood_pickaxe"), ("very common", "very common"),
        ("`near`", "near"), ("crafter", "crafter"), ("Saplings", "sapling"), ("collect diamond", "collect_diamond"),
    ],
)  # fmt: skip
def test_a_name_is_hidden_however_it_is_written(text, code):
    hidden = NAMES.encode(text)
    assert NAMES.codes[code] in hidden
    assert code.split("_")[0] not in hidden.lower()


def test_parts_of_other_words_stay():
    text = "nearest commonly ironic stonework waterfall uncommon coal_mine"
    assert NAMES.encode(text) == text


@pytest.mark.parametrize("text", ["\u017ftone", "\u0130ron", "\u212aeep", "option\uff11 item\u0661", "\ud800 \x00"])
def test_letters_that_only_look_like_a_name_stay(text):
    assert NAMES.encode(text) == NAMES.decode(text) == text


def test_codes_are_understood_in_any_case_and_unknown_ones_stay():
    code = NAMES.codes["very common"]
    assert NAMES.decode(f"{code} {code.title()} {code.upper()} x{code} option999 option") == (
        f"very common very common very common x{code} option999 option"
    )


def remaining(text: str, names: NameObfuscator) -> set[str]:
    """The names that a text still has in it, in the singular or plural."""
    plain = " ".join(re.findall(r"[a-z]+", text.lower().replace("_", " ")))
    found = set()
    for name in names.codes:
        words = name.lower().replace("_", " ").removesuffix("s")
        if re.search(rf"\b{words}s?\b", plain):
            found.add(name)
    return found


def test_no_name_remains_in_what_is_said_first():
    facts = {"trees": {"rare": ["tree per world 180.0 -> 50.0"]}, "near.cave": {"True": ["steps to iron 9.0 -> 4.0"]}}
    text = prompt.initial_prompt(brief(lambda: facts))
    assert remaining(text, NAMES) == set(NAMES.codes)  # all of them are there before
    assert remaining(NAMES.encode(text), NAMES) == set()


def test_nor_in_the_schema():
    assert remaining(json.dumps(prompt.reply_schema(brief())), NAMES) == set(NAMES.codes) - {"crafter"}
    assert remaining(json.dumps(prompt.reply_schema(brief(), NAMES.encode)), NAMES) == set()


def test_nor_in_what_is_said_of_mistakes():
    wrong = [
        {"level": {"tress": 1}},
        {"level": {"near": {"cow": 1}}},
        {"level": {"coal": "comon"}},
        {"skills": ["fly"], "level": {}},
    ]
    wrong += [{"level": {"inventory": {"wood": 12}}}, {"level": {"coal": "option99"}}, {"colour": "red"}, {"level": 3}]
    for item in wrong:
        told = parse_reply(json.dumps({"levels": [item]}), brief()).errors
        assert told
        hidden = NAMES.encode(prompt.error_report(brief(), told))
        assert remaining(hidden, NAMES) == set()
        assert "crafter" not in hidden.lower()


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """As much of JSON schema as is sent."""
    known = {"type", "properties", "required", "items", "enum", "additionalProperties", "minItems", "maxItems",
             "minimum", "maximum", "exclusiveMaximum"}  # fmt: skip
    assert set(schema) <= known
    if "type" not in schema:
        return any(type(value) is type(word) and value == word for word in schema["enum"])
    kind = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}[schema["type"]]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return False
    if kind is dict:
        assert schema["additionalProperties"] is False
        properties = schema["properties"]
        return (
            set(schema.get("required", ())) <= set(value) <= set(properties)
            and all(accepts(properties[name], inner) for name, inner in value.items())
        )  # fmt: skip
    if kind is list:
        fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return fits and all(accepts(schema["items"], inner) for inner in value)
    if kind is int and "enum" not in schema:
        return schema["minimum"] <= value <= schema.get("maximum", value) and value < schema.get(
            "exclusiveMaximum", 1e9
        )
    return value in schema.get("enum", [value])


@settings(max_examples=50)
@given(st.data(), st.sampled_from(["crafter", "heist", "odd"]), st.booleans())
def test_the_schema_accepts_every_valid_reply_hidden_as_it_is_itself(data, world, hidden):
    about = {"crafter": brief(), "heist": brief(world=Heist), "odd": odd_brief()}[world]
    names = NameObfuscator(about.Level, about.skills, about.world)
    code = names.encode if hidden else str
    skills = data.draw(st.lists(st.sampled_from([skill.name for skill in about.skills]), max_size=3))
    reply = {
        "reasoning": "r",
        "levels": [{"purpose": "p", "skills": skills, "level": data.draw(levels_of(about.Level))}],
    }
    assert accepts(prompt.reply_schema(about, code), json.loads(code(json.dumps(reply))))


@pytest.mark.parametrize("code", [str, NameObfuscator(Heist.Level, Heist.skills, Heist.name).encode])
def test_numbers_stay_numbers_in_the_schema(code):
    schema = prompt.reply_schema(brief(world=Heist), code)
    level = schema["properties"]["levels"]["items"]["properties"]["level"]["properties"]
    assert level[code("maze_size")] == {"type": "integer", "enum": [0, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25]}


def test_the_schema_refuses_what_the_reader_refuses():
    schema = prompt.reply_schema(brief(), NAMES.encode)
    good = {"reasoning": "r", "levels": [{"purpose": "p", "skills": ["wake_up"], "level": {"near": {"cows": 4}}}]}
    text = NAMES.encode(json.dumps(good))
    assert accepts(schema, json.loads(text))
    assert not accepts(schema, good)
    assert not accepts(schema, {**json.loads(text), "levels": json.loads(text)["levels"] * 2})
    assert not accepts(schema, json.loads(text.replace(": 4", ": 5")))
    assert not accepts(schema, json.loads(text.replace(NAMES.codes["wake_up"], "goal99")))
    assert not accepts(schema, json.loads(text.replace(NAMES.codes["near"], NAMES.codes["wood"])))
