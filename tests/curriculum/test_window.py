"""The published measure: the score of all training episodes of a phase, and the reward of its last 100,000
steps."""

from collections.abc import Iterable

import numpy as np
import pytest

from envgen.curriculum.evaluate import score
from envgen.curriculum.window import TrainingStats, training_stats

SKILLS = ("climb", "fly")


def line(steps: int, episodes: int, returns: float, succeeded: list[int] | None) -> dict:
    return {"steps": steps, "episodes": episodes, "return_sum": returns, "succeeded": succeeded}


def shown(lines: Iterable[dict]) -> TrainingStats:
    found = training_stats(lines, SKILLS)
    assert found is not None
    return found


def test_the_score_is_over_all_episodes_and_the_reward_over_the_late_ones():
    lines = [
        line(900_000, 4, 4.0, [1, 0]),
        line(1_000_000, 2, 6.0, [2, 0]),  # exactly 100,000 steps before the end: not among the last
        line(1_050_000, 1, 9.0, [1, 0]),
        line(1_100_000, 3, 15.0, [1, 1]),
    ]
    window = shown(iter(lines))
    assert window.episodes == 10
    assert window.skills == {"climb": 50.0, "fly": 10.0}
    assert window.score == pytest.approx(np.exp((np.log(51) + np.log(11)) / 2) - 1)
    assert window.score == score(np.array([50.0, 10.0]))
    assert window.reward == pytest.approx(24 / 4)


def test_steps_before_the_phase_do_not_shift_the_window():
    lines = [line(steps, 1, float(steps > 300_000), [0, 0]) for steps in (200_000, 300_000, 350_000, 400_000)]
    assert shown(lines).reward == 1.0


def test_updates_in_which_no_episode_ended_count_for_nothing():
    lines = [line(1, 0, 0.0, None), line(2, 1, 3.0, [1, 0]), line(3, 0, 0.0, None)]
    window = shown(lines)
    assert (window.episodes, window.reward, window.skills["climb"]) == (1, 3.0, 100.0)


def test_where_no_episode_ended_late_the_reward_is_that_of_all():
    assert shown([line(10, 2, 6.0, [0, 0]), line(900_000, 0, 0.0, None)]).reward == 3.0


def test_where_no_episode_ended_there_is_no_window():
    assert training_stats([], SKILLS) is None
    assert training_stats([line(10, 0, 0.0, None)], SKILLS) is None
