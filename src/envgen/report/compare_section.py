"""The first part of a page: the runs of one world or domain as groups over seeds, compared with their baseline."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envgen.runs.compare import FinishedRun, comparable_request, group_labels, make_table, settings_without_seeds
from envgen.runs.kinds import TRAIN, get_path, number, total_tokens
from envgen.runs.statistics import iqm_with_ci
from envgen.runs.tables import Group, Table
from envgen.text import plural

from .adaptation import group_adaptation
from .charts import MAX_BANDS, Axis, axis_labels, chart, curve, figure_row, interval_bar, labeled
from .curves import aggregate, evaluation_points, training_points
from .html import (
    Html,
    breakable,
    definitions,
    format_number,
    format_seconds,
    format_steps,
    heat_cell,
    join,
    table,
    tag,
)
from .level_progress import phase_slots, results_in_original
from .read import RunFiles

MAX_SKILL_ROWS = 60


@dataclass
class RunGroup:
    """Runs with the same settings, except for their seeds."""

    label: str
    index: int  # decides its color
    runs: list[RunFiles]
    is_baseline: bool

    @property
    def title(self) -> str:
        return f"{self.label} (n={len(self.runs)})"

    @property
    def finished(self) -> list[RunFiles]:
        return [run for run in self.runs if run.summary]


def group_runs(runs: Sequence[RunFiles]) -> list[RunGroup]:
    """Group the runs of one world or domain, baseline first. Unfinished runs are members too."""
    by_settings: dict[str, list[RunFiles]] = {}
    for run in runs:
        key = json.dumps(settings_without_seeds(comparable_request(run.entry)), sort_keys=True)
        by_settings.setdefault(key, []).append(run)
    members = list(by_settings.values())
    labels = group_labels([comparable_request(group[0].entry) for group in members])
    kind = runs[0].kind
    names = [get_path(group[0].request, kind.group_key, "name") for group in members]
    order = sorted(range(len(members)), key=lambda k: (names[k] != kind.baseline, labels[k]))
    return [RunGroup(labels[k], i, members[k], names[k] == kind.baseline) for i, k in enumerate(order)]


def compare_section(groups: Sequence[RunGroup]) -> Html:
    """Key figures, curves, results with intervals, differences from the baseline, and skills."""
    kind = groups[0].runs[0].kind
    finished = [group for group in groups if group.finished]
    results = None
    if finished:
        records = [[FinishedRun(run.folder, run.request, run.summary) for run in group.finished] for group in finished]
        results = make_table(groups[0].runs[0].task, records, [group.label for group in finished])
    parts: list[Html | None] = [_key_figures(groups), _curves(groups)]
    if results is not None:
        by_label = {group.label: group for group in results.groups}
        rows = [(group, by_label[group.label]) for group in finished]
        path = kind.results[kind.main_result]
        warnings = [tag("p", text, class_="warning") for text in results.warnings]
        parts += [*warnings, _results(results, rows, kind.main_result, path)]
        parts += [_differences(rows, path), _rates(results, rows)]
    if not groups[0].runs[0].is_coevolution:
        parts += group_adaptation(groups)
    return tag("section", *parts, class_="overview")


def _key_figures(groups: Sequence[RunGroup]) -> Html:
    runs = [run for group in groups for run in group.runs]
    num_finished = sum(bool(run.summary) for run in runs)
    is_coevolution = runs[0].is_coevolution
    seconds = sum(run.seconds or 0.0 for run in runs)
    steps = [run.steps for run in runs]
    span = format_steps(max(steps))
    if min(steps) < 0.98 * max(steps):
        span = f"{format_steps(min(steps))} to {span}"
    items: dict[str, Any] = {
        "runs": str(len(runs)) if num_finished == len(runs) else f"{num_finished} of {len(runs)} finished",
        "groups": f"{len(groups)}",
        "rollouts per run" if is_coevolution else "steps per run": span,
        "total time": format_seconds(seconds),
    }
    if not is_coevolution:
        of_finished = "" if num_finished == len(runs) else " of the finished runs"  # summaries have them
        calls = [number(run.summary, "llm", "calls") or 0 for run in runs if run.summary]
        costs = [number(run.summary, "llm", "cost") for run in runs if run.summary]
        items[f"LLM calls{of_finished}"] = f"{sum(calls):,.0f}" if calls else "-"
        cost = "unknown" if None in costs else f"${sum(cost or 0 for cost in costs):,.2f}"
        items[f"LLM cost{of_finished}"] = cost if costs else "-"
    else:
        tokens = [total_tokens(get_path(run.summary, "counts") or run.last_line) for run in runs]
        items["tokens"] = format_steps(sum(count or 0 for count in tokens))
    return definitions(items)


def _curves(groups: Sequence[RunGroup]) -> Html | None:
    if groups[0].runs[0].is_coevolution:
        from .coevolve_section import group_charts

        return group_charts(groups)
    evaluations = [
        curve(group.title, group.index, data, points=True)
        for group in groups
        if (data := aggregate([evaluation_points(run) for run in group.runs])) and len(data["x"]) > 1
    ]
    trainings = [
        curve(group.title, group.index, data)
        for group in groups
        if (data := aggregate([_last_phase(run) for run in group.runs])) and len(data["x"]) > 1
    ]
    note = "Interquartile mean over seeds"
    note += "; the band is its 95% interval." if max(len(evaluations), len(trainings)) <= MAX_BANDS else "."
    charts = []
    if evaluations:
        charts.append(chart("Score in the original, after each cycle", evaluations, "steps", "score %", note))
    if trainings:
        title = "Score of training episodes in the original, last phase"
        charts.append(chart(title, trainings, "steps", "score %", note))
    return figure_row(*charts) if charts else None


def _last_phase(run: RunFiles) -> list[tuple[float, float]]:
    slots = phase_slots(run)
    points, phases = training_points(run, lambda line: results_in_original(line, slots))
    return [point for point in points if phases and point[0] > phases[-1][0]]


def _values(group: RunGroup, path: Sequence[str]) -> dict[Any, float]:
    """The result of each finished run, by seed; of the first run where a seed occurs twice, as in the table."""
    runs: dict[Any, RunFiles] = {}
    for run in group.finished:
        runs.setdefault(run.seed, run)
    return {seed: value for seed, run in runs.items() if (value := number(run.summary, *path)) is not None}


def _results(results: Table, rows: Sequence[tuple[RunGroup, Group]], name: str, path: Sequence[str]) -> Html:
    """The table of `envgen compare`, with one result drawn on a common axis."""
    kind, cells = results.kind, {row[0]: row for row in results.result_rows()}
    shown = [value for group, _ in rows for value in _values(group, path).values()]
    axis = Axis(shown)  # intervals lie within the range of the seeds
    body = []
    for group, row in rows:
        value = row.aggregates.get(name)
        drawn = interval_bar(
            axis, group.index, value and value.value, value and value.low, value and value.high,
            list(_values(group, path).values()) if row.num_seeds > 1 else (),
        )  # fmt: skip
        first = labeled(group.index, group.label)
        body.append([first, tag("td", drawn, class_="wide"), *cells[row.label][1:]])
    header = [kind.group_key, join(name, axis_labels(axis)), "seeds", *kind.results]
    costs = [[labeled(group.index, group.label), *row.costs] for group, row in rows]
    return tag(
        "section", tag("h3", "Results"), table(header, body, "results", "Results of each group"),
        table([kind.group_key, *kind.costs], costs, "costs", "Costs of each group"),
        tag("p", results.legend(), " Small dots are single runs." if any(r.num_seeds > 1 for _, r in rows) else "",
            class_="note"),
    )  # fmt: skip


def _differences(rows: Sequence[tuple[RunGroup, Group]], path: Sequence[str]) -> Html | None:
    """Differences from the baseline, seed by seed."""
    baselines = [group for group, _ in rows if group.is_baseline]
    if not baselines:
        return None
    differences: dict[int, tuple[RunGroup, dict[Any, float]]] = {}
    used: dict[int, RunGroup] = {}  # baselines
    for group, _ in rows:
        baseline = _baseline_of(group, baselines)
        at_seed = _values(baseline, path)
        by_seed = {s: value - at_seed[s] for s, value in _values(group, path).items() if s in at_seed}
        if by_seed and group is not baseline:
            differences[group.index], used[group.index] = (group, by_seed), baseline
    if not differences:
        return None
    labels = list(dict.fromkeys(baseline.label for baseline in used.values()))
    intervals = {k: iqm_with_ci(list(by_seed.values())) for k, (_, by_seed) in differences.items()}
    axis = Axis([value for _, by_seed in differences.values() for value in by_seed.values()], include_zero=True)
    body = []
    for k, (group, by_seed) in differences.items():
        interval = intervals[k]
        bar = interval_bar(
            axis,
            k,
            interval.value,
            interval.low,
            interval.high,
            list(by_seed.values()) if len(by_seed) > 1 else (),
            0.0,
        )
        in_order = sorted(by_seed.items(), key=lambda item: (number(item[0]) or 0.0, str(item[0])))
        per_seed = ", ".join(f"{seed}: {value:+.1f}" for seed, value in in_order)
        of_baseline = [used[k].label] if len(labels) > 1 else []
        first = [labeled(group.index, group.label), *of_baseline]
        body.append([*first, tag("td", bar, class_="wide"), _signed(interval), per_seed])
    columns = [join("difference in points", axis_labels(axis)), "interquartile mean", "seed by seed"]
    header = ["group", *(["baseline"] if len(labels) > 1 else []), *columns]
    title = "Difference from the baseline" + (f" ({labels[0]})" if len(labels) == 1 else "")
    return tag(
        "section", tag("h3", f"{title}, seed by seed"), table(header, body, "results", title),
        tag("p", "Runs are paired with the baseline's run of the same seed. An interval that includes 0 does not show "
            "a difference.", class_="note"),
    )  # fmt: skip


def _baseline_of(group: RunGroup, baselines: Sequence[RunGroup]) -> RunGroup:
    """The baseline whose settings, apart from those of the designer or proposer, are most like those of a group.

    Of several, the first one. A baseline itself is compared with the first baseline.
    """
    if group.is_baseline:
        return baselines[0]
    prefix = f"{group.runs[0].kind.group_key}."
    settings = settings_without_seeds(comparable_request(group.runs[0].entry))

    def num_differences(baseline: RunGroup) -> int:
        others = settings_without_seeds(comparable_request(baseline.runs[0].entry))
        names = settings.keys() | others.keys()
        return sum(settings.get(n) != others.get(n) for n in names if not n.startswith(prefix))

    return min(baselines, key=num_differences)


def _signed(interval: Any) -> str:
    if interval.low is None:
        return f"{interval.value:+.1f}"
    return f"{interval.value:+.1f} [{interval.low:+.1f}, {interval.high:+.1f}]"


def _rates(results: Table, rows: Sequence[tuple[RunGroup, Group]]) -> Html | None:
    """Final success rates of skills or kinds of tasks, as a heat map."""
    names = list(dict.fromkeys(name for _, row in rows for name in row.rate_names))[:MAX_SKILL_ROWS]
    if not names:
        return None
    if results.kind is TRAIN:  # kinds of tasks stay in their order
        names.sort(key=lambda name: -sum(a.value for _, row in rows if (a := row.aggregates.get(name))))
    body = [
        [breakable(name), *(heat_cell(a.value if (a := row.aggregates.get(name)) else None) for _, row in rows)]
        for name in names
    ]
    header = [results.kind.row_label, *(labeled(group.index, group.label) for group, _ in rows)]
    title = results.kind.row_label.removesuffix(" %").capitalize()
    return tag(
        "section", tag("h3", f"{title} by group"), table(header, body, "heatmap", f"{title} by group"),
        tag("p", "Percent; interquartile means over seeds.", class_="note"),
    )  # fmt: skip


def describe_result(run: RunFiles) -> str:
    """The result of a run in a few words."""
    if run.is_coevolution:
        if (final := number(run.summary, "final_accuracy")) is not None:
            return f"{format_number(number(run.summary, 'initial_accuracy'))} to {final:.1f}% accuracy"
    elif (score := number(run.summary, "final", "score", "value")) is not None:
        return f"score {score:.1f}%"
    unit = "rollout" if run.is_coevolution else "step"
    if (planned := run.planned_steps) and run.steps:
        return f"{min(100, 100 * run.steps / planned):.0f}% of its {unit}s"
    return plural(int(run.steps), unit)
