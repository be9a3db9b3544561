"""How runs went, as a picture: the score in the original after each cycle, and in training over the last phase."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envgen.runs.files import exists
from envgen.runs.statistics import score, success_counts, success_rates
from envgen.runs.store import read_json, read_progress, read_request

POINTS = 25  # of a training curve
Curve = tuple[np.ndarray, np.ndarray]  # steps, scores


def plot_curves(groups: Mapping[str, Sequence[Path]], file: Path) -> None:
    """Groups of run directories by name, one colour each: a thin line a run, a thick one for their mean."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    for colour, (name, folders) in enumerate(groups.items()):
        for axis, measured in ((axes[0], after_cycles), (axes[1], in_training)):
            _lines(axis, [measured(folder) for folder in folders], f"C{colour}", f"{name} ({len(folders)})")
    axes[0].set(title="score in the original after each cycle, without learning", ylabel="score %")
    axes[1].set(title="score of training episodes in the last phase", ylabel="score %")
    for axis in axes:
        axis.set(xlabel="million environment steps", ylim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False, fontsize=8, title="runs of", title_fontsize=8)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _lines(axis: Any, curves: Sequence[Curve], colour: str, name: str) -> None:
    curves = [curve for curve in curves if curve[0].size]
    for steps, scores in curves:
        axis.plot(steps / 1e6, scores, color=colour, alpha=0.25, linewidth=0.8)
    if curves and len({steps.size for steps, _ in curves}) == 1:
        steps, scores = (np.mean(values, axis=0) for values in zip(*curves, strict=True))
        axis.plot(steps / 1e6, scores, color=colour, linewidth=1.8, marker="o", markersize=2.5, label=name)


def after_cycles(folder: Path) -> Curve:
    """Of the evaluation after each cycle and at the end."""
    points = []
    for number in sorted(int(entry.name) for entry in (folder / "cycles").glob("[0-9]*")):
        told = _read(folder / "cycles" / str(number) / "evaluation.json")
        if told:
            points.append((told["cycle"]["steps"], told["evaluation"]["score"]["value"]))
    summary = _read(folder / "summary.json")
    if summary:
        lines = list(read_progress(folder))
        points.append((lines[-1]["steps"], summary["final"]["score"]["value"]))
    return _curve(points)


def in_training(folder: Path) -> Curve:
    """Of the episodes that ended in each part of the last phase.

    Of episodes that begin together the short ones end first, so the first part is as many as there are environments.
    """
    lines = list(read_progress(folder))
    lines = [line for line in lines if line["phase"] == lines[-1]["phase"]]
    ended = np.cumsum([line["episodes"] for line in lines])
    begun = read_request(folder)[0]["ppo"]["num_envs"]
    first = int(np.searchsorted(ended, begun)) + 1
    rest = np.arange(min(first, len(lines)), len(lines))
    points = []
    for part in [np.arange(min(first, len(lines))), *np.array_split(rest, max(1, min(POINTS, len(rest))))]:
        told = [lines[k] for k in part if lines[k]["episodes"]]
        if told:
            succeeded, possible = success_counts(told, len(told[0]["succeeded"]))
            points.append((told[-1]["steps"], score(success_rates(succeeded.sum(0), possible.sum(0)))))
    return _curve(points)


def _curve(points: Sequence[tuple[float, float]]) -> Curve:
    steps, scores = np.array(points, dtype=float).reshape(-1, 2).T
    return steps, scores


def _read(file: Path) -> Any:
    return read_json(file) if exists(file) else None
