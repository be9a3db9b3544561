"""Evaluations: equal numbers of episodes, repeatable, without side effects, equal to the original package."""

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ladder import UP, Ladder, LadderLevel, LadderWithExpert

from envgen.agents.ppo import PPO
from envgen.curriculum.evaluate import (
    SCORING_EPISODES,
    Estimate,
    LevelScorer,
    act_where,
    evaluate,
    evaluate_in_groups,
    level_outcomes,
    mean_with_ci,
    rate_with_ci,
    run_episodes,
    score,
    score_with_ci,
    summarize_episodes,
    t95,
)
from envgen.designers.designer import LevelOutcome
from envgen.worlds.crafter.constants import SKILLS
from envgen.worlds.crafter.reference import ParityChecker, read_reference_symbols
from envgen.worlds.crafter.world import Crafter


@pytest.fixture(scope="module")
def agents() -> dict[str, PPO]:
    """Untrained, but with preferences: the weights of the policy head are scaled up."""
    agents = {}
    for observation in ("symbols", "pixels"):
        agents[observation] = PPO.for_envs(Crafter().make(num_envs=1, observation=observation), seed=2)
        agents[observation].network.policy_head.weight.data *= 50
    return agents


@pytest.mark.parametrize(
    ("observation", "episodes"), [("symbols", 6), pytest.param("pixels", 2, marks=pytest.mark.slow)]
)
def test_episodes_equal_those_of_the_package_with_ordered_sets(agents, observation, episodes):
    """With the same seeds, policy and random numbers, returns, lengths and skills are equal one by one."""
    count, world = 2, Crafter()
    ours = world.make([{}], num_envs=count, seed=70, observation=observation)
    theirs = world.reference_envs(count, 70, observation, episodes, ordered=True)
    results = [run_episodes(agents[observation], envs, episodes, np.random.default_rng(1)) for envs in (ours, theirs)]
    for actual, expected in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-9)
    assert results[0][1].min() > 20


def test_symbols_read_from_the_package_equal_ours():
    checker, rng = ParityChecker(seed=5), np.random.default_rng(0)
    envs = Crafter().make(num_envs=1, observation="symbols")
    checker.reset()
    obs, _ = envs.reset(seed=5)
    for _ in range(250):
        np.testing.assert_array_equal(read_reference_symbols(checker.reference_env), obs[0])
        action = int(rng.integers(17))
        if checker.step(action):
            checker.reset()
        obs, *_ = envs.step(np.array([action]))


def test_unmodified_package_agrees(agents):
    """The package is not repeatable, so estimates are compared. Chance alone differs as much once in 10,000 times."""
    world = Crafter()
    ours = evaluate(agents["symbols"], world, episodes=12, seed=9)
    theirs = evaluate(agents["symbols"], world, episodes=12, seed=9, envs=world.reference_envs(12, 9))
    for actual, expected in ((ours.reward, theirs.reward), (ours.score, theirs.score)):
        margin = math.hypot(actual.high - actual.low, expected.high - expected.low)  # about four standard errors
        assert abs(actual.value - expected.value) < margin


def test_evaluation_is_repeatable_and_has_no_side_effects(agents):
    agent = agents["symbols"]
    before = agent.state()[1]
    first, second = (evaluate(agent, Crafter(), {"length": 60}, episodes=10, seed=4) for _ in range(2))
    assert first == second
    assert first.level["length"] == 60
    assert agent.state()[1] == before
    assert first != evaluate(agent, Crafter(), {"length": 60}, episodes=10, seed=5)


def test_every_environment_plays_the_same_number_of_episodes():
    """Taking the first episodes that end would take all of them from the short level."""

    class NoopAgent:
        def act(self, obs, rng=None):
            return np.zeros(len(obs), np.int64)

    levels = [{"length": 5}, {"length": 50, "zombies": "none"}]
    envs = Crafter().make(
        levels, 2, seed=0, observation="symbols"
    )  # seeds in which a player that does nothing survives
    _, lengths, skill_counts = run_episodes(NoopAgent(), envs, 6, None)
    assert lengths.tolist() == [5, 5, 5, 50, 50, 50]
    assert skill_counts.shape == (6, 22)


def test_environments_without_same_step_autoreset_are_refused(agents):
    world = Crafter()
    envs = world.make([], 4, 0, "symbols", autoreset_mode="NextStep")
    with pytest.raises(ValueError, match="same-step autoreset"):
        evaluate(agents["symbols"], world, episodes=4, seed=9, envs=envs)


def test_rates_have_the_wilson_interval():
    assert rate_with_ci(0, 50).low == 0
    assert rate_with_ci(0, 50).high == pytest.approx(7.1, abs=0.1)
    half = rate_with_ci(50, 100)
    assert (half.value, half.low, half.high) == pytest.approx((50, 40.4, 59.6), abs=0.1)
    assert rate_with_ci(10, 10).high == pytest.approx(100)


def test_score_is_that_of_crafter():
    assert score(np.zeros(22)) == 0
    assert score(np.full(22, 100.0)) == pytest.approx(100)
    one_skill = np.zeros(22)
    one_skill[0] = 100
    assert score(one_skill) == pytest.approx(101 ** (1 / 22) - 1)
    succeeded = np.random.default_rng(0).random((200, 22)) < 0.3
    estimate = score_with_ci(succeeded)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.low > 25
    assert estimate.high < 35


def test_intervals_of_the_score_cover_that_of_many_episodes():
    """The score of few episodes is too low on average where skills are rare. 95% would be ideal."""
    rates = np.array([1, 1, 1, *np.linspace(0.99, 0.8, 12), 0.75, 0.7, 0.6, 0.5, 0.3, 0.1, 0.003])
    rng, true_score = np.random.default_rng(0), score(100 * rates)
    estimates = [score_with_ci(rng.random((128, 22)) < rates) for _ in range(100)]
    assert sum(estimate.low <= true_score <= estimate.high for estimate in estimates) >= 90
    assert all(estimate.low < estimate.value < estimate.high for estimate in estimates)


def test_intervals_of_means_are_those_of_student():
    assert t95(1) == pytest.approx(12.706, abs=0.001)
    assert [t95(df) for df in (10, 11, 15, 30, 1023)] == pytest.approx([2.228, 2.201, 2.131, 2.042, 1.962], abs=0.001)
    few = mean_with_ci(np.array([1.0, 3.0]))
    assert (few.value, few.high - few.value) == pytest.approx((2, 12.706), abs=0.001)
    assert mean_with_ci(np.array([3.0])) == Estimate(value=3, low=3, high=3)


def test_intervals_of_lengths_begin_at_zero_and_a_single_value_has_none():
    few = mean_with_ci(np.array([40.0, 160.0]), minimum=0.0)
    assert (few.value, few.low) == (100.0, 0.0)
    assert few.high > 800
    assert mean_with_ci(np.array([40.0, 160.0])).low < -600
    assert str(mean_with_ci(np.array([40.0]))) == "40.0"


def test_an_impossible_skill_has_no_rate():
    counts = np.array([[1, -1], [0, -1]])
    fields = {"world": "toy", "level": {}, "seed": 0, "deterministic": False}
    evaluation = summarize_episodes(["first", "second"], np.ones(2), np.ones(2), counts, **fields)
    assert re.search(r"first +50\.0 \[", str(evaluation))
    assert str(evaluation).endswith("\nimpossible in these episodes: second")


def test_estimates_agree_if_their_difference_is_within_its_interval():
    assert Estimate(value=10, low=9, high=11).agrees_with(Estimate(value=11.3, low=10.3, high=12.3))
    assert not Estimate(value=10, low=9, high=11).agrees_with(Estimate(value=11.5, low=10.5, high=12.5))


def test_evaluation_lists_every_skill(agents):
    evaluation = evaluate(agents["symbols"], Crafter(), {"length": 30}, episodes=4)
    assert list(evaluation.skills) == [skill.name for skill in SKILLS]
    assert "collect_diamond" in str(evaluation)
    with pytest.raises(ValueError, match="at least 1 episode, not 0"):
        evaluate(agents["symbols"], Crafter(), episodes=0)
    with pytest.raises(ValueError, match="seed must be 0 or greater, not -1"):
        evaluate(agents["symbols"], Crafter(), seed=-1)


def test_rate_counts_only_episodes_in_which_the_skill_is_possible():
    skill_counts = np.array([[1, -1, -1], [0, 2, -1], [3, 0, -1], [0, -1, -1]])
    evaluation = summarize_episodes(["any", "some", "none"], np.zeros(4), np.ones(4), skill_counts,
                          world="w", level={}, seed=0, deterministic=False)  # fmt: skip
    assert [evaluation.skills[name].value for name in ("any", "some", "none")] == [50, 50, 0]
    assert (evaluation.skills["none"].low, evaluation.skills["none"].high) == (0, 100)
    assert evaluation.score.value == pytest.approx(50)  # a skill that was never possible does not count as failed


# --- feedback for the designer


class SelectiveClimber:
    """Climbs only in the environments whose index is in `climbers`."""

    def __init__(self, climbers: set[int]):
        self.climbers = climbers

    def act(self, obs, rng=None):
        return np.where(np.isin(obs[:, 0], list(self.climbers)), UP, 0)


def test_rates_are_means_and_standard_deviations_over_seeds():
    """Of 3 seeds with 4 episodes each, 4, 2 and 1 episodes succeed."""
    evaluation, rates = evaluate_in_groups(
        SelectiveClimber({0, 1, 2, 3, 4, 7, 10}), Ladder(), 3, 4, seed=9, observation="number"
    )
    by_seed = np.array([100.0, 50.0, 25.0])
    assert rates["climb"].mean == pytest.approx(by_seed.mean())
    assert rates["climb"].std == pytest.approx(by_seed.std(ddof=0))
    assert str(rates["climb"]) == "58.3% ± 31.2%"
    assert (rates["fly"].mean, rates["fly"].std) == (0, 0)
    p = 8 / 14  # one success and one failure more than the 7 of 12
    assert rates["climb"].standard_error == pytest.approx(100 * (p * (1 - p) / 12) ** 0.5)
    assert 0 < rates["fly"].standard_error < rates["climb"].standard_error
    assert evaluation.skills["climb"].value == rates["climb"].mean
    assert (evaluation.episodes, evaluation.seed, evaluation.world, evaluation.deterministic) == (
        12,
        9,
        "ladder",
        False,
    )
    assert evaluation.reward.value == pytest.approx(7 / 12)


def test_rare_success_is_not_rounded_away():
    _, rates = evaluate_in_groups(SelectiveClimber({17}), Ladder(), 12, 20, seed=0, observation="number")
    assert str(rates["climb"]) == "0.4% ± 1.4%"


def test_skill_counts_once_per_episode():
    _, rates = evaluate_in_groups(
        SelectiveClimber(set(range(4))), LadderWithExpert(), 2, 2, seed=0, observation="number"
    )
    assert (rates["climb"].mean, rates["climb"].std) == (100, 0)


# --- scores of levels


class Climber:
    """Always goes up. Training lasts as many steps as it is asked to."""

    settings = SimpleNamespace(num_envs=2)
    steps = 0

    def act(self, obs, rng=None):
        return np.full(len(obs), UP)

    def untrained_copy(self, seed):
        return Climber()

    def train(self, envs, steps):
        self.steps = steps


def test_the_steps_that_it_takes_to_score_levels_are_counted():
    """Episodes of a ladder end at their time limit, so the number of steps is known."""
    climber: Any = Climber()
    scorer = LevelScorer(Ladder(), "number", climber, train_steps=100, seed=0, cycle=1)
    levels, lengths = [LadderLevel(length=3), LadderLevel(length=11)], 3 + 11
    expected = 0
    assert scorer.steps == expected
    for _ in range(2):
        scorer.score(levels, "agent")
        expected += SCORING_EPISODES * lengths
        assert scorer.steps == expected
        scorer.success_rates(levels, episodes=5)
        expected += 5 * lengths
        assert scorer.steps == expected
        scorer.score(levels, "scoring_agent")
        expected += 2 * 100 + SCORING_EPISODES * lengths
        assert scorer.steps == expected


# --- outcomes by level


def progress_line(*levels: tuple[int, float, list[int] | None]) -> dict:
    """Return a progress line with the finished episodes, their returns and the successes in each level."""
    names = ("episodes", "return_sum", "succeeded")
    return {"levels": [dict(zip(names, level, strict=True)) for level in levels]}


def test_outcome_covers_all_episodes_and_the_first_and_last_third():
    lines = [
        progress_line((2, 1.0, [0, 0])), progress_line((2, 3.0, [1, 0])),  # the first third
        progress_line((0, 0.0, None)), progress_line((4, 6.0, [2, 0])),
        progress_line((3, 9.0, [3, 1])), progress_line((1, 5.0, [1, 0])),  # the last
    ]  # fmt: skip
    (outcome,) = level_outcomes(lines, ("climb", "fly"), 1)
    assert outcome == LevelOutcome(
        episodes=12,
        reward=2.0,
        skills={"climb": 100 * 7 / 12, "fly": 100 / 12},
        first_third={"climb": 25.0, "fly": 0.0},
        last_third={"climb": 100.0, "fly": 25.0},
    )


def test_no_episode_is_in_both_the_first_and_the_last_third():
    """If many episodes end in the same update, they are all in the first third."""
    lines = [progress_line((7, 0.0, [5])), progress_line((3, 0.0, [3]))]
    (outcome,) = level_outcomes(lines, ("climb",), 1)
    assert outcome is not None
    assert (outcome.first_third, outcome.last_third) == ({"climb": 100 * 5 / 7}, {"climb": 100.0})
    (outcome,) = level_outcomes(lines[:1], ("climb",), 1)
    assert outcome is not None
    assert (outcome.first_third, outcome.last_third) == ({"climb": 100 * 5 / 7}, {})


def test_levels_are_separate_and_one_without_episodes_is_none():
    lines = [
        progress_line((1, 2.0, [1]), (0, 0.0, None), (5, 5.0, [0])),
        progress_line((1, 4.0, [0]), (0, 0.0, None), (5, 0.0, [5])),
    ]
    first, empty, last = level_outcomes(iter(lines), ("climb",), 3)
    assert empty is None
    assert first is not None
    assert last is not None
    assert (first.episodes, first.reward, first.skills) == (2, 3.0, {"climb": 50.0})
    assert (last.episodes, last.reward, last.skills) == (10, 0.5, {"climb": 50.0})


def test_a_level_whose_episodes_mostly_go_on_has_no_outcome():
    """One of several episodes succeeded after 50 steps; the others play on when the phase ends."""
    level = {"episodes": 1, "return_sum": 1.0, "succeeded": [1], "length_sum": 50}
    assert level_outcomes([{"levels": [{**level, "env_steps": 400}]}], ("climb",), 1) == (None,)
    (outcome,) = level_outcomes([{"levels": [{**level, "env_steps": 100}]}], ("climb",), 1)
    assert outcome is not None
    chain = {"stage": 1, "episodes": [1, 0], "succeeded": [1, 0]}
    (outcome,) = level_outcomes([{"levels": [{**level, "env_steps": 400, "chain": chain}]}], ("climb",), 1)
    assert outcome is not None
    assert outcome.chain is not None
    assert outcome.chain.stage == 1


def test_phase_without_lines_has_no_outcomes():
    assert level_outcomes([], ("climb",), 2) == (None, None)
    assert level_outcomes([], ("climb",), 0) == ()


def test_outcome_counts_only_episodes_in_which_the_skill_is_possible():
    line = {"levels": [{"episodes": 4, "return_sum": 2.0, "succeeded": [2, 1, 0], "possible": [4, 2, 0]}]}
    [outcome] = level_outcomes([line], ["any", "some", "none"], 1)
    assert outcome.skills == {"any": 50.0, "some": 50.0}


def test_finished_environments_get_a_valid_action():
    class HalfMore:
        def act(self, obs, rng=None):
            return obs + 0.5

    actions = act_where(np.array([False, True, True]), HalfMore(), np.array([[9.0], [1.0], [2.0]]), None)
    np.testing.assert_array_equal(actions, [[1.5], [1.5], [2.5]])
