"""What a designer hears a setting does is what was counted, and only what is worth telling."""

from collections.abc import Sequence

from ladder import Count, Ladder, LadderLevel

from envgen.curriculum.facts import WORLDS, changes, setting_effects
from envgen.worlds.crafter.world import Crafter


def test_figures_that_changed_are_told_those_that_changed_most_first():
    before = {"iron": 18.0, "coal": 50.0, "stone": 600.0, "trees": 188.0}
    after = {"iron": 120.0, "coal": 25.0, "stone": 650.0, "trees": 188.0}
    assert changes(before, after) == ["iron 18.0 -> 120.0", "coal 50.0 -> 25.0"]
    assert changes(before, after, most=1) == ["iron 18.0 -> 120.0"]
    assert changes(before, before) == []


def test_a_third_is_telling_and_next_to_nothing_is_not():
    assert changes({"a": 100.0}, {"a": 68.0}) == []
    assert changes({"a": 100.0}, {"a": 66.0}) == ["a 100.0 -> 66.0"]
    assert changes({"a": 66.0}, {"a": 100.0}) == ["a 66.0 -> 100.0"]
    assert changes({"a": 0.0}, {"a": 0.4}) == []
    assert changes({"a": 0.0}, {"a": 0.6}) == ["a 0.0 -> 0.6"]


def test_equal_changes_are_told_in_the_same_order_every_time():
    before, after = {name: 1.0 for name in "dbca"}, {name: 0.0 for name in "cadb"}
    assert changes(before, after, most=3) == ["a 1.0 -> 0.0", "b 1.0 -> 0.0", "c 1.0 -> 0.0"]


def test_a_distance_to_what_is_not_there_is_not_told():
    assert changes({"steps to iron": 9.0, "iron": 2.0}, {"iron": 0.0}) == ["iron 2.0 -> 0.0"]
    assert changes({"iron": 0.0}, {"steps to iron": 9.0, "iron": 2.0}) == ["iron 0.0 -> 2.0"]


def test_each_word_is_counted_and_of_numbers_the_one_furthest_from_the_original():
    class Counted(Ladder):
        asked: list = []  # noqa: RUF012

        def level_stats(self, level=None, seeds: Sequence[int] = range(16)) -> Count:
            self.asked.append((level, seeds))
            return Count(LadderLevel.parse(level).rungs)

    assert setting_effects(Counted()) == {"rungs": {"99": ["rungs per ladder 5.0 -> 99.0"]}}  # the rest changes nothing
    words = [{"wind": "none"}, {"wind": "strong"}, {"fault": "make"}, {"fault": "step"}]
    assert [level for level, _ in Counted.asked] == [None, {"rungs": 99}, {"length": 1000}, *words]
    assert {seeds for _, seeds in Counted.asked} == {WORLDS}


def test_of_crafter_it_tells_what_is_true():
    world = Crafter()
    census = {
        iron: world.level_stats({"iron": iron}, range(8)).as_dict() for iron in ("original", "none", "very common")
    }
    gone, more = changes(census["original"], census["none"]), changes(census["original"], census["very common"])
    assert "worlds with iron, % 100.0 -> 0.0" in gone
    assert any(line.startswith("iron per world ") and line.endswith(" -> 0.0") for line in gone)
    assert any(line.startswith("iron per world ") for line in more)
    assert all("iron" in line for line in gone + more)  # nothing else changes with it
