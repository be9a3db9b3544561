"""Learning curves and results of co-evolutions, read from run directories."""

import json
import shutil
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from envgen.runs.store import RunError
from scripts import imported_script

with imported_script(Path(__file__).parents[2] / "benchmarks" / "run_figures.py"):
    from run_figures import (
        accuracy_at,
        cost_to_match,
        evaluation_curve,
        paired_difference,
        plot_coevolution_runs,
        plot_training_runs,
        read_summary,
        tokens,
        training_curve,
    )


def write_json(file: Path, value) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


@pytest.fixture
def run(tmp_path) -> Path:
    """A run with two cycles and four updates in its last phase, in two environments."""
    folder = tmp_path / "run"
    request = {"designer": {"name": "expert"}, "learner": {"name": "ppo", "num_envs": 2}}
    write_json(folder / "run.json", {"format": 2, "request": request})
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


def test_a_damaged_evaluation_is_an_error(run):
    (run / "cycles" / "1" / "evaluation.json").write_text("{")
    with pytest.raises(RunError, match=r"evaluation\.json"):
        evaluation_curve(run)


def test_training_curve_starts_with_as_many_episodes_as_environments(run):
    steps, scores = training_curve(run)
    assert steps.tolist() == [300, 400]
    assert scores.tolist() == pytest.approx([50.0, 75.0])


def test_plot_of_curves_is_written_as_png(run, tmp_path):
    plot_training_runs({"expert": [run]}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_legend_names_a_group_whose_runs_have_different_numbers_of_cycles(run, tmp_path, monkeypatch):
    shorter = shutil.copytree(run, tmp_path / "shorter")
    shutil.rmtree(shorter / "cycles" / "2")
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **options: figures.append(figure))
    plot_training_runs({"expert": [run, shorter], "none": [run]}, tmp_path / "curves.png")
    legend = figures[0].axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["expert (2)", "none (1)"]


def test_training_scores_are_plotted_only_where_the_last_phase_is_in_the_original(run, tmp_path):
    def width(file):
        plot_training_runs({"none": [run], "expert": [run]}, file)
        return int.from_bytes(file.read_bytes()[16:20], "big")  # of a PNG

    both = width(tmp_path / "both.png")
    progress = run / "progress.jsonl"
    progress.write_text(progress.read_text().replace("final", "cycle 2: mixed"))
    assert width(tmp_path / "one.png") == pytest.approx(both / 2, abs=2)
    write_json(run / "run.json", {"format": 2, "request": {"designer": {"name": "none"}, "learner": {"num_envs": 2}}})
    assert width(tmp_path / "none.png") == both  # without levels, a mixed phase is in the original


@pytest.mark.parametrize(("recorded_score", "num_panels"), [(None, 2), (100 * 4 / 6, 2), (80.0, 1)])
def test_training_scores_are_not_plotted_if_the_progress_contradicts_them(recorded_score, num_panels, run, tmp_path):
    training = {"score": recorded_score, "skills": {"collect_wood": recorded_score}}
    summary = json.loads((run / "summary.json").read_text()) | {"training": recorded_score and training}
    write_json(run / "summary.json", summary)
    plot_training_runs({"none": [run]}, tmp_path / "curves.png")
    width = int.from_bytes((tmp_path / "curves.png").read_bytes()[16:20], "big")
    assert width == pytest.approx(660 * num_panels, abs=2)


def test_the_last_evaluation_of_a_run_without_progress_is_at_the_steps_of_its_summary(run):
    expected = evaluation_curve(run)
    summary = json.loads((run / "summary.json").read_text())
    steps = int(expected[0][-1])
    write_json(run / "summary.json", summary | {"steps": {"levels": 0, "original": steps, "ranking": 7}})
    (run / "progress.jsonl").unlink()
    np.testing.assert_array_equal(evaluation_curve(run), expected)


def write_run(folder, seed, evaluations):
    """Write a run with evaluations (rollouts, tokens of both models, accuracy in %)."""
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"format": 2, "request": {"seed": seed}}))
    lines = [
        {"step": k, "rollouts": rollouts, "agent_tokens": tokens - 10, "environment_tokens": 10, "tasks_proposed": k,
         "proposed_success_rate": 0.4, "difficulty": 2.0,
         "diversity": {"entropy": {"steps": 1.5}, "ngram_overlap": 0.1}, "eval_accuracy": accuracy / 100}
        for k, (rollouts, tokens, accuracy) in enumerate(evaluations)
    ]  # fmt: skip
    (folder / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    curve = [[rollouts, tokens, k, accuracy] for k, (rollouts, tokens, accuracy) in enumerate(evaluations)]
    (folder / "summary.json").write_text(json.dumps({"final_accuracy": evaluations[-1][2], "accuracy_curve": curve}))
    return folder


@pytest.fixture
def groups(tmp_path):
    return {
        "uniform": [
            write_run(tmp_path / "u0", 0, [(0, 10, 20), (100, 1000, 25), (200, 2000, 30)]),
            write_run(tmp_path / "u1", 1, [(0, 10, 40), (100, 1000, 45), (200, 2000, 50)]),
        ],
        "genenv": [
            write_run(tmp_path / "g1", 1, [(0, 10, 40), (100, 1500, 48), (200, 3000, 49)]),
            write_run(tmp_path / "g0", 0, [(0, 10, 20), (100, 1500, 30), (200, 3000, 36)]),
        ],
    }


def test_paired_difference_pairs_runs_of_the_same_seed(groups):
    difference = paired_difference(
        groups["genenv"], groups["uniform"], lambda folder: read_summary(folder)["final_accuracy"]
    )
    assert difference is not None
    assert difference.value == pytest.approx((-1 + 6) / 2)
    assert difference.n == 2
    assert paired_difference(groups["genenv"], [], tokens) is None


def test_cost_to_match_leaves_out_runs_that_never_match(groups):
    assert cost_to_match(groups["genenv"], groups["uniform"], "rollouts") == [100]
    assert cost_to_match(groups["genenv"], groups["uniform"], "tokens") == [1500]
    assert cost_to_match(groups["uniform"], groups["uniform"], "rollouts") == [200, 200]
    assert cost_to_match(groups["uniform"], groups["uniform"][:1], "rollouts") == [200]


def test_accuracy_at_interpolates_between_evaluations(groups):
    assert tokens(groups["genenv"][1]) == 3000
    assert accuracy_at(groups["genenv"][1], 750 + 5) == pytest.approx(25)
    assert accuracy_at(groups["genenv"][1], 9000) == 36


def test_plot_of_co_evolutions_is_written_as_png(groups, tmp_path):
    plot_coevolution_runs(groups, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_backend_of_a_notebook_stays(run, groups, tmp_path, svg_backend):
    plot_training_runs({"expert": [run]}, tmp_path / "curves.png")
    plot_coevolution_runs(groups, tmp_path / "coevolution.png")
    assert matplotlib.get_backend() == "svg"
