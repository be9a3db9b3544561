"""The audit says of a level, before anybody trains in it, whether it can teach what it is for, and why not."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from ladder import Climbed, Ladder, LadderLevel

from envgen.curriculum.audit import PLAYERS, WORLDS, audit_level, first_successes
from envgen.designers.designer import AuditResult, ProposedLevel
from envgen.worlds.crafter.world import Crafter

CRAFTER = Crafter()
BEFORE = CRAFTER.level_stats(None, WORLDS).as_dict()


def of(world, level: Mapping[str, Any], *skills: str, steps: int = 100) -> AuditResult:
    return audit_level(
        world, ProposedLevel(level=dict(level), skills=skills), steps, world.level_stats(None, WORLDS).as_dict()
    )


def crafter(level: Mapping[str, Any], *skills: str, steps: int = 100) -> AuditResult:
    return audit_level(CRAFTER, ProposedLevel(level=dict(level), skills=skills), steps, BEFORE)


# --- in Crafter


@pytest.mark.parametrize("skill", ["collect_wood", "eat_cow", "make_stone_pickaxe", "eat_plant", "wake_up"])
def test_a_lesson_is_good(skill):
    verdict = crafter(CRAFTER.skill_levels[skill], skill, steps=300)
    assert (verdict.verdict, verdict.reasons) == ("good", ())
    assert verdict.findings[0].startswith(f"{skill}: random ")
    assert "scripted" in verdict.findings[0]


def test_a_level_without_what_its_skill_takes_is_bad():
    verdict = crafter({"biome": "grassland", "inventory": {"stone_pickaxe": 1}}, "collect_iron", "eat_cow")
    assert verdict.verdict == "bad"
    assert verdict.reasons == ("collect_iron is impossible: none of 64 worlds has what it takes",)
    assert any(
        fact.startswith("impossible here: collect_coal, collect_diamond, collect_iron") for fact in verdict.findings
    )


def test_a_skill_too_far_for_the_time_given_is_doubtful_and_a_slip_elsewhere_does_not_matter():
    verdict = crafter({}, "collect_diamond")
    assert verdict.verdict == "doubtful"
    assert verdict.reasons == ("no player reached collect_diamond within 100 steps",)


def test_what_a_level_changes_is_told():
    verdict = crafter({"iron": "very common"})
    assert verdict.verdict == "good"  # it aims at nothing, and something can be done in it
    assert any(fact.startswith("iron per world 1") and " -> 1" in fact for fact in verdict.findings)
    assert crafter({}).findings == ()


def test_asked_again_it_says_the_same():
    assert crafter({"trees": "rare"}, "collect_wood") == crafter({"trees": "rare"}, "collect_wood")


# --- in any world


def test_a_level_that_random_players_master_is_bad():
    verdict = of(Climbed(), {"rungs": 2, "length": 60}, "climb")
    assert verdict.verdict == "bad"
    assert verdict.reasons == ("climb is mastered by random actions (100% of them within 100 steps)",)


def test_a_level_that_starts_with_the_skill_done_is_bad():
    verdict = of(Climbed(), {"rungs": 0}, "climb")
    assert verdict.verdict == "bad"
    assert verdict.reasons == ("climb counts as done from the start",)


def test_an_impossible_skill_is_bad_whatever_else_is_possible():
    verdict = of(Climbed(), {}, "climb", "fly")
    assert verdict.verdict == "bad"
    assert verdict.reasons == ("fly is impossible: none of 64 worlds has what it takes",)
    assert "impossible here: fly" in verdict.findings


def test_a_level_that_only_the_scripted_player_solves_is_good():
    verdict = of(Climbed(), {"rungs": 30, "length": 40}, "climb")
    assert (verdict.verdict, verdict.reasons) == ("good", ())
    assert verdict.findings == (
        "climb: random 0% within 100 steps, scripted 100% within 100 steps, median step 30",
        "impossible here: fly",
        "rungs per ladder 5.0 -> 30.0",
    )


def test_a_level_that_nobody_solves_is_doubtful():
    verdict = of(Climbed(), {"rungs": 30, "length": 40}, "climb", steps=29)
    assert verdict.verdict == "doubtful"
    assert verdict.reasons == (
        "no player reached climb within 29 steps", "no player succeeded in anything within 29 steps",
    )  # fmt: skip


def test_a_world_without_a_scripted_player_is_audited_by_random_ones():
    good = of(Ladder(), {"rungs": 4}, "climb")
    assert good.verdict == "good"
    assert "random" in good.findings[0]
    assert "scripted" not in good.findings[0]
    assert of(Ladder(), {"rungs": 30, "length": 40}, "climb").verdict == "doubtful"


@pytest.mark.parametrize(("fault", "says"), [("make", "no wood for this ladder"), ("step", "a rung breaks")])
def test_a_level_that_breaks_the_simulator_is_bad_and_says_how(fault, says):
    verdict = of(Climbed(), {"fault": fault}, "climb")
    assert verdict == AuditResult(verdict="bad", reasons=(f"its worlds cannot be made or played: {says}",))


# --- what is counted


def test_only_first_episodes_count_and_each_success_once():
    level, world = LadderLevel(rungs=3, length=8), Climbed()
    first_try = np.zeros(PLAYERS, np.int64)

    def late(envs):
        """Half go up at once; the others in their second episode, when nobody looks any more."""
        first_try[:] += 1
        return np.where(np.arange(PLAYERS) < PLAYERS // 2, 1, first_try > 8)

    at_start, first = first_successes(world, level, 40, late)
    assert not at_start.any()
    assert first[:, 0].tolist() == [3] * (PLAYERS // 2) + [-1] * (PLAYERS // 2)
    assert (first[:, 1] == -1).all()
    assert first_try[0] == 8  # it ends when all first episodes have


def test_a_success_in_the_last_step_of_an_episode_counts():
    _, first = first_successes(Climbed(), LadderLevel(rungs=6, length=6), 40, Climbed().expert_actions)
    assert (first[:, 0] == 6).all()
