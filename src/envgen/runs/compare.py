"""Finished runs beside each other: which are one group, what they came to, and why they may not compare.

Runs whose requests differ in nothing but seeds, their own and that of models made for them, are one group. Every number
of a group is a figure over its seeds (figures.py). Only groups that learned the same world or domain stand in one table
(tables.py, kinds.py).
"""

import difflib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .figures import Aggregate, iqm, iqm_with_ci
from .kinds import Kind, get, kind_of, number
from .store import Run, RunError
from .tables import Comparison, Group, Table

__all__ = ["Aggregate", "Comparison", "Group", "Table", "compare", "find_runs", "iqm", "iqm_with_ci"]

DEPTH = 3  # levels of folders below a given one in which runs are looked for
EQUAL = 0.01  # steps within a hundredth of each other are equal: training may end on whole rollouts
SHOWN, LENGTH = 3, 24  # settings that a label shows at the most, and the characters of a value


@dataclass(frozen=True)
class _Ended:
    """A finished run."""

    folder: Path
    request: dict[str, Any]
    summary: Any


def compare(paths: Iterable[str | Path]) -> Comparison:
    """The runs at or below these paths, beside each other."""
    tables: dict[tuple[str, str], dict[str, list[_Ended]]] = {}
    unfinished = []
    for folder in find_runs(paths):
        reader = Run(folder, {}, is_main=False)
        request = get(reader.read("run"), "request")
        if not isinstance(request, dict):
            raise RunError(f"{folder / 'run.json'} does not say what was asked for; it is not that of a run")
        if not (folder / "summary.json").exists():
            unfinished.append(folder)
            continue
        alike = json.dumps(_settings(request), sort_keys=True)
        about = kind_of(request).about
        groups = tables.setdefault((about, str(request.get(about))), {})
        groups.setdefault(alike, []).append(_Ended(folder, request, reader.read("summary")))
    ordered = sorted(tables, key=lambda key: (key[0] != "world", key[1]))
    return Comparison(tuple(_table(key[1], [*tables[key].values()]) for key in ordered), tuple(unfinished))


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
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


def _table(about: str, groups: list[list[_Ended]]) -> Table:
    kind = kind_of(groups[0][0].request)
    warnings, once = [], {}
    for label, runs in zip(_labels([runs[0].request for runs in groups]), groups, strict=True):
        by_seed: dict[Any, _Ended] = {}
        for run in runs:
            seed = run.request.get("seed")
            first = by_seed.setdefault(seed, run)
            if first is not run:
                warnings.append(f"{run.folder} is left out, since {first.folder} is {label} with seed {seed} already")
        once[label] = list(by_seed.values())
    order = sorted(once, key=lambda label: (_name(once[label][0].request) != kind.plain, label))
    made = tuple(_group(kind, label, once[label]) for label in order)
    return Table(about, kind, made, (*_unequal(kind, {label: once[label] for label in order}), *warnings))


def _group(kind: Kind, label: str, runs: list[_Ended]) -> Group:
    def over_seeds(found: list[float | None]) -> Aggregate | None:
        values = [value for value in found if value is not None]
        return iqm_with_ci(values) if values and None not in found else None

    def mean(*path: str) -> float | None:
        found = [number(get(run.summary, *path)) for run in runs]
        return None if None in found else float(np.mean([value for value in found if value is not None]))

    rates = [kind.rates(run.summary) for run in runs]
    parts = tuple(dict.fromkeys(part for of_run in rates for part in of_run))
    results = {name: [number(get(run.summary, *path)) for run in runs] for name, path in kind.results.items()}
    return Group(
        label=label,
        plain=_name(runs[0].request) == kind.plain,
        seeds=len(runs),
        parts=parts,
        figures={name: over_seeds(found) for name, found in results.items()}
        | {part: over_seeds([of_run.get(part) for of_run in rates]) for part in parts},
        costs=tuple(told(mean) for told in kind.costs.values()),
    )


def _labels(requests: list[dict[str, Any]]) -> list[str]:
    """Of each group who it is called by, and the settings in which groups of the same name differ."""
    who, labels = kind_of(requests[0]).who, list[str]()
    flat = [_settings(request) for request in requests]
    for request, settings in zip(requests, flat, strict=True):
        alike = [f for other, f in zip(requests, flat, strict=True) if _name(other) == _name(request)]
        differ = [
            name for name in settings if any(name not in other or other[name] != settings[name] for other in alike)
        ]
        differ.sort(key=lambda name: not name.startswith(f"{who}."))  # its own first
        shown = [f"{name.removeprefix(f'{who}.')}={_said(settings[name])}" for name in differ[:SHOWN]]
        more = [f"+{len(differ) - SHOWN} more"] if len(differ) > SHOWN else []
        label = " ".join([_name(request), *shown, *more])
        taken = sum(other.split(" #")[0] == label for other in labels)
        labels.append(f"{label} #{taken + 1}" if taken else label)
    return labels


def _unequal(kind: Kind, groups: Mapping[str, list[_Ended]]) -> Iterable[str]:
    """Why the groups of a table do not compare: a sentence for each thing that should be equal and is not."""
    for what, of in kind.equals.items():
        found: list[tuple[Any, list[str]]] = []
        for label, runs in groups.items():
            value = of(runs[0].request, runs[0].summary)
            if value is not None:
                labels = next((labels for other, labels in found if _equal(value, other)), None)
                if labels is None:
                    found.append((value, labels := []))
                labels.append(label)
        if len(found) > 1:
            each = "; ".join(f"{_said(value)} for {', '.join(labels)}" for value, labels in found)
            yield f"these do not compare, since they differ in {what}: {each}"


def _equal(one: Any, other: Any) -> bool:
    if number(one) is None or number(other) is None:
        return one == other
    return math.isclose(one, other, rel_tol=EQUAL)


def _name(request: Mapping[str, Any]) -> str:
    return str(get(request, kind_of(request).who, "name"))


def _settings(request: Mapping[str, Any]) -> dict[str, Any]:
    """All but the seeds, under dotted names."""
    return {name: value for name, value in _flat(request) if name.split(".")[-1] != "seed"}


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
