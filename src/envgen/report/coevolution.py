"""How co-evolutions went, as a picture and as the figures of the GenEnv paper, from run directories alone."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envgen.runs.statistics import Aggregate, iqm_with_ci
from envgen.runs.store import read_json, read_progress, read_request

Line = Mapping[str, Any]
Groups = Mapping[str, Sequence[Path]]
Part = Callable[[Line], float | None]  # of a line of progress


def _accuracy(line: Line) -> float | None:
    return 100 * line["test"] if "test" in line else None


def _bits(line: Line) -> float | None:
    entropy = (line.get("diversity") or {}).get("entropy")
    return float(np.mean(list(entropy.values()))) if entropy else None


PANELS: tuple[tuple[str, str, Part], ...] = (  # title, unit of the x axis, what of a line
    ("held-out accuracy, points more than before", "rollouts", _accuracy),
    ("held-out accuracy, points more than before", "tokens", _accuracy),
    ("p of the proposed tasks", "rollouts", lambda line: line.get("p")),
    ("difficulty of the proposed tasks", "rollouts", lambda line: line.get("difficulty")),
    ("entropy of their fields, bits", "rollouts", _bits),
    ("share of 3-grams that others have", "rollouts", lambda line: (line.get("diversity") or {}).get("repeats")),
)
SMOOTH = 5  # steps, for what is noisy step by step


def plot_runs(groups: Groups, file: Path, alpha: float = 0.5) -> None:
    """Groups of run directories by name: a colour each, the mean over seeds thick, the seeds' range shaded."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    page, axes = plt.subplots(2, 3, figsize=(15, 8), layout="constrained")
    told = {name: [list(read_progress(folder)) for folder in folders] for name, folders in groups.items()}
    for axis, (title, unit, of) in zip(axes.flat, PANELS, strict=True):
        for colour, (name, runs) in enumerate(told.items()):
            curves = [(x, y) for x, y in (curve(lines, unit, of) for lines in runs) if len(x)]
            if of is _accuracy:  # the models of each seed begin elsewhere
                curves = [(x, y - y[0]) for x, y in curves]
            _band(axis, curves, f"C{colour}", name, smooth=of is not _accuracy)
        axis.set(title=title, xlabel=f"{unit} (agent's and environment's)" if unit == "tokens" else unit)
        axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:,.0f}k")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes.flat[2].axhline(alpha, color="black", linewidth=0.8, linestyle=":")
    axes.flat[0].legend(frameon=False, fontsize=8)
    page.savefig(file, dpi=100)
    plt.close(page)


def curve(lines: Sequence[Line], unit: str, of: Part) -> tuple[np.ndarray, np.ndarray]:
    points = [(_at(line, unit), value) for line in lines if (value := of(line)) is not None]
    x, y = np.array(points, float).reshape(-1, 2).T
    return x, y


def steps_to_match(folders: Sequence[Path], plain: Sequence[Path], unit: str) -> list[float]:
    """How many rollouts, tokens or tasks proposed the runs took to come where the plain run of their seed ended; of
    those that came there."""
    ends = {_seed(folder): read_summary(folder)["final"] for folder in plain}
    found = []
    for folder in folders:
        lines = (line for line in read_progress(folder) if "test" in line)
        found += [_at(line, unit) for line in lines if 100 * line["test"] >= ends[_seed(folder)]][:1]
    return [float(at) for at in found]


def paired_difference(folders: Sequence[Path], plain: Sequence[Path], of: Callable[[Path], float]) -> Aggregate | None:
    """How much more of something each run has than the plain one of its seed, which began with the same models."""
    others = {_seed(folder): folder for folder in plain}
    found = [of(folder) - of(others[_seed(folder)]) for folder in folders if _seed(folder) in others]
    return iqm_with_ci(found) if found else None


def tokens(folder: Path) -> int:
    """Tokens that both models generated in a run."""
    return int(read_summary(folder)["curve"][-1][1])


def accuracy_at(folder: Path, tokens: float) -> float:
    """Held-out accuracy, %, when so many tokens were generated, between the tests before and after."""
    _, spent, _, accuracy = zip(*read_summary(folder)["curve"], strict=True)
    return float(np.interp(tokens, spent, accuracy))


def read_summary(folder: Path) -> dict[str, Any]:
    return read_json(folder / "summary.json")


def _seed(folder: Path) -> int:
    return read_request(folder)[0]["seed"]


def _at(line: Line, unit: str) -> float:
    return line["agent_tokens"] + line["environment_tokens"] if unit == "tokens" else line[unit]


def _band(axis: Any, curves: Sequence[tuple[np.ndarray, np.ndarray]], colour: str, name: str, smooth: bool) -> None:
    if not curves:
        return
    x = np.linspace(max(c[0][0] for c in curves), min(c[0][-1] for c in curves), 100)
    ys = np.stack([np.interp(x, cx, _smoothed(cy) if smooth else cy) for cx, cy in curves])
    axis.plot(x, ys.mean(0), color=colour, linewidth=1.8, label=f"{name} ({len(curves)})")
    axis.fill_between(x, ys.min(0), ys.max(0), color=colour, alpha=0.12, linewidth=0)


def _smoothed(values: np.ndarray) -> np.ndarray:
    wide = np.pad(values, SMOOTH // 2, mode="edge")
    return np.convolve(wide, np.ones(SMOOTH) / SMOOTH, mode="valid")
