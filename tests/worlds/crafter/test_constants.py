"""The numbers of the game are those of the original's own data."""

from crafter import constants

from envgen.worlds.crafter import constants as t


def test_names_and_their_order_are_the_originals():
    assert list(t.MATERIALS[1:]) == constants.materials
    assert list(t.ITEMS) == list(constants.items)
    assert list(t.ACTIONS) == constants.actions
    assert [skill.name for skill in t.SKILLS] == constants.achievements
    assert [t.MATERIALS[m] for m in range(1, len(t.MATERIALS)) if t.WALKABLE >> m & 1] == constants.walkable


def test_costs_are_the_originals():
    for tool, cost in t.RECIPES.items():
        rule = constants.make[tool]
        assert rule["uses"] == cost
        assert rule["nearby"] == (["table", "furnace"] if tool in t.NEEDS_FURNACE else ["table"])
        assert rule["gives"] == 1
    assert constants.place["table"]["uses"] == {"wood": t.TABLE_WOOD}
    assert constants.place["furnace"]["uses"] == {"stone": t.FURNACE_STONE}
    assert constants.collect["grass"]["probability"] == t.SAPLING_CHANCE
    assert all(item["max"] == t.MOST for item in constants.items.values())


def test_every_prerequisite_is_a_skill_and_none_needs_itself():
    needs = {skill.name: skill.prerequisites for skill in t.SKILLS}

    def depth(name):
        return 1 + max((depth(need) for need in needs[name]), default=0)

    assert max(depth(name) for name in needs) < len(needs)  # a circle would recurse for ever
    assert depth("collect_diamond") > depth("collect_iron") > depth("collect_stone") > depth("collect_wood")
