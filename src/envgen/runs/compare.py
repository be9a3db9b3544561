"""Compare finished runs: group them over seeds, aggregate their results, and warn where they are not comparable.

Runs whose requests differ only in seeds (their own, and those of models created for them) form a group. Every result of
a group is an aggregate over its seeds (statistics.py). A table holds the groups of one world or domain (tables.py).
A run that was extended after final steps has trained in another order than a new run with the same request, and is in
another group.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envgen.settings import flatten, to_path
from envgen.text import printable

from .files import suggest_path
from .kinds import Kind, get_path, kind_of, number
from .statistics import Aggregate, iqm_with_ci
from .store import RESTORE, Run, RunError, read_entry
from .tables import Comparison, Group, Table

MAX_DEPTH = 3  # levels of subdirectories that are searched for runs
STEP_TOLERANCE = 0.01  # relative: training may end on whole rollouts
FINAL_STEPS = "plan.final_steps"  # in `extended_from` of run.json
AGENT_SECTIONS = ("learner.", "practice.", "initial_policy")  # named also if groups of different names differ in them
MAX_LABEL_SETTINGS, MAX_NAME_CHARS, MAX_VALUE_CHARS = 3, 80, 24  # of a label


@dataclass(frozen=True)
class FinishedRun:
    folder: Path
    request: dict[str, Any]
    summary: Any


def compare(paths: Iterable[str | Path]) -> Comparison:
    """Compare the runs at or below these paths. Evaluations of language models below them are skipped."""
    paths = [to_path("a run", path, RunError) for path in paths]
    tables: dict[tuple[str, str], dict[str, list[FinishedRun]]] = {}
    unfinished = []
    for folder in find_runs(paths):
        run = Run(folder, {}, is_main=False)
        entry = read_entry(folder)
        request = comparable_request(entry)
        if "policy" in request:  # an evaluation of a language model
            if folder in paths:
                raise RunError(
                    f"{folder} is an evaluation; its results are in evaluation.json. Pass directories of training runs"
                )
            continue
        if not run.has("summary"):
            unfinished.append(folder)
            continue
        kind, summary = kind_of(request), run.read("summary")
        if all(get_path(summary, *path) is None for path in kind.results.values()):
            raise RunError(f"{folder / 'summary.json'} has no results; {RESTORE}")
        settings_key = json.dumps(settings_without_seeds(request), sort_keys=True)
        task_key = kind.task_key
        groups = tables.setdefault((task_key, _shorten(str(request.get(task_key)), MAX_NAME_CHARS)), {})
        groups.setdefault(settings_key, []).append(FinishedRun(folder, request, summary))
    ordered = sorted(tables, key=lambda key: (key[0] != "world", key[1]))
    return Comparison(tuple(make_table(key[1], [*tables[key].values()]) for key in ordered), tuple(unfinished))


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Return the run directories at or below these paths, each once."""
    runs: dict[Path, Path] = {}
    for path in map(Path, paths):
        folders = _find_below(path, MAX_DEPTH)
        if not folders:
            empty = f"contains no run directory (searched {MAX_DEPTH} levels deep)"
            problem = empty if path.is_dir() else "is not a directory"
            raise RunError(f"{path} {problem}{suggest_path(path)}")
        for folder in folders:
            runs.setdefault(folder.resolve(), folder)
    return list(runs.values())


def _find_below(folder: Path, depth: int) -> list[Path]:
    try:
        if (folder / "run.json").is_file():
            return [folder]
        entries = folder.iterdir() if depth and folder.is_dir() else ()
        subfolders = sorted(entry for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise RunError(f"cannot read the directory {folder}: {error.strerror}") from error
    return [run for subfolder in subfolders for run in _find_below(subfolder, depth - 1)]


def make_table(task: str, groups: list[list[FinishedRun]], labels: Sequence[str] | None = None) -> Table:
    """Return the table of groups that learned the same world or domain. By default, settings label the groups."""
    kind = kind_of(groups[0][0].request)
    warnings, runs_by_label = [], {}
    labels = labels or group_labels([runs[0].request for runs in groups])
    for label, runs in zip(labels, groups, strict=True):
        by_seed: dict[Any, FinishedRun] = {}
        for run in runs:
            seed = json.dumps(run.request.get("seed"))
            first = by_seed.setdefault(seed, run)
            if first is not run:
                warnings.append(
                    f"{run.folder} is left out, because {first.folder} has the same settings and the same seed {seed}"
                )
        runs_by_label[label] = list(by_seed.values())
    order = sorted(runs_by_label, key=lambda label: (_name(runs_by_label[label][0].request) != kind.baseline, label))
    rows = tuple(_group(kind, label, runs_by_label[label]) for label in order)
    mismatches = _mismatches(kind, {label: runs_by_label[label] for label in order})
    return Table(task, kind, rows, (*mismatches, *warnings))


def _group(kind: Kind, label: str, runs: list[FinishedRun]) -> Group:
    def aggregate(values: list[float | None]) -> Aggregate | None:
        numbers = [value for value in values if value is not None]
        return iqm_with_ci(numbers) if numbers and None not in values else None

    def mean(*path: str) -> float | None:
        values = [number(run.summary, *path) for run in runs]
        return None if None in values else float(np.mean([value for value in values if value is not None]))

    rates = [kind.rates(run.summary) for run in runs]
    rate_names = tuple(dict.fromkeys(name for run_rates in rates for name in run_rates))
    results = {name: [number(run.summary, *path) for run in runs] for name, path in kind.results.items()}
    return Group(
        label=label,
        is_baseline=_name(runs[0].request) == kind.baseline,
        folders=tuple(run.folder for run in runs),
        rate_names=rate_names,
        aggregates={name: aggregate(values) for name, values in results.items()}
        | {name: aggregate([run_rates.get(name) for run_rates in rates]) for name in rate_names},
        costs=tuple(format_cost(mean) for format_cost in kind.costs.values()),
    )


def group_labels(requests: list[dict[str, Any]]) -> list[str]:
    """Label each group by its name and by the settings in which groups of the same name differ, and all groups for
    settings of the agent.

    At most MAX_LABEL_SETTINGS are named unless more are needed to tell the groups apart.
    """
    prefix, labels = f"{kind_of(requests[0]).group_key}.", list[str]()
    all_settings, names = [settings_without_seeds(request) for request in requests], list(map(_name, requests))
    by_name: dict[str, list[dict[str, Any]]] = {}
    for name, settings in zip(names, all_settings, strict=True):
        by_name.setdefault(name, []).append(settings)
    varying = {name: _varying_names(same_name) for name, same_name in by_name.items()}
    of_agents = {name for name in _varying_names(all_settings)[0] if name.startswith(AGENT_SECTIONS)}
    differing_names = [
        # the designer's own settings first
        sorted(_differing_names(settings, varying[name][0] | of_agents, varying[name][1]),
               key=lambda name: not name.startswith(prefix))
        for name, settings in zip(names, all_settings, strict=True)
    ]  # fmt: skip
    separating = {name: _separating_names(name, names, all_settings, differing_names) for name in by_name}
    for name, settings, differing in zip(names, all_settings, differing_names, strict=True):
        needed = [key for key in differing if key in separating[name]]
        others = [key for key in differing if key not in separating[name]]
        named = needed + others[: max(0, MAX_LABEL_SETTINGS - len(needed))]
        shown = [f"{key.removeprefix(prefix)}={_format_value(settings[key])}" for key in differing if key in named]
        more = [f"+{len(differing) - len(named)} more"] if len(differing) > len(named) else []
        label = " ".join([name, *shown, *more])
        unique, count = label, 1
        while unique in labels:
            count += 1
            unique = f"{label} #{count}"
        labels.append(unique)
    return labels


def _separating_names(
    name: str, names: Sequence[str], all_settings: Sequence[Mapping[str, Any]], differing_names: Sequence[list[str]]
) -> set[str]:
    """The settings that tell the groups of this name apart, as few as a greedy search finds."""
    groups = [
        {key: _format_value(settings[key]) for key in differing}
        for other, settings, differing in zip(names, all_settings, differing_names, strict=True)
        if other == name
    ]
    candidates = list(dict.fromkeys(key for group in groups for key in group))
    chosen: list[str] = []

    def count(keys: Sequence[str]) -> int:
        return len({tuple(group.get(key) for key in keys) for group in groups})

    while count(chosen) < count(candidates):
        chosen.append(max(candidates, key=lambda key: count([*chosen, key])))
    return set(chosen)


def _varying_names(groups: Sequence[Mapping[str, Any]]) -> tuple[set[str], set[str]]:
    """The settings that have different values in these groups, and those that some of the groups do not have."""
    values: dict[str, list[Any]] = {}
    for settings in groups:
        for name, value in settings.items():
            values.setdefault(name, []).append(value)
    different = {name for name, known in values.items() if any(value != known[0] for value in known)}
    return different, {name for name, known in values.items() if len(known) < len(groups)}


def _differing_names(settings: Mapping[str, Any], different: Set[str], missing: Set[str]) -> list[str]:
    """The settings that differ from those of another group. Of a section that other groups do not have, such as
    `practice`, the first setting stands for all.

    Args:
        different: The settings that have different values in several groups.
        missing: Those that some groups do not have.
    """
    names, sections = list[str](), set[str]()
    for name in settings:
        section = name.rpartition(".")[0]
        if name in different:
            names.append(name)
        elif name in missing and (not section or section not in sections):
            names.append(name)
            sections.add(section)
    return names


def _mismatches(kind: Kind, groups: Mapping[str, list[FinishedRun]]) -> Iterable[str]:
    """Yield a warning for each value that should be equal across the groups of a table and is not."""
    for name, value_of in kind.must_match.items():
        labels_by_value: list[tuple[Any, list[str]]] = []
        for label, runs in groups.items():
            value = value_of(runs[0].request, runs[0].summary)
            if value is not None:
                labels = next((labels for other, labels in labels_by_value if _is_close(value, other)), None)
                if labels is None:
                    labels_by_value.append((value, labels := []))
                labels.append(label)
        if len(labels_by_value) > 1:
            values = "; ".join(f"{_format_value(value)} for {', '.join(labels)}" for value, labels in labels_by_value)
            yield f"these groups are not comparable, because they differ in {name}: {values}"


def _is_close(a: Any, b: Any) -> bool:
    if number(a) is None or number(b) is None:
        return a == b
    return math.isclose(a, b, rel_tol=STEP_TOLERANCE)


def _name(request: Mapping[str, Any]) -> str:
    return _shorten(str(get_path(request, kind_of(request).group_key, "name")), MAX_NAME_CHARS)


def comparable_request(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request in a `run.json`. If the run had final steps before an extension, that plan is part of it."""
    extensions = entry.get("extended_from")
    plans = {
        str(k): plan
        for k, plan in enumerate(extensions if isinstance(extensions, list) else [], 1)
        if number(plan, FINAL_STEPS)
    }
    return entry["request"] | ({"extended_from": plans} if plans else {})


def settings_without_seeds(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings except the seeds of the run and of models created for it, under dotted names."""
    own_sections = tuple(f"{section}." for section in ("designer", "learner", "proposer"))
    return {
        name: value
        for name, value in flatten(request).items()
        if name.split(".")[-1] != "seed" or name.startswith(own_sections)
    }


def _format_value(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 10_000:
        return f"{value:,}"
    return _shorten(value if isinstance(value, str) else json.dumps(value), MAX_VALUE_CHARS)


def _shorten(text: str, max_chars: int) -> str:
    """The start and the end of a text, as one printable line."""
    text = printable(text)
    return text if len(text) <= max_chars else f"{text[: max_chars // 2 - 2]}...{text[1 - max_chars // 2 :]}"
