"""What a designer hears of a cycle: rates over seeds that keep their decimals, and how it went in each level."""

import numpy as np
import pytest
from ladder import UP, Climbed, Ladder

from envgen.curriculum.feedback import evaluate_over_seeds, level_outcomes
from envgen.designers.designer import LevelOutcome, SuccessRate


class Some:
    """Goes up in some of the environments, by the numbers that they show."""

    def __init__(self, climbers: set[int]):
        self.climbers = climbers

    def act(self, observations, random=None):
        return np.where(np.isin(observations[:, 0], list(self.climbers)), UP, 0)


def test_rates_are_means_and_deviations_over_seeds():
    """Of 3 seeds with 4 episodes each, 4, 2 and 1 succeed."""
    found, rates = evaluate_over_seeds(Some({0, 1, 2, 3, 4, 7, 10}), Ladder(), 3, 4, seed=9, observation="number")
    each = np.array([100.0, 50.0, 25.0])
    assert rates["climb"].mean == pytest.approx(each.mean())
    assert rates["climb"].std == pytest.approx(each.std(ddof=0))
    assert str(rates["climb"]) == "58.3% ± 31.2%"
    assert rates["fly"] == SuccessRate(mean=0, std=0)
    assert found.skills["climb"].value == rates["climb"].mean
    assert (found.episodes, found.seed, found.world, found.greedy) == (12, 9, "ladder", False)
    assert found.reward.value == pytest.approx(7 / 12)


def test_a_rare_success_is_not_rounded_away():
    _, rates = evaluate_over_seeds(Some({17}), Ladder(), 12, 20, seed=0, observation="number")
    assert str(rates["climb"]) == "0.4% ± 1.4%"


def test_a_skill_counts_once_an_episode():
    _, rates = evaluate_over_seeds(Some(set(range(4))), Climbed(), 2, 2, seed=0, observation="number")
    assert rates["climb"] == SuccessRate(mean=100, std=0)


# --- how it went in each level


def line(*levels: tuple[int, float, list[int] | None]) -> dict:
    """A line of progress: of each level the episodes that ended, their returns and their successes."""
    names = ("episodes", "return_sum", "succeeded")
    return {"levels": [dict(zip(names, level, strict=True)) for level in levels]}


def test_a_level_is_told_by_its_whole_its_first_and_its_last_third():
    lines = [
        line((2, 1.0, [0, 0])), line((2, 3.0, [1, 0])),  # the first third
        line((0, 0.0, None)), line((4, 6.0, [2, 0])),
        line((3, 9.0, [3, 1])), line((1, 5.0, [1, 0])),  # the last
    ]  # fmt: skip
    (told,) = level_outcomes(lines, ("climb", "fly"), 1)
    assert told == LevelOutcome(
        episodes=12,
        reward=2.0,
        skills={"climb": 100 * 7 / 12, "fly": 100 / 12},
        first_third={"climb": 25.0, "fly": 0.0},
        last_third={"climb": 100.0, "fly": 25.0},
    )


def test_levels_are_kept_apart_and_one_without_an_episode_is_none():
    lines = [line((1, 2.0, [1]), (0, 0.0, None), (5, 5.0, [0])), line((1, 4.0, [0]), (0, 0.0, None), (5, 0.0, [5]))]
    first, none, last = level_outcomes(iter(lines), ("climb",), 3)
    assert none is None
    assert first is not None
    assert last is not None
    assert (first.episodes, first.reward, first.skills) == (2, 3.0, {"climb": 50.0})
    assert (last.episodes, last.reward, last.skills) == (10, 0.5, {"climb": 50.0})


def test_of_a_phase_without_lines_nothing_is_known():
    assert level_outcomes([], ("climb",), 2) == (None, None)
    assert level_outcomes([], ("climb",), 0) == ()


def test_rates_in_a_level_count_only_episodes_that_could_hold_the_skill():
    line = {"levels": [{"episodes": 4, "return_sum": 2.0, "succeeded": [2, 1, 0], "possible": [4, 2, 0]}]}
    [found] = level_outcomes([line], ["any", "some", "none"], 1)
    assert found.skills == {"any": 50.0, "some": 50.0, "none": 0.0}
