"""Training plans and presets."""

import re
from pathlib import Path

import pytest
from ladder import Ladder
from pydantic import ValidationError

from envgen.agents.settings import PpoSettings
from envgen.curriculum.plan import (
    LEARNER_PRESETS,
    PRESETS,
    PlanError,
    PracticeSettings,
    TrainingPlan,
    check_training_seed,
    learner_preset,
    plan_for,
)  # fmt: skip
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist


def test_default_is_the_plan_of_the_paper_for_crafter():
    plan = TrainingPlan()
    assert plan.total_steps == 1_960_000
    assert (plan.cycles, plan.levels, plan.final_steps) == (4, 4, 1_000_000)
    assert plan.level_steps == plan.original_steps == 120_000
    assert plan.cycles * plan.level_steps == 480_000
    assert plan.feedback_groups == 12
    assert plan_for("paper") == plan_for("paper", Crafter()) == plan


@pytest.mark.parametrize(("ratio", "level_steps"), [(5, 200_000), (2, 160_000), (1, 120_000), (0.5, 80_000), (0, 0)])
def test_ratio_divides_the_steps_of_a_cycle(ratio, level_steps):
    plan = TrainingPlan(ratio=ratio)
    assert plan.level_steps == level_steps
    assert plan.level_steps + plan.original_steps == 240_000
    assert plan.total_steps == 1_960_000


def test_no_step_is_lost_to_rounding():
    for ratio in (0.1, 1 / 3, 3, 7):
        plan = TrainingPlan(cycle_steps=100_001, ratio=ratio)
        assert plan.level_steps + plan.original_steps == 100_001


@pytest.mark.parametrize(("cycles", "cycle_steps"), [(40, 24_000), (8, 120_000), (4, 240_000)])
def test_plans_of_the_ablations_have_equal_totals(cycles, cycle_steps):
    assert TrainingPlan(cycles=cycles, cycle_steps=cycle_steps).total_steps == 1_960_000


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("world", [None, Crafter(), Heist(), Ladder()])
def test_every_preset_is_a_plan(preset, world):
    assert plan_for(preset, world).total_steps > 0
    assert plan_for(preset, world, cycles=2).cycles == 2


def test_world_defaults_apply_to_their_preset():
    assert plan_for("paper", Heist()).total_steps == 25_000_000
    assert plan_for("paper", Heist(), cycles=2).total_steps == 50_000_000
    assert plan_for("quick", Heist()) == plan_for("quick")


def test_quick_preset_is_shorter_with_the_same_shape():
    quick, paper = plan_for("quick"), TrainingPlan()
    assert quick.total_steps < paper.total_steps / 2
    assert (quick.cycles, quick.levels, quick.ratio) == (paper.cycles, paper.levels, paper.ratio)


def test_the_page_of_agents_has_the_hyperparameters_of_each_observation_and_preset():
    page = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()
    table = page.partition("| setting | images |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE))
    kinds = PpoSettings.DEFAULTS_BY_OBSERVATION
    columns = [{}, kinds["tiles"], kinds["symbols"], kinds["vectors"]]
    words = {"automatic": None, "off": False}

    def numbers(text):
        return [words[word] if word in words else float(word) for word in text.split()]

    published, far = LEARNER_PRESETS["published"], LEARNER_PRESETS["far"]
    expected = {}
    for name, field in PpoSettings.model_fields.items():
        if name == "network" or name.startswith("final_"):
            continue
        values = [column.get(name, field.default) for column in columns]
        ends = [far[key] for key in (name, f"final_{name}") if key in far]
        if len(set(values)) > 1 or ends:
            expected[name] = (values, [published[name]] if name in published else [], ends)
    shown = {}
    for name, row in rows.items():
        *values, preset, ends = row.split("|")
        shown[name] = (numbers(" ".join(values)), numbers(preset), numbers(ends.replace(" to ", " ")))
    assert shown == expected
    assert published.keys() <= shown.keys()
    assert f"`network.unimix` of {far['network']['unimix']}" in page
    assert f"`practice.share` of {far['practice']['share']}" in page


@pytest.mark.parametrize("name", LEARNER_PRESETS)
@pytest.mark.parametrize("world", [Crafter(), Heist(), Ladder()])
def test_every_learner_preset_is_valid_and_keeps_the_defaults_of_the_world(name, world):
    settings, practice = learner_preset(name, world)
    PpoSettings(**settings)
    PracticeSettings(**practice)
    assert not settings.keys() & world.ppo_defaults.keys()


def test_learner_presets_differ():
    assert learner_preset("fast", Crafter()) == ({}, {})
    published, practice = learner_preset("published", Crafter())
    assert (published["num_envs"], published["num_steps"], practice) == (8, 512, {})
    settings, practice = learner_preset("far", Crafter())
    assert settings["network"]["history"]
    assert practice["share"] > 0
    assert settings["final_gamma"] > settings["gamma"]
    heist_settings, _ = learner_preset("far", Heist())  # a world with a horizon of its own
    assert not {"final_gamma", "final_gae_lambda"} & heist_settings.keys()
    with pytest.raises(PlanError, match="did you mean 'far'"):
        learner_preset("fare", Crafter())


INVALID = [
    ({"cycels": 4}, "did you mean 'cycles'"),
    ({"mixing": "mixd"}, "did you mean 'mixed'"),
    ({"cycles": -1}, "greater than or equal to 0"),
    ({"levels": 0}, "greater than or equal to 1"),
    ({"feedback_groups": 1}, "greater than or equal to 2"),
    ({"ratio": -1}, "greater than or equal to 0"),
    ({"ratio": float("inf")}, "finite number"),
    ({"ratio": 1e306}, "less than or equal to 1000000"),
    ({"preset": "quick"}, "'preset' is not one of"),
    ({"world": "heist"}, "'world' is not one of"),
]


@pytest.mark.parametrize(("changes", "message"), INVALID)
def test_invalid_plan_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        TrainingPlan(**changes)
    with pytest.raises(PlanError, match=message):
        plan_for("quick", **changes)


def test_long_preset_mixes_designed_levels_until_the_end():
    plan = plan_for("long", Heist())
    assert plan.total_steps == 20_000_000
    assert (plan.cycles, plan.mixing, plan.final_steps) == (20, "mixed", 0)
    assert plan.num_level_envs(100) == 80 == 100 * (1 - plan.original_share)


def test_unknown_preset_is_refused_with_the_nearest_name():
    with pytest.raises(PlanError, match="preset 'qick' is not one of paper, quick, long; did you mean 'quick'"):
        plan_for("qick")
    with pytest.raises(ValueError, match="preset 'fast' is not one of paper, quick, long"):
        plan_for("fast")


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_out_of_range_is_refused(seed):
    check_training_seed(0)
    check_training_seed(2**31 - 1)
    with pytest.raises(PlanError, match=f"seed must be from 0 to 2147483647, not {seed}"):
        check_training_seed(seed)
