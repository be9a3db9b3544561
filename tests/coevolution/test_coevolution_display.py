"""Progress of a co-evolution on a terminal: curves, and accuracy by feature with its changes."""

import io
import json

from rich.console import Console

from envgen.coevolution.display import CoevolutionDisplay
from envgen.runs.display import SPARKS


def progress(step: int, success: float, accuracy: float | None = None) -> dict:
    evaluation = {} if accuracy is None else {
        "eval_accuracy": accuracy, "eval_accuracy_by": {"calls": {"1": accuracy, "2": accuracy / 2}},
    }  # fmt: skip
    return {"step": step, "rollouts": 100 * step, "success_rate": success, "proposed_success_rate": 0.5, "rejected": {},
            "tokens_per_second": 10, "seconds": {"rollout": 1.0},
            "diversity": {"distinct_fraction": 0.5, "entropy": {"calls": 1.0}}, **evaluation}  # fmt: skip


def text_of(display: CoevolutionDisplay, line: dict) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=80).print(display.render(line))
    return out.getvalue().splitlines()


def test_success_and_accuracy_are_curves_with_changes():
    display = CoevolutionDisplay(1000, 0.5, Console(file=io.StringIO()), live=False)
    lines = [progress(0, 0.0, 0.2), progress(5, 0.25), progress(9, 0.75, 0.6)]
    for line in lines:
        display(line)
    shown = text_of(display, lines[-1])
    [success] = [row for row in shown if row.startswith(" success  ")]
    assert success.index(SPARKS[2]) < success.index(SPARKS[-1])
    assert any(row.startswith(" accuracy ") for row in shown)
    assert any("calls 1" in row and "60.0%" in row and "+40" in row for row in shown)
    assert any("calls 2" in row and "30.0%" in row and "+20" in row for row in shown)
    assert "held-out accuracy 60.0% at 900" in "".join(shown)


def test_a_resumed_run_continues_its_curves(tmp_path):
    earlier = [progress(0, 0.0, 0.2), progress(5, 0.25)]
    (tmp_path / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in earlier))
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with CoevolutionDisplay(1000, 0.5, console, tmp_path, live=True) as display:
        display(progress(6, 0.5))
        shown = text_of(display, progress(6, 0.5))
    assert "held-out accuracy 20.0% at 0" in "".join(shown)
    [success] = [row for row in shown if row.startswith(" success  ")]
    assert len(set(success) & set(SPARKS)) == 2


def test_no_time_is_left_when_the_last_step_exceeds_the_total():
    out = io.StringIO()
    display = CoevolutionDisplay(1000, 0.5, Console(file=out, width=200), live=False)
    display(progress(1, 0.5))
    display(progress(11, 0.5))
    assert "1,100 of 1,000 rollouts, 0:00:00 left" in out.getvalue()


def test_evaluations_of_a_domain_without_features_have_no_bars():
    display = CoevolutionDisplay(1000, 0.5, Console(file=io.StringIO()), live=False)
    lines = [{**progress(step, 0.5, accuracy), "eval_accuracy_by": {}} for step, accuracy in ((0, 0.2), (9, 0.6))]
    for line in lines:
        display(line)
    assert "held-out accuracy 60.0% at 900" in "".join(text_of(display, lines[-1]))
