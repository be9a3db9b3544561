"""The constants equal the data of the `crafter` package."""

from crafter import constants

from envgen.worlds.crafter import constants as const


def test_names_and_their_order_match_the_reference():
    assert list(const.MATERIALS[1:]) == constants.materials
    assert list(const.ITEMS) == list(constants.items)
    assert list(const.ACTIONS) == constants.actions
    assert [skill.name for skill in const.SKILLS] == constants.achievements
    assert [const.MATERIALS[m] for m in range(1, len(const.MATERIALS)) if const.WALKABLE >> m & 1] == constants.walkable


def test_costs_match_the_reference():
    for tool, cost in const.RECIPES.items():
        rule = constants.make[tool]
        assert rule["uses"] == cost
        assert rule["nearby"] == (["table", "furnace"] if tool in const.NEEDS_FURNACE else ["table"])
        assert rule["gives"] == 1
    assert constants.place["table"]["uses"] == {"wood": const.TABLE_WOOD}
    assert constants.place["furnace"]["uses"] == {"stone": const.FURNACE_STONE}
    assert constants.collect["grass"]["probability"] == const.SAPLING_CHANCE
    assert all(item["max"] == const.MAX_ITEM_COUNT for item in constants.items.values())


def test_prerequisites_are_skills_without_cycles():
    prerequisites = {skill.name: skill.prerequisites for skill in const.SKILLS}

    def depth(name):
        return 1 + max((depth(prerequisite) for prerequisite in prerequisites[name]), default=0)

    assert max(depth(name) for name in prerequisites) < len(prerequisites)  # a cycle would raise RecursionError
    assert depth("collect_diamond") > depth("collect_iron") > depth("collect_stone") > depth("collect_wood")
