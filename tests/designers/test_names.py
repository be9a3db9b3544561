"""A model that receives codes instead of names receives no name, and its replies are decoded exactly."""

import json
import re
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field
from samples import world_brief

from envgen.designers import prompt
from envgen.designers.designer import Brief
from envgen.designers.names import COMMON_WORDS, RESERVED, NameObfuscator
from envgen.designers.reply import parse_reply
from envgen.settings import Settings, unflatten
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.level_space import setting_values
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


ODD_SKILLS = (Skill("parameter1"), Skill("enum_2", ("parameter1",)), Skill("level"))


def brief(world: Any = Crafter, **fields: Any) -> Brief:
    return world_brief(world, num_levels=1, **fields)


def odd_brief() -> Brief:
    return Brief("odd", "Be odd.", ODD_SKILLS, Odd, {}, 1, cycle=1, num_cycles=1, seed=0)


def level_overrides(level_type: type[Level]):
    """The overrides of any level."""
    space = setting_values(level_type)
    return st.dictionaries(st.sampled_from(sorted(space)), st.integers(0, 99)).map(
        lambda picks: unflatten({name: space[name][k % len(space[name])] for name, k in picks.items()})
    )


@pytest.mark.parametrize("level_type", [Crafter.Level, Heist.Level, Odd])
def test_every_value_of_every_setting_is_decoded_exactly(level_type):
    names = {
        Crafter.Level: NAMES,
        Heist.Level: NameObfuscator(Heist.Level, Heist.skills, Heist.name),
        Odd: NameObfuscator(Odd, ODD_SKILLS, "odd"),
    }[level_type]
    for name, values in setting_values(level_type).items():
        for value in values:
            text = json.dumps(unflatten({name: value}))
            encoded = names.encode(text)
            assert names.decode(encoded) == text
            for word in re.findall(r'"([^"]*)"', encoded):
                assert word in RESERVED or re.fullmatch(r"(parameter|item|option)\d+", word)


@settings(max_examples=50)
@given(level_overrides(Crafter.Level), st.lists(st.sampled_from(SKILLS), max_size=4, unique=True))
def test_any_level_with_its_skills_is_decoded_exactly(level, skills):
    text = json.dumps({"levels": [{"purpose": "", "skills": skills, "level": level}]})
    assert NAMES.decode(NAMES.encode(text)) == text
    assert NAMES.encode(NAMES.encode(text)) == NAMES.encode(text)


@settings(max_examples=50)
@given(level_overrides(Odd), st.lists(st.sampled_from([skill.name for skill in ODD_SKILLS]), max_size=3, unique=True))
def test_levels_with_ambiguous_names_are_decoded_exactly(level, skills):
    names = NameObfuscator(Odd, ODD_SKILLS, "odd")
    text = json.dumps({"levels": [{"purpose": "", "skills": skills, "level": level}]})
    assert names.decode(names.encode(text)) == text


def test_every_name_has_its_own_code():
    assert len(set(NAMES.codes.values())) == len(NAMES.codes)
    assert NAMES.codes["diamond"] != NAMES.codes["diamonds"]
    assert set(NAMES.codes) >= {*Crafter.Level.model_fields, *SKILLS, "very common", "wood_pickaxe", "crafter"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Trees", "trees"), ("a tree", "tree"), ("tree per world", "tree"), ("TIME OF DAY", "time_of_day"),
        ("a wood pickaxe", "wood_pickaxe"), ("Wood_Pickaxe", "wood_pickaxe"), ("very common", "very common"),
        ("`near`", "near"), ("crafter", "crafter"), ("Saplings", "sapling"), ("collect diamond", "collect_diamond"),
    ],
)  # fmt: skip
def test_a_name_is_encoded_in_every_spelling(text, code):
    encoded = NAMES.encode(text)
    assert NAMES.codes[code] in encoded
    assert code.split("_")[0] not in encoded.lower()


def test_parts_of_other_words_are_not_encoded():
    text = "nearest commonly ironic stonework waterfall uncommon coal_mine"
    assert NAMES.encode(text) == text


@pytest.mark.parametrize("text", ["\u017ftone", "\u0130ron", "\u212aeep", "option\uff11 item\u0661", "\ud800 \x00"])
def test_lookalike_letters_are_not_encoded(text):
    assert NAMES.encode(text) == NAMES.decode(text) == text


def test_codes_are_decoded_in_any_case_and_unknown_codes_stay():
    code = NAMES.codes["very common"]
    assert NAMES.decode(f"{code} {code.title()} {code.upper()} x{code} option999 option") == (
        f"very common very common very common x{code} option999 option"
    )


def find_unencoded_names(text: str, names: NameObfuscator) -> set[str]:
    """The names that a text contains, in the singular or plural; common words only where they are names."""
    plain = " ".join(re.findall(r"[a-z]+", text.lower().replace("_", " ")))
    matches = set()
    for name in names.codes:
        words = name.lower().replace("_", " ").removesuffix("s")
        if name in COMMON_WORDS:
            pattern = rf"[\"'`|]\s*{name}\s*[\"'`|]|\b{name} \||\| {name}\b|\(default {name}\)|^\s*- {name}: "
            if re.search(pattern, text, re.MULTILINE):
                matches.add(name)
        elif re.search(rf"\b{words}s?\b", plain):
            matches.add(name)
    return matches


def test_the_initial_prompt_contains_no_name():
    effects = {"trees": {"rare": ["tree per world 180.0 -> 50.0"]}, "near.cave": {"True": ["steps to iron 9.0 -> 4.0"]}}
    text = prompt.initial_prompt(brief(setting_effects=lambda: effects))
    assert find_unencoded_names(text, NAMES) == set(NAMES.codes)  # before encoding
    assert find_unencoded_names(NAMES.encode(text), NAMES) == set()


def test_the_schema_contains_no_name():
    assert find_unencoded_names(json.dumps(prompt.reply_schema(brief())), NAMES) == set(NAMES.codes) - {"crafter"}
    assert find_unencoded_names(json.dumps(prompt.reply_schema(brief(), NAMES.encode_name)), NAMES) == set()


def test_error_reports_contain_no_name():
    items = [
        {"level": {"tress": 1}},
        {"level": {"near": {"cow": 1}}},
        {"level": {"coal": "comon"}},
        {"skills": ["fly"], "level": {}},
    ]
    items += [{"level": {"inventory": {"wood": 12}}}, {"level": {"coal": "option99"}}, {"color": "red"}, {"level": 3}]
    for item in items:
        errors = parse_reply(json.dumps({"levels": [item]}), brief()).errors
        assert errors
        report = NAMES.encode(prompt.error_report(brief(), errors))
        assert find_unencoded_names(report, NAMES) == set()
        assert "crafter" not in report.lower()


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """The parts of JSON schema that are sent."""
    supported = {"type", "properties", "required", "items", "enum", "additionalProperties", "minItems", "maxItems",
             "minimum", "maximum", "exclusiveMaximum"}  # fmt: skip
    assert set(schema) <= supported
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
def test_the_schema_accepts_every_valid_reply_encoded_in_the_same_way(data, world, encoded):
    task = {"crafter": brief(), "heist": brief(Heist), "odd": odd_brief()}[world]
    names = NameObfuscator(task.Level, task.skills, task.world)
    encode, encode_name = (names.encode, names.encode_name) if encoded else (str, str)
    skills = data.draw(st.lists(st.sampled_from([skill.name for skill in task.skills]), max_size=3))
    reply = {
        "reasoning": "r",
        "levels": [{"purpose": "p", "skills": skills, "level": data.draw(level_overrides(task.Level))}],
    }
    assert accepts(prompt.reply_schema(task, encode_name), json.loads(encode(json.dumps(reply))))


@pytest.mark.parametrize("code", [str, NameObfuscator(Heist.Level, Heist.skills, Heist.name).encode_name])
def test_numbers_stay_numbers_in_the_schema(code):
    schema = prompt.reply_schema(brief(Heist), code)
    level = schema["properties"]["levels"]["items"]["properties"]["level"]["properties"]
    assert level[code("maze_size")] == {"type": "integer", "enum": [0, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25]}


def test_the_schema_refuses_what_the_parser_refuses():
    schema = prompt.reply_schema(brief(), NAMES.encode_name)
    reply = {"reasoning": "r", "levels": [{"purpose": "p", "skills": ["wake_up"], "level": {"near": {"cows": 4}}}]}
    text = NAMES.encode(json.dumps(reply))
    assert accepts(schema, json.loads(text))
    assert not accepts(schema, reply)
    assert not accepts(schema, {**json.loads(text), "levels": json.loads(text)["levels"] * 2})
    assert not accepts(schema, json.loads(text.replace(": 4", ": 5")))
    assert not accepts(schema, json.loads(text.replace(NAMES.codes["wake_up"], "goal99")))
    assert not accepts(schema, json.loads(text.replace(NAMES.codes["near"], NAMES.codes["wood"])))


class Colors(Settings):
    blue: bool = False


class Maze(Level):
    keys: Literal["original", "none", "one"] = "original"
    loops: Literal["none", "few", "many", "all"] = "none"
    speed: Literal["slow", "original", "fast"] = "original"
    start: Literal["original", "gem"] = "original"
    held: Colors = Colors()
    open: Colors = Colors()


MAZE_NAMES = NameObfuscator(Maze, (), "maze")


@pytest.mark.parametrize(
    "text",
    [
        "Each step you press one of eight directions or none.",
        "Reply with a JSON object like this example, with exactly 4 levels: all of them near the start.",
        "- Up to three locked doors stand in the open; a few are far from it.",
    ],
)
def test_common_words_stay_in_prose(text):
    assert not re.search(r"option|parameter", MAZE_NAMES.encode(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"keys": "one", "open": {"blue": true}}', '{"{keys}": "{one}", "{open}": {"{blue}": true}}'),
        ("- loops: none | few | many | all (default none). Ways.",
         "- {loops}: {none} | {few} | {many} | {all} (default {none}). Ways."),
        ("- speed: slow | original | fast (default original). How fast.",
         "- {speed}: {slow} | {original} | {fast} (default {original}). How {fast}."),
        ("- held, open: a group. Open one at the start.", "- {held}, {open}: a group. Open one at the start."),
        ("level 1: keys: 'won' is not one of original, none, one; did you mean 'one'?",
         "level 1: {keys}: 'won' is not one of {original}, {none}, {one}; did you mean '{one}'?"),
        ("level 1: open.blue: not one", "level 1: {open}.{blue}: not one"),
        ("    one: steps to the gem 9 -> 4", "    {one}: steps to the {gem} 9 -> 4"),
    ],
)  # fmt: skip
def test_common_words_are_encoded_where_they_are_names(text, expected):
    for name, code in MAZE_NAMES.codes.items():
        expected = expected.replace(f"{{{name}}}", code)
    assert MAZE_NAMES.encode(text) == expected
    assert MAZE_NAMES.decode(expected) == text


def test_the_heist_prompt_contains_no_name():
    names, text = NameObfuscator(Heist.Level, Heist.skills, Heist.name), prompt.initial_prompt(brief(Heist))
    assert len(find_unencoded_names(text, names)) > 30
    assert find_unencoded_names(names.encode(text), names) == set()
