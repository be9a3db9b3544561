"""A plan's numbers are the paper's, and every ablation of it is one number changed."""

import pytest
from pydantic import ValidationError

from envgen.curriculum.plan import PRESETS, TrainingPlan, plan_for


def test_the_default_is_the_papers_plan_for_crafter():
    plan = TrainingPlan()
    assert plan.total_steps == 1_960_000
    assert (plan.cycles, plan.levels, plan.final_steps) == (4, 4, 1_000_000)
    assert plan.level_steps == plan.original_steps == 120_000
    assert plan.cycles * plan.level_steps == 480_000
    assert plan.feedback_seeds == 12
    assert plan_for("paper") == plan


@pytest.mark.parametrize(("ratio", "in_levels"), [(5, 200_000), (2, 160_000), (1, 120_000), (0.5, 80_000), (0, 0)])
def test_a_ratio_shares_out_the_steps_of_a_cycle_and_adds_none(ratio, in_levels):
    plan = TrainingPlan(ratio=ratio)
    assert plan.level_steps == in_levels
    assert plan.level_steps + plan.original_steps == 240_000
    assert plan.total_steps == 1_960_000


def test_no_step_is_lost_to_rounding():
    for ratio in (0.1, 1 / 3, 3, 7):
        plan = TrainingPlan(cycle_steps=100_001, ratio=ratio)
        assert plan.level_steps + plan.original_steps == 100_001


@pytest.mark.parametrize(("cycles", "cycle_steps"), [(40, 24_000), (8, 120_000), (4, 240_000)])
def test_more_frequent_updates_leave_the_budget_as_it_is(cycles, cycle_steps):
    assert TrainingPlan(cycles=cycles, cycle_steps=cycle_steps).total_steps == 1_960_000


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("world", ["crafter", "a world of which nothing special is known"])
def test_every_preset_is_a_plan(name, world):
    assert plan_for(name, world).total_steps > 0
    assert plan_for(name, world, cycles=2).cycles == 2


def test_quick_is_quicker_and_keeps_the_shape():
    quick, paper = plan_for("quick"), TrainingPlan()
    assert quick.total_steps < paper.total_steps / 2
    assert (quick.cycles, quick.levels, quick.ratio) == (paper.cycles, paper.levels, paper.ratio)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cycels": 4}, "did you mean 'cycles'"),
        ({"mixing": "mixd"}, "did you mean 'mixed'"),
        ({"cycles": -1}, "greater than or equal to 0"),
        ({"levels": 0}, "greater than or equal to 1"),
        ({"feedback_seeds": 1}, "greater than or equal to 2"),
        ({"ratio": -1}, "greater than or equal to 0"),
    ],
)
def test_a_plan_that_is_none_is_refused(wrong, says):
    with pytest.raises(ValidationError, match=says):
        TrainingPlan(**wrong)
