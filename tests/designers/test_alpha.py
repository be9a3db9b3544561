"""Alpha: a policy over settings that learns which levels have the right difficulty."""

from collections.abc import Sequence

import numpy as np
import pytest
from pydantic import ValidationError
from samples import ToyLevel, make_cycle, make_outcome, make_proposal, toy_brief

from envgen.designers.alpha import AlphaDesigner, AlphaSettings, softmax
from envgen.designers.designer import Cycle, LevelOutcome, Proposal
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.level_space import setting_values

SPACE = setting_values(ToyLevel)
LEVEL = ToyLevel()


def value_probs(history: Sequence[Cycle], **settings) -> dict[str, dict]:
    """The policy's probability of each value of each setting."""
    logits = AlphaDesigner(AlphaSettings(**settings)).policy_logits(SPACE, history)
    return {name: dict(zip(SPACE[name], softmax(logits[name]), strict=True)) for name in SPACE}


def cycle_with(*levels_and_rates) -> Cycle:
    """A cycle with levels and the success rates in each, or None."""
    levels, rates = zip(*levels_and_rates, strict=True)
    return make_cycle(make_proposal(ToyLevel, *levels), [None if r is None else make_outcome(r) for r in rates])


@pytest.mark.parametrize("name", ["beta", "learning_rate"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_settings_are_finite(name, value):
    with pytest.raises(ValidationError, match=name):
        AlphaSettings(**{name: value})


def test_the_initial_policy_equals_random():
    probs = value_probs((), keep_prob=0.4)
    assert probs["slope"] == pytest.approx({"original": 0.6, "flat": 0.2, "steep": 0.2})
    assert probs["ground.stones"][2] == pytest.approx(0.4 + 0.6 / 5)
    proposal = AlphaDesigner(AlphaSettings(keep_prob=0.4)).design(toy_brief(num_levels=2000), ())
    share = np.mean([item.level.slope == "original" for item in proposal.levels])
    assert share == pytest.approx(0.6, abs=0.05)


def test_the_reward_is_highest_where_skills_succeed_half_the_time():
    designer = AlphaDesigner()
    assert designer.reward(make_outcome([50.0, 50.0]), LEVEL) == pytest.approx(1)
    at_extremes = pytest.approx(np.exp(-2))  # 8 * 0.5²
    assert designer.reward(make_outcome([0.0]), LEVEL) == designer.reward(make_outcome([100.0]), LEVEL) == at_extremes
    assert designer.reward(make_outcome([30.0]), LEVEL) == pytest.approx(np.exp(-8 * 0.04))
    assert designer.reward(make_outcome([0.0, 50.0]), LEVEL) == pytest.approx((1 + np.exp(-2)) / 2)
    assert AlphaDesigner(AlphaSettings(alpha=0.8)).reward(make_outcome([80.0]), LEVEL) == pytest.approx(1)


def test_the_reward_leaves_out_skills_that_the_level_grants():
    rates = {"make_wood_pickaxe": 0.0, "collect_stone": 50.0}
    outcome = LevelOutcome(episodes=10, reward=1.0, skills=rates, first_third=rates, last_third=rates)
    assert AlphaDesigner().reward(outcome, CrafterLevel()) == pytest.approx((1 + np.exp(-2)) / 2)
    with_pickaxe = CrafterLevel.parse({"inventory": {"wood_pickaxe": 1}})
    assert AlphaDesigner().reward(outcome, with_pickaxe) == pytest.approx(1)
    all_done = CrafterLevel.parse({"done": list(rates)})
    assert AlphaDesigner().reward(outcome, all_done) is None


@pytest.mark.parametrize("extreme", [0.0, 100.0])
def test_the_policy_prefers_half_success_to_hopeless_and_trivial_levels(extreme):
    before = value_probs(())
    after = value_probs([cycle_with(({"slope": "flat"}, [50.0]), ({"slope": "steep"}, [extreme]))])
    assert after["slope"]["flat"] > before["slope"]["flat"] + 0.02
    assert after["slope"]["steep"] < before["slope"]["steep"] - 0.02
    assert after["fog"] == pytest.approx(before["fog"])  # equal in both levels


def test_the_policy_learns_about_nested_settings_and_original_values():
    before = value_probs(())
    after = value_probs([cycle_with(({"ground": {"stones": 4}}, [0.0]), ({}, [50.0]))])
    assert after["ground.stones"][4] < before["ground.stones"][4]
    assert after["ground.stones"][2] > before["ground.stones"][2]


def test_the_policy_learns_about_settings_whose_values_are_lists():
    space, designer = setting_values(CrafterLevel), AlphaDesigner(AlphaSettings(learning_rate=0.5))
    assert space["done"] == (("granted",), ())
    proposal = make_proposal(CrafterLevel, {"done": []}, {})
    history = [make_cycle(proposal, [make_outcome([50.0]), make_outcome([0.0])])]  # the advantages are 1 and -1
    before, after = (designer.policy_logits(space, cycles)["done"] for cycles in ((), history))
    assert after - before == pytest.approx([-0.25, 0.25])


@pytest.mark.parametrize(
    "cycle",
    [
        cycle_with(({"slope": "flat"}, [0.0]), ({"slope": "steep"}, [100.0])),  # equally far from a half
        cycle_with(*[({"slope": word}, [7.0, 13.0]) for word in ("flat", "steep", "steep")]),
        cycle_with(*[({"slope": word}, [rate, 20.1]) for word, rate in (("flat", 20.1), ("steep", 20.1 + 1e-12))]),
        cycle_with(({"slope": "flat"}, [50.0]), ({"slope": "steep"}, None)),
        cycle_with(({"slope": "flat"}, None), ({"slope": "steep"}, None)),
        make_cycle(Proposal()),
    ],
)
def test_equal_rewards_leave_the_policy_unchanged(cycle):
    assert value_probs([cycle, cycle]) == value_probs(())


def test_levels_without_finished_episodes_are_ignored():
    pairs = [({"slope": "flat"}, [50.0]), ({"slope": "steep"}, [10.0])]
    assert value_probs([cycle_with(*pairs, ({"fog": True}, None))]) == value_probs([cycle_with(*pairs)])


@pytest.mark.parametrize("seed", range(3))
def test_the_policy_finds_the_setting_that_decides(seed):
    """Only the slope matters: flat is trivial, steep succeeds half the time, the original is hopeless."""
    rates = {"flat": 100.0, "steep": 50.0, "original": 0.0}
    history: list[Cycle] = []
    for number in range(1, 61):
        proposal = AlphaDesigner().design(toy_brief(seed=seed, cycle=number, num_cycles=60), history)
        outcomes = [make_outcome([rates[item.level.slope]]) for item in proposal.levels]
        history.append(make_cycle(proposal, outcomes, number))
    probs = value_probs(history)
    assert probs["slope"]["steep"] > 0.9
    late_levels = [item.level for cycle in history[-10:] for item in cycle.proposal.levels]
    assert np.mean([level.slope == "steep" for level in late_levels]) > 0.75
    assert max(probs["fog"].values()) < 0.97  # settings without effect stay undecided
