"""Curves of runs, and their aggregates over seeds, as the charts of a report need them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from envgen.runs.kinds import get_path, number, skill_rates, total_tokens
from envgen.runs.statistics import iqm, iqm_with_ci, score

from .read import RunFiles, counts, iter_points

NUM_WINDOWS = 40  # of a training curve
SMOOTHING = 5  # steps over which noisy metrics are averaged
NUM_GRID = 48  # points of an aggregate, unless the curves have the same ones as far as they go
Points = list[tuple[float, float]]
Phase = tuple[float, float, str]
Metric = Callable[[Mapping[str, Any]], float | None]
Select = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def evaluation_points(run: RunFiles) -> Points:
    """The score in the original after each cycle and at the end, over steps."""
    points = [
        (number(cycle.result, "cycle", "steps"), number(cycle.result, "evaluation", "score", "value"))
        for cycle in run.cycles
    ]
    points.append((run.steps or None, number(run.summary, "final", "score", "value")))
    return sorted(dict(iter_points(points)).items())


def num_skills(run: RunFiles) -> int:
    return next((len(line["succeeded"]) for line in run.lines if isinstance(line.get("succeeded"), list)), 0)


def training_points(run: RunFiles, select: Select = lambda line: line) -> tuple[Points, list[Phase]]:
    """The score of the training episodes in parts of the run, over steps, and its phases (first step, last, name).

    A part never spans two phases, because their episodes play different levels. There are no points if the progress
    does not say which episodes allowed a skill.

    Args:
        select: Returns the counts of the episodes of a progress line to use.
    """
    n, phases = num_skills(run), _phases(run)
    total = max(1.0, run.steps)
    points: Points = []
    for start, end, _, lines in [] if _lacks_possible(run) else phases:
        parts = max(1, round(NUM_WINDOWS * (end - start) / total))
        for part in np.array_split(np.arange(len(lines)), min(parts, len(lines))):
            succeeded, possible = np.zeros(n), np.zeros(n)
            for line in (select(lines[k]) for k in part):
                successes = counts(line.get("succeeded"), n)
                if successes is not None:
                    episodes = counts(line.get("possible"), n) or [number(line, "episodes") or 0.0] * n
                    succeeded, possible = succeeded + successes, possible + episodes
            steps = number(lines[part[-1]], "steps")
            if steps is not None and possible.any():
                rates = np.where(possible > 0, 100 * succeeded / np.maximum(possible, 1), np.nan)
                points.append((steps, float(score(np.clip(rates, 0, 100)))))
    return points, [(start, end, name) for start, end, name, _ in phases]


def _lacks_possible(run: RunFiles) -> bool:
    """Return whether the progress does not say which episodes allowed a skill, although some of the finished run's
    evaluation did not. The copies of runs in docs/results lack it.
    """
    estimates, episodes = get_path(run.summary, "final", "skills"), number(run.summary, "final", "episodes")
    rates = skill_rates(run.summary.get("final"))
    if not isinstance(estimates, Mapping) or episodes is None or any("possible" in line for line in run.lines):
        return False
    successes = np.array(list(rates.values())) * episodes / 100  # whole numbers, if all episodes allowed the skill
    return len(rates) < len(estimates) or not np.allclose(successes, successes.round(), rtol=0, atol=1e-6)


def _phases(run: RunFiles) -> list[tuple[float, float, str, list[dict[str, Any]]]]:
    """First step, last step, name and lines of each phase."""
    phases: list[tuple[float, float, str, list[dict[str, Any]]]] = []
    steps_before = 0.0
    for line in run.lines:
        steps, name = number(line, "steps"), line.get("phase")
        if steps is None or not isinstance(name, str):
            continue
        if not phases or phases[-1][2] != name:
            phases.append((steps_before, steps, name, []))
        start, _, _, lines = phases[-1]
        lines.append(line)
        phases[-1] = (start, steps, name, lines)
        steps_before = steps
    return phases


def cycle_rates(run: RunFiles) -> dict[str, dict[str, float]]:
    """Success rates of the skills in the original, by the name of the evaluation: `cycle 1`, ..., `final`."""
    rates = {f"cycle {cycle.number}": skill_rates(cycle.result.get("evaluation")) for cycle in run.cycles}
    rates["final"] = skill_rates(run.summary.get("final"))
    return {name: by_skill for name, by_skill in rates.items() if by_skill}


def coevolution_points(run: RunFiles, metric: Metric, unit: str = "rollouts", smooth: bool = False) -> Points:
    """A metric of the progress lines over rollouts or tokens."""
    points = list(iter_points([(position(line, unit), metric(line)) for line in run.lines]))
    if smooth and len(points) > 2 * SMOOTHING:
        smoothed = moving_average([y for _, y in points])
        points = [(x, float(y)) for (x, _), y in zip(points, smoothed, strict=True)]
    return points


def moving_average(values: ArrayLike) -> np.ndarray:
    """Each value averaged with those around it, SMOOTHING in all."""
    return np.convolve(np.pad(values, SMOOTHING // 2, mode="edge"), np.ones(SMOOTHING) / SMOOTHING, mode="valid")


def position(line: Mapping[str, Any], unit: str) -> float | None:
    if unit != "tokens":
        return number(line, unit)
    return total_tokens(line)


def accuracy_points(run: RunFiles, unit: str) -> Points:
    """The held-out accuracy in percent; from the summary where the progress is missing."""
    points = coevolution_points(run, lambda line: _percent(number(line, "eval_accuracy")), unit)
    if points:
        return points
    rows = run.summary.get("accuracy_curve")
    rows = [row for row in rows if isinstance(row, list) and len(row) == 4] if isinstance(rows, list) else []
    return list(iter_points([(number(row[1 if unit == "tokens" else 0]), number(row[3])) for row in rows]))


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def aggregate(curves: Sequence[Points], relative: bool = False) -> dict[str, list[float | None]] | None:
    """The interquartile mean of curves, with its interval over seeds where at least two of them have a value.

    Returns:
        `x`, `y`, `low` and `high`, or None if no curve has a point. With `relative`, curves start at 0.
    """
    arrays = [np.array(points, float).T for points in curves if points]
    if not arrays:
        return None
    if relative:
        arrays = [np.stack([x, y - y[0]]) for x, y in arrays]
    longest = max((x for x, _ in arrays), key=len)
    if all(np.allclose(x, longest[: len(x)], rtol=0.02) for x, _ in arrays):
        grid = np.mean([x for x, _ in arrays if len(x) == len(longest)], axis=0)
        values = np.full((len(arrays), len(grid)), np.nan)  # the curves of unfinished runs end earlier
        for row, (_, y) in zip(values, arrays, strict=True):
            row[: len(y)] = y
    else:
        grid = _grid(arrays)
        values = np.stack([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in arrays])
    result: dict[str, list[float | None]] = {"x": grid.tolist(), "y": [], "low": [], "high": []}
    for column in values.T:
        known = column[np.isfinite(column)]
        interval = iqm_with_ci(known.tolist()) if len(known) > 1 else None
        result["y"].append(float(iqm(known)) if len(known) else None)
        result["low"].append(interval.low if interval else None)
        result["high"].append(interval.high if interval else None)
    return result


def _grid(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.linspace(min(x[0] for x, _ in arrays), max(x[-1] for x, _ in arrays), NUM_GRID)
