"""Learning curves: the score in the original after each cycle, and in training over the last phase."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envgen.runs.files import exists
from envgen.runs.statistics import score, success_counts, success_rates
from envgen.runs.store import read_json, read_progress, read_request

NUM_POINTS = 25  # of a training curve
Curve = tuple[np.ndarray, np.ndarray]  # steps, scores


def plot_curves(groups: Mapping[str, Sequence[Path]], file: Path) -> None:
    """Plot groups of run directories by name, one color each: a thin line per run and a thick one for their mean."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    for k, (name, folders) in enumerate(groups.items()):
        for axis, curve_of in ((axes[0], evaluation_curve), (axes[1], training_curve)):
            _plot_group(axis, [curve_of(folder) for folder in folders], f"C{k}", f"{name} ({len(folders)})")
    axes[0].set(title="score in the original after each cycle, without learning", ylabel="score %")
    axes[1].set(title="score of training episodes in the last phase", ylabel="score %")
    for axis in axes:
        axis.set(xlabel="million environment steps", ylim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False, fontsize=8, title="runs of", title_fontsize=8)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _plot_group(axis: Any, curves: Sequence[Curve], color: str, label: str) -> None:
    curves = [curve for curve in curves if curve[0].size]
    for steps, scores in curves:
        axis.plot(steps / 1e6, scores, color=color, alpha=0.25, linewidth=0.8)
    if curves and len({steps.size for steps, _ in curves}) == 1:
        steps, scores = (np.mean(values, axis=0) for values in zip(*curves, strict=True))
        axis.plot(steps / 1e6, scores, color=color, linewidth=1.8, marker="o", markersize=2.5, label=label)


def evaluation_curve(folder: Path) -> Curve:
    """Return the score of a run in the original after each cycle and at the end."""
    points = []
    for cycle in sorted(int(entry.name) for entry in (folder / "cycles").glob("[0-9]*")):
        if result := _read_if_exists(folder / "cycles" / str(cycle) / "evaluation.json"):
            points.append((result["cycle"]["steps"], result["evaluation"]["score"]["value"]))
    if summary := _read_if_exists(folder / "summary.json"):
        lines = list(read_progress(folder))
        points.append((lines[-1]["steps"], summary["final"]["score"]["value"]))
    return _to_curve(points)


def training_curve(folder: Path) -> Curve:
    """Return the score of the episodes that ended in each part of the last phase.

    All episodes start together and the short ones end first, so the first part has as many episodes as environments.
    """
    lines = list(read_progress(folder))
    lines = [line for line in lines if line["phase"] == lines[-1]["phase"]]
    num_ended = np.cumsum([line["episodes"] for line in lines])
    num_envs = read_request(folder)[0]["learner"]["num_envs"]
    first_part = int(np.searchsorted(num_ended, num_envs)) + 1
    rest = np.arange(min(first_part, len(lines)), len(lines))
    parts = np.array_split(rest, max(1, min(NUM_POINTS, len(rest))))
    points = []
    for indices in [np.arange(min(first_part, len(lines))), *parts]:
        selected = [lines[k] for k in indices if lines[k]["episodes"]]
        if selected:
            succeeded, possible = success_counts(selected, len(selected[0]["succeeded"]))
            points.append((selected[-1]["steps"], score(success_rates(succeeded.sum(0), possible.sum(0)))))
    return _to_curve(points)


def _to_curve(points: Sequence[tuple[float, float]]) -> Curve:
    steps, scores = np.array(points, dtype=float).reshape(-1, 2).T
    return steps, scores


def _read_if_exists(file: Path) -> Any:
    return read_json(file) if exists(file) else None
