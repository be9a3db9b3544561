"""Settings that are free text, such as the rows of a map: designers that sample keep them, authors write them."""

import json

import pytest

from envgen.designers.baselines import RandomDesigner
from envgen.designers.designer import Brief
from envgen.designers.prompt import describe_settings, reply_schema
from envgen.designers.reply import parse_reply
from envgen.worlds.level_space import setting_values
from envgen.worlds.minigrid.level import MiniGridLevel
from envgen.worlds.world import Skill

BRIEF = Brief(
    world="minigrid", rules="", skills=(Skill("solve_door_key"),), Level=MiniGridLevel, skill_levels={}, num_levels=1,
    cycle=1, num_cycles=1, seed=0,
)  # fmt: skip


def test_only_its_author_changes_a_map():
    assert setting_values(MiniGridLevel)["map"] == ((),)
    brief = BRIEF.__class__(**{**BRIEF.__dict__, "num_levels": 50})
    levels = [item.level for item in RandomDesigner().design(brief, ()).levels]
    assert {level.map for level in levels} == {()}
    assert len({level.task for level in levels}) > 10


def test_language_models_are_told_about_maps_and_may_write_them():
    assert "- map: a list of strings (default []). The rows of a grid" in describe_settings(MiniGridLevel, {})
    schema = reply_schema(BRIEF)["properties"]["levels"]["items"]["properties"]["level"]["properties"]["map"]
    assert schema == {"type": "array", "items": {"type": "string"}}
    rows = ["######", "#>KyLyG#", "######"]
    reply = {"levels": [{"skills": ["solve_door_key"], "level": {"task": "door key", "map": rows}}]}
    parsed = parse_reply(json.dumps(reply), BRIEF)
    assert parsed.errors == ()
    assert parsed.levels[0].level == MiniGridLevel(task="door key", map=tuple(rows))


@pytest.mark.parametrize(
    ("rows", "error"),
    [(["#>G"], "3 to 51 rows"), (["###", "#>#", "####"], "row 3 has 4 cells"), (["####", "#>.#", "####"], "no goal")],
)
def test_language_models_are_told_what_is_wrong_with_a_map(rows, error):
    parsed = parse_reply(json.dumps({"levels": [{"level": {"map": rows}}]}), BRIEF)
    assert len(parsed.errors) == 1
    assert error in parsed.errors[0]
