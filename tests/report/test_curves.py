"""Learning curves, read from run directories."""

import json
from pathlib import Path

import pytest

from envgen.report.curves import evaluation_curve, plot_curves, training_curve


def write_json(file: Path, value) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


@pytest.fixture
def run(tmp_path) -> Path:
    """A run with two cycles and four updates in its last phase, in two environments."""
    folder = tmp_path / "run"
    write_json(folder / "run.json", {"format": 2, "request": {"learner": {"name": "ppo", "num_envs": 2}}})
    for cycle, score in ((1, 5.0), (2, 8.0)):
        result = {"cycle": {"steps": 100 * cycle}, "evaluation": {"score": {"value": score}}}
        write_json(folder / "cycles" / str(cycle) / "evaluation.json", result)
    write_json(folder / "summary.json", {"final": {"score": {"value": 12.0}}})
    lines = [{"phase": "cycle 2: original", "steps": 200, "episodes": 9, "succeeded": [9]}]
    for steps, episodes, succeeded in ((250, 1, [0]), (300, 1, [1]), (350, 0, None), (400, 4, [3])):
        lines.append({"phase": "final", "steps": steps, "episodes": episodes, "succeeded": succeeded})
    (folder / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_evaluation_curve_has_a_point_per_cycle_and_the_final_score(run):
    steps, scores = evaluation_curve(run)
    assert steps.tolist() == [100, 200, 400]
    assert scores.tolist() == [5.0, 8.0, 12.0]


def test_training_curve_starts_with_as_many_episodes_as_environments(run):
    steps, scores = training_curve(run)
    assert steps.tolist() == [300, 400]
    assert scores.tolist() == pytest.approx([50.0, 75.0])


def test_plot_is_written_as_png(run, tmp_path):
    plot_curves({"expert": [run]}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
