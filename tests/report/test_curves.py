"""Curves of groups of runs: means over seeds at common steps."""

from pathlib import Path

import pytest

from envgen.report.curves import NUM_GRID, aggregate, training_points
from envgen.report.read import RunFiles
from run_files import write_json, write_lines


def points(count: int, shift: float = 0.0, start: float = 1000.0) -> list[tuple[float, float]]:
    return [(start * k + shift, k + shift) for k in range(1, count + 1)]


def test_seeds_with_the_same_evaluations_are_averaged_at_each_of_them():
    result = aggregate([points(3), points(3, shift=2)])
    assert result["x"] == [1001, 2001, 3001]
    assert result["y"] == pytest.approx([2, 3, 4])
    assert None not in result["low"]


def test_evaluations_that_an_unfinished_run_lacks_are_those_of_the_other_runs():
    result = aggregate([points(2, shift=2), points(4)])
    assert result["x"] == [1000, 2000, 3000, 4000]  # and no point between two evaluations
    assert result["y"] == pytest.approx([2, 3, 3, 4])
    assert result["low"][:2] == pytest.approx([1, 2])
    assert result["low"][2:] == [None, None]
    relative = aggregate([points(2, shift=2), points(4)], relative=True)
    assert relative["y"] == pytest.approx([0, 1, 2, 3])


def test_seeds_with_other_evaluations_are_interpolated():
    result = aggregate([points(4), points(3, start=1500.0)])
    assert len(result["x"]) == NUM_GRID
    assert (result["x"][0], result["x"][-1]) == (1000, 4500)
    assert result["y"][0] == 1
    assert aggregate([[], []]) is None


@pytest.mark.parametrize(
    ("counts", "rate", "num_points"),
    [({"possible": [2]}, {"value": 50, "low": 9.5, "high": 90.5}, 2),  # two of eight episodes allow the skill
     ({}, {"value": 50, "low": 21.5, "high": 78.5}, 2),  # all of them do
     ({}, {"value": 100 / 3, "low": 6.1, "high": 79.2}, 0),  # a copy that lacks the counts
     ({}, {"value": 0, "low": 0, "high": 100}, 0)],
)  # fmt: skip
def test_training_has_no_scores_without_the_episodes_that_allowed_a_skill(tmp_path: Path, counts, rate, num_points):
    line = {"phase": "final", "episodes": 8, "succeeded": [1], **counts}
    write_lines(tmp_path / "progress.jsonl", [line | {"steps": steps} for steps in (100, 200)])
    write_json(tmp_path / "summary.json", {"final": {"episodes": 8, "skills": {"open_door": rate}}})
    points, phases = training_points(RunFiles(tmp_path, "run", {"request": {"world": "heist"}}))
    assert phases == [(0, 200, "final")]
    assert [score for _, score in points] == pytest.approx([50 if counts else 12.5] * num_points)
