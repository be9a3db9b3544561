"""The audit of levels, and the effects of settings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from ladder import Ladder, LadderLevel, LadderStats, LadderWithExpert
from pydantic import Field

from envgen.curriculum.audit import (
    AUDIT_SEEDS,
    EFFECT_SEEDS,
    NUM_ENVS,
    audit_level,
    changed_stats,
    first_success_steps,
    setting_effects,
)
from envgen.designers.designer import AuditResult, ProposedLevel
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import Level

CRAFTER = Crafter()
ORIGINAL_STATS = CRAFTER.level_stats(None, AUDIT_SEEDS).as_dict()


def audit_ladder(world, level: Mapping[str, Any], *skills: str, steps: int = 100) -> AuditResult:
    proposed = ProposedLevel(level=world.Level.parse(level), skills=skills)
    return audit_level(world, proposed, steps, world.level_stats(None, AUDIT_SEEDS).as_dict())


def audit_crafter(level: Mapping[str, Any], *skills: str, steps: int = 100) -> AuditResult:
    proposed = ProposedLevel(level=CRAFTER.Level.parse(level), skills=skills)
    return audit_level(CRAFTER, proposed, steps, ORIGINAL_STATS)


# --- in Crafter


@pytest.mark.parametrize("skill", ["collect_wood", "eat_cow", "make_stone_pickaxe", "eat_plant", "wake_up"])
def test_skill_level_is_good(skill):
    result = audit_crafter(CRAFTER.skill_levels[skill], skill, steps=300)
    assert (result.verdict, result.reasons) == ("good", ())
    assert result.findings[0].startswith(f"{skill}: random ")
    assert "expert" in result.findings[0]


def test_level_without_what_its_skill_needs_is_bad():
    result = audit_crafter({"biome": "grassland", "inventory": {"stone_pickaxe": 1}}, "collect_iron")
    assert result.verdict == "bad"
    assert result.reasons == ("collect_iron is impossible: none of 64 environments has what it needs",)
    expected = "impossible here: collect_coal, collect_diamond, collect_iron"
    assert any(finding.startswith(expected) for finding in result.findings)


def test_level_is_as_good_as_the_best_of_its_skills():
    level = {"biome": "grassland", "cows": "common"}
    assert audit_crafter(level, "collect_iron").verdict == "bad"
    result = audit_crafter(level, "collect_iron", "eat_cow")
    assert (result.verdict, result.reasons) == ("good", ())
    assert "collect_iron is impossible: none of 64 environments has what it needs" in result.findings
    assert audit_crafter({}, "collect_diamond", "eat_plant").verdict == "doubtful"


def test_skill_that_the_level_grants_is_bad():
    result = audit_crafter({"inventory": {"wood": 1}}, "collect_wood")
    assert result.verdict == "bad"
    assert result.reasons == ("collect_wood is already done at the start",)
    assert audit_crafter({"inventory": {"wood": 1}, "done": []}, "collect_wood").verdict == "good"


def test_skill_out_of_reach_is_doubtful():
    result = audit_crafter({}, "collect_diamond")
    assert result.verdict == "doubtful"
    assert result.reasons == ("no player reached collect_diamond within 100 steps",)


def test_findings_name_what_a_level_changes():
    result = audit_crafter({"iron": "very common"})
    assert result.verdict == "good"  # it targets no skill, and some are possible
    assert any(finding.startswith("iron per world 1") and " -> 1" in finding for finding in result.findings)
    assert audit_crafter({}).findings == ()


def test_audit_is_repeatable():
    assert audit_crafter({"trees": "rare"}, "collect_wood") == audit_crafter({"trees": "rare"}, "collect_wood")


# --- in any world


def test_level_mastered_by_random_actions_is_bad():
    result = audit_ladder(LadderWithExpert(), {"rungs": 2, "length": 60}, "climb")
    assert result.verdict == "bad"
    assert result.reasons == (
        "climb is mastered by random actions, which succeed in 100% of the episodes within 100 steps",
    )


def test_level_that_starts_with_the_skill_done_is_bad():
    result = audit_ladder(LadderWithExpert(), {"rungs": 0}, "climb")
    assert result.verdict == "bad"
    assert result.reasons == ("climb is already done at the start",)


def test_impossible_skill_is_bad():
    result = audit_ladder(LadderWithExpert(), {}, "fly")
    assert result.verdict == "bad"
    assert result.reasons == ("fly is impossible: none of 64 environments has what it needs",)
    assert "impossible here: fly" in result.findings


def test_level_that_only_the_expert_solves_is_good():
    result = audit_ladder(LadderWithExpert(), {"rungs": 30, "length": 40}, "climb")
    assert (result.verdict, result.reasons) == ("good", ())
    assert result.findings == (
        "climb: random 0% within 100 steps, expert 100% within 100 steps, median step 30",
        "impossible here: fly",
        "rungs per ladder 5.0 -> 30.0",
    )


def test_level_that_no_policy_solves_is_doubtful():
    result = audit_ladder(LadderWithExpert(), {"rungs": 30, "length": 40}, "climb", steps=29)
    assert result.verdict == "doubtful"
    assert result.reasons == (
        "no player reached climb within 29 steps", "no player succeeded at anything within 29 steps",
    )  # fmt: skip


def test_world_without_an_expert_is_audited_with_random_actions():
    good = audit_ladder(Ladder(), {"rungs": 4}, "climb")
    assert good.verdict == "good"
    assert "random" in good.findings[0]
    assert "expert" not in good.findings[0]
    assert audit_ladder(Ladder(), {"rungs": 30, "length": 40}, "climb").verdict == "doubtful"


@pytest.mark.parametrize(("fault", "cause"), [("make", "no wood for this ladder"), ("step", "a rung breaks")])
def test_level_that_breaks_the_simulator_is_bad_with_the_error(fault, cause):
    result = audit_ladder(LadderWithExpert(), {"fault": fault}, "climb")
    reason = f"its environments cannot be created or played: RuntimeError: {cause}"
    assert result == AuditResult(verdict="bad", reasons=(reason,))


# --- first successes


def test_only_first_episodes_count():
    level, world = LadderLevel(rungs=3, length=8), LadderWithExpert()
    step = 0

    def half_go_up_late(envs):
        """Half of the environments go up at once, the others in their second episode."""
        nonlocal step
        step += 1
        return np.where(np.arange(NUM_ENVS) < NUM_ENVS // 2, 1, int(step > 8))

    at_start, first = first_success_steps(world, level, 40, half_go_up_late)
    assert not at_start.any()
    assert first[:, 0].tolist() == [3] * (NUM_ENVS // 2) + [-1] * (NUM_ENVS // 2)
    assert (first[:, 1] == -1).all()
    assert step == 8  # it ends with the last first episode


def test_success_in_the_last_step_of_an_episode_counts():
    _, first = first_success_steps(
        LadderWithExpert(), LadderLevel(rungs=6, length=6), 40, LadderWithExpert().expert_actions
    )
    assert (first[:, 0] == 6).all()


# --- effects of settings


def test_changed_stats_lists_the_largest_changes_first():
    before = {"iron": 18.0, "coal": 50.0, "stone": 600.0, "trees": 188.0}
    after = {"iron": 120.0, "coal": 25.0, "stone": 650.0, "trees": 188.0}
    assert changed_stats(before, after) == ["iron 18.0 -> 120.0", "coal 50.0 -> 25.0"]
    assert changed_stats(before, after, max_changes=1) == ["iron 18.0 -> 120.0"]
    assert changed_stats(before, before) == []


def test_small_changes_and_small_values_are_left_out():
    assert changed_stats({"a": 100.0}, {"a": 68.0}) == []
    assert changed_stats({"a": 100.0}, {"a": 66.0}) == ["a 100.0 -> 66.0"]
    assert changed_stats({"a": 66.0}, {"a": 100.0}) == ["a 66.0 -> 100.0"]
    assert changed_stats({"a": 0.0}, {"a": 0.4}) == []
    assert changed_stats({"a": 0.0}, {"a": 0.6}) == ["a 0.0 -> 0.6"]


def test_equal_changes_are_sorted_by_name():
    before, after = {name: 1.0 for name in "dbca"}, {name: 0.0 for name in "cadb"}
    assert changed_stats(before, after, max_changes=3) == ["a 1.0 -> 0.0", "b 1.0 -> 0.0", "c 1.0 -> 0.0"]


def test_missing_statistics_are_left_out():
    assert changed_stats({"steps to iron": 9.0, "iron": 2.0}, {"iron": 0.0}) == ["iron 2.0 -> 0.0"]
    assert changed_stats({"iron": 0.0}, {"steps to iron": 9.0, "iron": 2.0}) == ["iron 0.0 -> 2.0"]


def test_effects_cover_every_option_and_the_number_furthest_from_the_original():
    class RecordingLadder(Ladder):
        calls: list = []  # noqa: RUF012

        def level_stats(self, level=None, seeds: Sequence[int] = range(16)) -> LadderStats:
            self.calls.append((level, seeds))
            return LadderStats(LadderLevel.parse(level).rungs)

    assert setting_effects(RecordingLadder()) == {
        "rungs": {"99": ["rungs per ladder 5.0 -> 99.0"]}
    }  # the other settings change nothing
    options = [{"wind": "none"}, {"wind": "strong"}, {"fault": "make"}, {"fault": "step"}]
    changes = [{"rungs": 99}, {"length": 1000}, *options]
    assert [level for level, _ in RecordingLadder.calls] == [None, *map(LadderLevel.parse, changes)]
    assert {seeds for _, seeds in RecordingLadder.calls} == {EFFECT_SEEDS}


def test_effects_of_a_float_are_those_of_the_furthest_value():
    class GustLevel(Level):
        gust: float = Field(default=1.0, ge=0.0, le=9.0)
        """Strength of the wind."""

    class Gusts(Ladder):
        Level = GustLevel

        def level_stats(self, level=None, seeds: Sequence[int] = range(16)) -> LadderStats:
            return LadderStats(GustLevel.parse(level).gust)

    assert setting_effects(Gusts()) == {"gust": {"9.0": ["rungs per ladder 1.0 -> 9.0"]}}


def test_effects_of_iron_in_crafter():
    world = Crafter()
    stats = {
        iron: world.level_stats({"iron": iron}, range(8)).as_dict() for iron in ("original", "none", "very common")
    }
    removed, added = (
        changed_stats(stats["original"], stats["none"]),
        changed_stats(stats["original"], stats["very common"]),
    )
    assert "worlds with iron, % 100.0 -> 0.0" in removed
    assert any(line.startswith("iron per world ") and line.endswith(" -> 0.0") for line in removed)
    assert any(line.startswith("iron per world ") for line in added)
    assert all("iron" in line for line in removed + added)  # nothing else changes
