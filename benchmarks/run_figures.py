"""Figures and measures of runs, read from their run directories: learning curves of agents in a world, and the results
of co-evolutions with the measures of the GenEnv paper.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envgen.report.curves import evaluation_points, moving_average
from envgen.report.read import open_run
from envgen.runs.files import exists
from envgen.runs.kinds import total_tokens
from envgen.runs.phases import has_levels
from envgen.runs.statistics import Aggregate, iqm_with_ci, score, success_counts, success_rates
from envgen.runs.store import RunError, read_json, read_progress, read_request, reading

NUM_POINTS = 25  # of a training curve
NUM_COLORS, LINE_STYLES = 10, ("-", "--", ":")  # groups beyond the number of colors get other lines
Curve = tuple[np.ndarray, np.ndarray]  # steps and scores, or other values of x and y
Line = Mapping[str, Any]
Groups = Mapping[str, Sequence[Path]]
Metric = Callable[[Line], float | None]  # of a progress line
MAX_ROUNDING = 0.1  # difference between equal scores


def plot_training_runs(groups: Mapping[str, Sequence[Path]], file: Path) -> None:
    """Plot the scores of groups of `train` runs: for each group, a thin line per run and a thick one for the mean.

    Scores of training episodes are shown only if all runs end with a phase in the original alone, and if their progress
    says which episodes allowed which skill.
    """
    from matplotlib.figure import Figure

    panels = {"evaluation score in the original after each cycle": evaluation_curve}
    runs = [folder for folders in groups.values() for folder in folders]
    if all(ends_in_the_original(folder) and has_all_counts(folder) for folder in runs):
        panels["score of training episodes in the last phase"] = training_curve
    figure = Figure(figsize=(6 * len(panels), 4.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curve_of) in zip(axes, panels.items(), strict=True):
        for k, (name, folders) in enumerate(groups.items()):
            _plot_group(axis, [curve_of(folder) for folder in folders], line_style(k), f"{name} ({len(folders)})")
        axis.set(title=title, ylabel="score %", xlabel="million environment steps", ylim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False, fontsize=8, title="runs of", title_fontsize=8)
    figure.savefig(file, dpi=110)


def line_style(k: int) -> dict[str, str]:
    """The color and the kind of line of a group."""
    return {"color": f"C{k % NUM_COLORS}", "linestyle": LINE_STYLES[k // NUM_COLORS % len(LINE_STYLES)]}


def _plot_group(axis: Any, curves: Sequence[Curve], style: Mapping[str, str], label: str) -> None:
    """Without a mean, which takes curves with the same number of points, the first thin line has the label."""
    curves = [curve for curve in curves if curve[0].size]
    has_mean = len({steps.size for steps, _ in curves}) == 1
    for k, (steps, scores) in enumerate(curves):
        own_label = label if k == 0 and not has_mean else None
        axis.plot(steps / 1e6, scores, **style, alpha=0.25, linewidth=0.8, label=own_label)
    if has_mean:
        steps, scores = (np.mean(values, axis=0) for values in zip(*curves, strict=True))
        axis.plot(steps / 1e6, scores, **style, linewidth=1.8, marker="o", markersize=2.5, label=label)


def evaluation_curve(folder: Path) -> Curve:
    """Return the score of a run in the original after each cycle and at the end."""
    run = open_run(folder, folder.name)
    points = evaluation_points(run)
    if run.problems:
        raise RunError(run.problems[0])
    return _to_curve(points)


def ends_in_the_original(folder: Path) -> bool:
    """Return whether no environment plays a level in the last phase of a run."""
    with reading(folder):
        lines = list(read_progress(folder))
        has_designer = read_request(folder)[0]["designer"]["name"] != "none"
        return bool(lines) and not (has_designer and has_levels(lines[-1]["phase"]))


def has_all_counts(folder: Path) -> bool:
    """Return whether the progress of a run gives the score of its last phase, if it has finished.

    Copies made by earlier versions of the benchmarks lack the number of episodes that allowed each skill.
    """
    with reading(folder):
        training = (_read_if_exists(folder / "summary.json") or {}).get("training")
        if not training:
            return True
        succeeded, possible = success_counts(_last_phase(folder), len(training["skills"]))
        rates = success_rates(succeeded.sum(0), possible.sum(0))
        return abs(score(rates) - training["score"]) < MAX_ROUNDING


def training_curve(folder: Path) -> Curve:
    """Return the score of the episodes that ended in each part of the last phase.

    All episodes start together and the short ones end first, so the first part has as many episodes as environments.
    """
    with reading(folder):
        lines = _last_phase(folder)
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


def _last_phase(folder: Path) -> list[dict[str, Any]]:
    """Return the progress lines of the last phase of a run."""
    lines = list(read_progress(folder))
    return [line for line in lines if line["phase"] == lines[-1]["phase"]]


def _to_curve(points: Sequence[tuple[float, float]]) -> Curve:
    steps, scores = np.array(points, dtype=float).reshape(-1, 2).T
    return steps, scores


def _read_if_exists(file: Path) -> Any:
    return read_json(file) if exists(file) else None


def _accuracy(line: Line) -> float | None:
    return 100 * line["eval_accuracy"] if "eval_accuracy" in line else None


def _mean_entropy(line: Line) -> float | None:
    entropy = (line.get("diversity") or {}).get("entropy")
    return float(np.mean(list(entropy.values()))) if entropy else None


PANELS: tuple[tuple[str, str, Metric], ...] = (  # title, unit of the x axis, metric
    ("change of held-out accuracy, points", "rollouts", _accuracy),
    ("change of held-out accuracy, points", "tokens", _accuracy),
    ("p of the proposed tasks", "rollouts", lambda line: line.get("proposed_success_rate")),
    ("difficulty of the proposed tasks", "rollouts", lambda line: line.get("difficulty")),
    ("entropy of the features of proposed tasks, bits", "rollouts", _mean_entropy),
    (
        "3-gram overlap between the specs of a step",
        "rollouts",
        lambda line: (line.get("diversity") or {}).get("ngram_overlap"),
    ),
)


def plot_coevolution_runs(groups: Groups, file: Path, alpha: float = 0.5) -> None:
    """Plot the metrics of groups of `coevolve` runs, one line each: the mean over seeds, and their range shaded."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 8), layout="constrained")
    axes = figure.subplots(2, 3)
    progress = {name: [list(read_progress(folder)) for folder in folders] for name, folders in groups.items()}
    for axis, (title, unit, metric) in zip(axes.flat, PANELS, strict=True):
        for k, (name, runs) in enumerate(progress.items()):
            curves = [(x, y) for x, y in (curve(lines, unit, metric) for lines in runs) if len(x)]
            if metric is _accuracy:  # the models of each seed start at a different accuracy
                curves = [(x, y - y[0]) for x, y in curves]
            _plot_band(axis, curves, line_style(k), name, smooth=metric is not _accuracy)
        axis.set(title=title, xlabel="tokens generated and trained on, by both models" if unit == "tokens" else unit)
        axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes.flat[2].axhline(alpha, color="black", linewidth=0.8, linestyle=":")
    lines, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.savefig(file, dpi=100)


def curve(lines: Sequence[Line], unit: str, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Return a metric over rollouts, tokens or proposed tasks, from the progress lines that have it."""
    points = [(_position(line, unit), value) for line in lines if (value := metric(line)) is not None]
    x, y = np.array(points, float).reshape(-1, 2).T
    return x, y


def cost_to_match(folders: Sequence[Path], baselines: Sequence[Path], unit: str) -> list[float]:
    """Return the rollouts, tokens or proposed tasks after which runs reach the final accuracy of the baseline.

    Each run is compared with the baseline of its seed. Runs that never reach it, or have none, are left out.
    """
    final_accuracy = {_seed(folder): read_summary(folder)["final_accuracy"] for folder in baselines}
    positions = []
    for folder in folders:
        target = final_accuracy.get(_seed(folder), math.inf)
        lines = (line for line in read_progress(folder) if "eval_accuracy" in line)
        reached = (_position(line, unit) for line in lines if 100 * line["eval_accuracy"] >= target)
        positions += [float(position) for position in [next(reached, None)] if position is not None]
    return positions


def paired_difference(
    folders: Sequence[Path], baselines: Sequence[Path], measure: Callable[[Path], float]
) -> Aggregate | None:
    """Aggregate the difference of a measure from the baseline of the same seed, which started with the same models."""
    baseline_by_seed = {_seed(folder): folder for folder in baselines}
    differences = [
        measure(folder) - measure(baseline_by_seed[_seed(folder)])
        for folder in folders
        if _seed(folder) in baseline_by_seed
    ]
    return iqm_with_ci(differences) if differences else None


def tokens(folder: Path) -> float:
    """Return the tokens that both models of a run generated and were trained on."""
    return _position(list(read_progress(folder))[-1], "tokens")


def accuracy_at(folder: Path, num_tokens: float) -> float:
    """Return the held-out accuracy (percent) after this many tokens, interpolated between evaluations."""
    return float(np.interp(num_tokens, *curve(list(read_progress(folder)), "tokens", _accuracy)))


def read_summary(folder: Path) -> dict[str, Any]:
    return read_json(folder / "summary.json")


def _seed(folder: Path) -> int:
    return read_request(folder)[0]["seed"]


def _position(line: Line, unit: str) -> float:
    """Early runs did not count the prompts of the agent, so those of both models are left out."""
    return total_tokens(line, prompts=False) or 0 if unit == "tokens" else line[unit]


def _plot_band(axis: Any, curves: Sequence[Curve], style: Mapping[str, str], name: str, smooth: bool) -> None:
    if not curves:
        return
    x = np.linspace(max(xs[0] for xs, _ in curves), min(xs[-1] for xs, _ in curves), 100)
    ys = np.stack([np.interp(x, xs, moving_average(values) if smooth else values) for xs, values in curves])
    axis.plot(x, ys.mean(0), **style, linewidth=1.8, label=f"{name} ({len(curves)})")
    axis.fill_between(x, ys.min(0), ys.max(0), color=style["color"], alpha=0.12, linewidth=0)
