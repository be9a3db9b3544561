"""What finished runs show beside each other: every figure over the seeds of a group, with its interval.

Runs whose requests differ in nothing but the seed are one group. A figure of a group is the interquartile mean over its
seeds with a 95% bootstrap interval (Agarwal et al. 2021, made for a handful of seeds). The interval says how far other
seeds might lead, not how exactly one run was evaluated. Only groups of one world stand in one table.
"""

import difflib
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from .store import Run, RunError

DEPTH = 3  # levels of folders below a given one in which runs are looked for
RESAMPLES = 4000  # of the bootstrap
EQUAL = 0.01  # steps within a hundredth of each other are equal: training may end on whole rollouts
SHOWN, LENGTH = 3, 24  # settings that a label shows at the most, and the characters of a value
PLAIN = "none"  # the designer that designs nothing: what all others are held against
RESULTS = {
    "score in training %": ("training", "score"),
    "reward in training": ("training", "reward"),
    "final score %": ("final", "score", "value"),
    "final reward": ("final", "reward", "value"),
}
COSTS = ("steps: levels + original", "LLM calls", "cost $", "wall time")
SKILL = "final success %"


@dataclass(frozen=True)
class Figure:
    """A number with its 95% interval over `n` seeds; one seed has no interval."""

    value: float
    low: float | None
    high: float | None
    n: int

    def above(self, other: "Figure") -> bool:
        """Whether this interval lies wholly above that of `other`, by more than rounding may do."""
        return self.low is not None and other.high is not None and self.low > other.high + 1e-9

    def __str__(self) -> str:
        return f"{self.value:.1f}" if self.low is None else f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def iqm(values: Any) -> Any:
    """The interquartile mean over the last axis: the mean of the middle half of the sorted values.

    Each of n values is 1/n of the whole, and counts with as much of that as lies between a quarter and three quarters.
    Of four the middle two count; three weigh 1/6, 4/6 and 1/6; of one or two it is the mean.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    n = ordered.shape[-1]
    if n == 0:
        raise ValueError("an interquartile mean takes at least 1 value")
    borders = np.clip(np.arange(n + 1) / n, 0.25, 0.75)
    return ordered @ (2 * np.diff(borders))


def figure(values: Sequence[float]) -> Figure:
    """The interquartile mean of one value a seed, with the interval of resampled seeds; the same every time."""
    n, middle = len(values), float(iqm(values))
    if n == 1:
        return Figure(middle, None, None, n)
    drawn = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.quantile(iqm(np.asarray(values, np.float64)[drawn]), [0.025, 0.975])
    return Figure(middle, float(low), float(high), n)


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in their seeds only. Of what one of them does not say, the group says None."""

    label: str
    plain: bool
    seeds: int
    skills: tuple[str, ...]
    figures: Mapping[str, Figure | None]  # by the names of RESULTS, and each skill's success
    steps: Mapping[str, float | None]  # this and all below are means over the seeds
    calls: float | None
    cost: float | None
    seconds: float | None

    @property
    def title(self) -> str:
        return f"{self.label} (n={self.seeds})"

    def costs(self) -> list[str]:
        """A text for each of COSTS."""
        parts = [f"{self.steps[part] or 0:,.0f}" for part in ("levels", "original")]
        if self.steps["ranking"]:
            parts.append(f"{self.steps['ranking']:,.0f} ranking")
        return [
            " + ".join(parts),
            f"{self.calls:.4g}" if self.calls is not None else "-",
            f"{self.cost:.2f}" if self.cost is not None and self.calls else "-",
            str(timedelta(seconds=round(self.seconds))) if self.seconds is not None else "-",
        ]


@dataclass(frozen=True)
class Table:
    """The groups of one world, the plain ones first, and why they may not compare."""

    world: str
    groups: tuple[Group, ...]
    warnings: tuple[str, ...]

    def results(self) -> list[list[str]]:
        """A row for each group."""
        return [[g.label, str(g.seeds), *(self.cell(g, name) for name in RESULTS)] for g in self.groups]

    def skills(self, groups: Sequence[Group]) -> list[list[str]]:
        """A row for each skill, of some of the groups."""
        names = dict.fromkeys(skill for group in self.groups for skill in group.skills)
        return [[name, *(self.cell(group, name) for group in groups)] for name in names]

    def cell(self, group: Group, name: str) -> str:
        """A figure as text, with a star if its interval lies wholly above that of every plain group."""
        mine, plain = group.figures.get(name), [one.figures.get(name) for one in self.groups if one.plain]
        if mine is None:
            return "-"
        return f"{mine}*" if plain and all(other and mine.above(other) for other in plain) else str(mine)

    def legend(self) -> str:
        starred = f"; * lies wholly above {PLAIN}" if any(group.plain for group in self.groups) else ""
        return (
            f"Interquartile mean over seeds [95% bootstrap interval]{starred}. Calls, cost and time are means of a run."
        )


@dataclass(frozen=True)
class Comparison:
    """A table for each world, and the runs that are not finished and therefore count nowhere."""

    tables: tuple[Table, ...]
    unfinished: tuple[Path, ...]

    def markdown(self) -> str:
        parts = []
        for table in self.tables:
            parts += [f"## {table.world}", *(f"**Warning:** {_plainly(warning)}" for warning in table.warnings)]
            rows = [[*some, *group.costs()] for some, group in zip(table.results(), table.groups, strict=True)]
            parts.append(_grid(["designer", "seeds", *RESULTS, *COSTS], rows))
            parts.append(_grid([SKILL, *(group.title for group in table.groups)], table.skills(table.groups)))
            parts.append(_plainly(table.legend()))
        return "\n\n".join([*parts, *self._rest()]) + "\n"

    def _rest(self) -> list[str]:
        none = [] if self.tables else ["No finished runs."]
        names = "\n".join(f"- {folder}" for folder in self.unfinished)
        return [*none, f"Not finished, left out:\n\n{names}"] if names else none

    def text(self, width: int = 80) -> str:
        """The same for a terminal: intervals below their figures, and the skills in as many blocks as it takes."""
        from rich.console import Console
        from rich.text import Text

        out = io.StringIO()
        console = Console(file=out, width=width, color_system=None, force_terminal=False)
        for table in self.tables:
            for line in (table.world, *(f"Warning: {warning}" for warning in table.warnings)):
                console.print(Text(line), end="\n\n")
            below = [[cell.replace(" [", "\n[") for cell in row] for row in table.results()]
            costs = [[group.label, *group.costs()] for group in table.groups]
            blocks = [(["designer", "seeds", *RESULTS], below), (["designer", *COSTS], costs), *_blocks(table, width)]
            for header, rows in blocks:
                console.print(_drawn(header, rows))
                console.print()
            console.print(Text(table.legend()), end="\n\n")
        for part in self._rest():
            console.print(Text(part), soft_wrap=True)
        return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n"


def _plainly(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


def _grid(header: list[str], rows: list[list[str]]) -> str:
    lines = [[*map(_plainly, header)], ["---", *["--:"] * (len(header) - 1)], *([*map(_plainly, row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _drawn(header: list[str], rows: list[list[str]]) -> Any:
    """A table for rich. Only the first column may give way when all is too wide."""
    from rich import box
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for k, name in enumerate(header):
        drawing.add_column(Text(name), justify="right" if k else "left", overflow="fold", vertical="top")
    for row in rows:
        drawing.add_row(*map(Text, row))
    return drawing


def _blocks(table: Table, width: int) -> Iterable[tuple[list[str], list[list[str]]]]:
    """The skills, with as many groups beside each other as fit."""
    rows = table.skills(table.groups)
    name = max(len(text) for text in (SKILL, *(row[0] for row in rows)))
    cell = max(12, *(len(text) for row in rows for text in row[1:]))
    beside = max(1, (width - name) // (cell + 2))
    for at in range(0, len(table.groups), beside):
        groups = table.groups[at : at + beside]
        yield [SKILL, *("\n".join(wrap(group.title, cell)) for group in groups)], table.skills(groups)


@dataclass(frozen=True)
class _Ended:
    """A finished run."""

    folder: Path
    request: dict[str, Any]
    summary: Any


def compare(paths: Iterable[str | Path]) -> Comparison:
    """The runs at or below these paths, beside each other."""
    worlds: dict[str, dict[str, list[_Ended]]] = {}
    unfinished = []
    for folder in find(paths):
        reader = Run(folder, {}, lead=False)
        request = _get(reader.read("run"), "request")
        if not isinstance(request, dict):
            raise RunError(f"{folder / 'run.json'} does not say what was asked for; it is not that of a run")
        if not (folder / "summary.json").exists():
            unfinished.append(folder)
            continue
        alike = json.dumps({name: value for name, value in request.items() if name != "seed"}, sort_keys=True)
        groups = worlds.setdefault(str(request.get("world", "unknown world")), {})
        groups.setdefault(alike, []).append(_Ended(folder, request, reader.read("summary")))
    return Comparison(tuple(_table(world, [*worlds[world].values()]) for world in sorted(worlds)), tuple(unfinished))


def find(paths: Iterable[str | Path]) -> list[Path]:
    """The run directories among these paths and in the folders below them, each once."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        runs = _below(path, DEPTH)
        if not runs:
            what = f"holds no run, {DEPTH} levels deep" if path.is_dir() else "is not a folder"
            raise RunError(f"{path} {what}{_hint(path)}")
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _below(folder: Path, depth: int) -> list[Path]:
    try:
        if (folder / "run.json").is_file():
            return [folder]
        inside = sorted(one for one in folder.iterdir() if one.is_dir()) if depth and folder.is_dir() else []
    except OSError as error:
        raise RunError(f"cannot look into {folder}: {error.strerror}") from error
    return [run for one in inside for run in _below(one, depth - 1)]


def _hint(path: Path) -> str:
    """The name beside `path`, or beside the first of its parents that does not exist, that is most like it."""
    missing = next((one for one in (*reversed(path.parents), path) if not one.exists()), path)
    if not os.access(missing.parent, os.R_OK) or not missing.parent.is_dir():
        return ""
    beside = [one.name for one in missing.parent.iterdir() if one.is_dir() and one != missing]
    close = difflib.get_close_matches(missing.name, beside, n=1)
    return f"; did you mean {missing.with_name(close[0])}?" if close else ""


def _table(world: str, groups: list[list[_Ended]]) -> Table:
    warnings, once = [], {}
    for label, runs in zip(_labels([runs[0].request for runs in groups]), groups, strict=True):
        by_seed: dict[str, _Ended] = {}
        for run in runs:
            seed = json.dumps(run.request.get("seed", str(run.folder)))  # without a seed it is unlike all others
            first = by_seed.setdefault(seed, run)
            if first is not run:
                warnings.append(f"{run.folder} is left out, since {first.folder} is {label} with seed {seed} already")
        once[label] = list(by_seed.values())
    order = sorted(once, key=lambda label: (_designer(once[label][0].request) != PLAIN, label))
    made = tuple(_group(label, once[label]) for label in order)
    return Table(world, made, (*_unequal({label: once[label] for label in order}), *warnings))


def _group(label: str, runs: list[_Ended]) -> Group:
    def values(*path: str) -> list[float] | None:
        """One of each run, or None."""
        found = [_number(_get(run.summary, *path)) for run in runs]
        return None if None in found else [value for value in found if value is not None]

    def over_seeds(*path: str) -> Figure | None:
        return figure(found) if (found := values(*path)) else None

    def mean(*path: str) -> float | None:
        return float(np.mean(found)) if (found := values(*path)) else None

    skills = tuple(dict.fromkeys(skill for run in runs for skill in _get(run.summary, "final", "skills") or ()))
    return Group(
        label=label,
        plain=_designer(runs[0].request) == PLAIN,
        seeds=len(runs),
        skills=skills,
        figures={name: over_seeds(*path) for name, path in RESULTS.items()}
        | {skill: over_seeds("final", "skills", skill, "value") for skill in skills},
        steps={part: mean("steps", part) for part in ("levels", "original", "ranking")},
        calls=mean("llm", "calls"),
        cost=mean("llm", "cost"),
        seconds=mean("seconds"),
    )


def _labels(requests: list[dict[str, Any]]) -> list[str]:
    """Of each group its designer, and the settings in which groups of the same designer differ."""
    labels: list[str] = []
    flat = [{name: value for name, value in _flat(request) if name != "seed"} for request in requests]
    for request, settings in zip(requests, flat, strict=True):
        alike = [f for other, f in zip(requests, flat, strict=True) if _designer(other) == _designer(request)]
        differ = [
            name for name in settings if any(name not in other or other[name] != settings[name] for other in alike)
        ]
        differ.sort(key=lambda name: not name.startswith("designer."))  # its own first
        shown = [f"{name.removeprefix('designer.')}={_said(settings[name])}" for name in differ[:SHOWN]]
        more = [f"+{len(differ) - SHOWN} more"] if len(differ) > SHOWN else []
        label = " ".join([_designer(request), *shown, *more])
        taken = sum(other.split(" #")[0] == label for other in labels)
        labels.append(f"{label} #{taken + 1}" if taken else label)
    return labels


def _unequal(groups: Mapping[str, list[_Ended]]) -> Iterable[str]:
    """Why the groups of a table do not compare: a sentence for each thing that should be equal and is not."""
    for what, of in EQUALS.items():
        found: list[tuple[Any, list[str]]] = []
        for label, runs in groups.items():
            value = of(runs[0])
            if value is not None:
                labels = next((labels for other, labels in found if _equal(value, other)), None)
                if labels is None:
                    found.append((value, labels := []))
                labels.append(label)
        if len(found) > 1:
            each = "; ".join(f"{_said(value)} for {', '.join(labels)}" for value, labels in found)
            yield f"these do not compare, since they differ in {what}: {each}"


def _equal(one: Any, other: Any) -> bool:
    if _number(one) is None or _number(other) is None:
        return one == other
    return math.isclose(one, other, rel_tol=EQUAL)


def _trained(run: _Ended) -> float | None:
    """Steps that the agent learned from. Those that went into ranking levels are shown, and counted apart."""
    parts = [_number(_get(run.summary, "steps", part)) for part in ("levels", "original")]
    return sum(part or 0 for part in parts) if any(part is not None for part in parts) else None


def _cycled(run: _Ended) -> float | None:
    parts = [_number(_get(run.request, "plan", part)) for part in ("cycles", "cycle_steps")]
    return None if None in parts else math.prod(part or 0 for part in parts)


EQUALS: dict[str, Callable[[_Ended], Any]] = {
    "training steps": _trained,
    "steps in cycles": _cycled,
    "final steps": lambda run: _get(run.request, "plan", "final_steps"),
    "observation": lambda run: _get(run.request, "observation"),
}


def _get(value: Any, *path: str) -> Any:
    """What lies there, or None."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _designer(request: Mapping[str, Any]) -> str:
    designer = request.get("designer")
    return str(_get(designer, "name") or "?") if isinstance(designer, Mapping) else str(designer or "?")


def _flat(value: Any, at: str = "") -> Iterable[tuple[str, Any]]:
    """Settings within settings under dotted names."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{at}.{name}" if at else name)
    else:
        yield at, value


def _said(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 10_000:
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LENGTH else f"{text[: LENGTH // 2 - 2]}...{text[1 - LENGTH // 2 :]}"
