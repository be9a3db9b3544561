"""How training adapted to the agent: the levels of each cycle, and how success changed in them and in the original."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from envgen.runs.kinds import number, skill_rates

from .charts import Axis, axis_labels, chart, color_class, curve, figure_row, interval_bar, labeled, point_data
from .curves import cycle_rates
from .html import Html, breakable, format_steps, heat_class, join, table, tag
from .level_progress import (
    THRESHOLDS,
    WINDOW,
    LevelResult,
    LevelSlot,
    level_results,
    phase_slots,
    skill_names,
    skill_steps,
    slots_of,
    taught_skills,
)
from .read import CycleFiles, RunFiles, numbers, objects

if TYPE_CHECKING:
    from .compare_section import RunGroup

MAX_CHARTS = 12  # of skills
MAX_ROWS = 60  # skills of a table
NUM_PARTS = 4  # of a phase, in a chart of a skill


def adaptation_section(run: RunFiles) -> Html | None:
    """The adaptation of a run as figures; None where a run has no cycles and no progress."""
    parts = [_active_levels(run), _skill_charts(run), _first_steps_figure(run)]
    if not any(parts):
        return None
    return tag("section", tag("h4", "Adaptation"), *parts)


# --- the levels of each cycle


def _active_levels(run: RunFiles) -> Html | None:
    """A table of skills x cycles: in which cycles a level taught the skill, and how its success changed."""
    cells: dict[str, dict[int, Html]] = {}
    before: Mapping[str, float] = {}
    for cycle in run.cycles:
        after = skill_rates(cycle.result.get("evaluation"))
        outcomes = objects(cycle.result, "cycle", "outcomes")
        for k, level in enumerate(objects(cycle.design, "proposal", "levels")):
            outcome = outcomes[k] if k < len(outcomes) else {}
            for skill in taught_skills(level):
                by_cycle = cells.setdefault(skill, {})
                if cycle.number not in by_cycle:  # the first of several levels for a skill
                    by_cycle[cycle.number] = _active_cell(skill, level, outcome, before, after)
        before = after
    if not cells:
        return None
    empty = tag("td", class_="heat none")
    columns = [cycle.number for cycle in run.cycles]
    body = [
        [breakable(skill), *(by_cycle.get(k, empty) for k in columns)]
        for skill, by_cycle in list(cells.items())[:MAX_ROWS]
    ]
    header = ["a level for", *(f"cycle {k}" for k in columns)]
    note = (
        "Success in percent in the level, over the first and the last third of its episodes (the color shows the "
        "last). Below it: success in the original before and after the cycle, and the chain's stage before and after."
    )
    return join(table(header, body, "heatmap active", "Levels of each cycle"), tag("p", note, class_="note"))


def _active_cell(
    skill: str, level: Mapping[str, Any], outcome: Mapping[str, Any], before: Mapping[str, float],
    after: Mapping[str, float],
) -> Html:  # fmt: skip
    first, last = numbers(outcome, "first_third").get(skill), numbers(outcome, "last_third").get(skill)
    lines = [tag("span", _arrow(before.get(skill), after.get(skill)), title="in the original")]
    if stage := _stages(level, outcome):
        lines.append(tag("span", stage))
    return tag("td", tag("b", _arrow(first, last)), [tag("small", line) for line in lines], class_=heat_class(last))


def _arrow(old: float | None, new: float | None) -> str:
    if old is None and new is None:
        return "-"
    return " → ".join(
        "?" if rate is None else f"{rate:.1f}" if 0 < rate < 9.95 else f"{rate:.0f}" for rate in (old, new)
    )


def _stages(level: Mapping[str, Any], outcome: Mapping[str, Any]) -> str:
    """`stage 1 → 3 of 7`, or nothing without a chain."""
    start, total = number(level, "chain", "start"), len(objects(level, "chain", "levels"))
    if start is None or not total:
        return ""
    end = number(outcome, "chain", "stage")
    stages = f"{start + 1:.0f}" if end is None or end == start else f"{start + 1:.0f} → {end + 1:.0f}"
    return f"stage {stages} of {total}"


# --- one chart for each skill that was taught


def _skill_charts(run: RunFiles) -> Html | None:
    """Success in the levels of a skill and in the original, over steps."""
    taught: dict[str, int] = {}
    for cycle in run.cycles:
        for level in objects(cycle.design, "proposal", "levels"):
            for skill in taught_skills(level):
                taught[skill] = taught.get(skill, 0) + 1
    names = skill_names(run)
    chosen = sorted((name for name in taught if name in names), key=lambda name: -taught[name])[:MAX_CHARTS]
    if not chosen:
        return None
    results = list(level_results(run))
    charts = [c for skill in chosen if (c := _skill_chart(run, skill, names.index(skill), results)) is not None]
    return figure_row(*charts) if charts else None


def _skill_chart(run: RunFiles, skill: str, index: int, results: Sequence[LevelResult]) -> Html | None:
    in_level = _rate_points(results, index, lambda slot: skill in slot.skills)
    in_original = _rate_points(results, index, lambda slot: slot.is_original)
    measured = [
        (steps, rate)
        for cycle in run.cycles
        if (steps := number(cycle.result, "cycle", "steps")) is not None
        and (rate := skill_rates(cycle.result.get("evaluation")).get(skill)) is not None
    ]
    final = cycle_rates(run).get("final", {}).get(skill)
    if final is not None and run.steps:
        measured.append((run.steps, final))
    curves = [
        curve(label, color, point_data(points), points=True)
        for label, color, points in (
            ("in its levels", 2, in_level),
            ("in the original, training", 0, in_original),
            ("in the original, measured", 1, sorted(dict(measured).items())),
        )
        if points
    ]
    return chart(skill, curves, "steps", "success %", shades=_shades(run, skill)) if len(curves) > 1 else None


def _rate_points(
    results: Sequence[LevelResult], index: int, is_shown: Callable[[LevelSlot], bool]
) -> list[tuple[float, float]]:
    """Success rates over parts of each phase, at the last steps of the parts."""
    by_phase: dict[str, list[tuple[float, float, float]]] = {}
    for result in results:
        if is_shown(result.slot):
            row = result.steps, result.succeeded[index], result.possible[index]
            by_phase.setdefault(result.phase, []).append(row)
    points = []
    for rows in by_phase.values():
        for part in np.array_split(np.array(rows), min(NUM_PARTS, len(rows))):
            if (possible := part[:, 2].sum()) > 0:
                points.append((float(part[-1, 0]), float(np.clip(100 * part[:, 1].sum() / possible, 0, 100))))
    return sorted(dict(points).items())


def _shades(run: RunFiles, skill: str) -> list[tuple[float, float, str]]:
    """The phases in which a level taught the skill."""
    slots = phase_slots(run)
    shades: list[tuple[float, float, str]] = []
    steps_before = 0.0
    for line in run.lines:
        steps, phase = number(line, "steps"), line.get("phase")
        if steps is None or not isinstance(phase, str):
            continue
        if any(skill in slot.skills for slot in slots_of(line, slots)):
            if shades and shades[-1][2] == phase:
                shades[-1] = (shades[-1][0], steps, phase)
            else:
                shades.append((steps_before, steps, phase))
        steps_before = steps
    return shades


# --- when skills were first achieved


def _first_steps_figure(run: RunFiles) -> Html | None:
    by_skill = skill_steps(run)
    shown = [s for item in by_skill.values() for s in (item.in_level, item.in_original, *item.above.values()) if s]
    if not shown:
        return None
    axis = Axis([0.0, *shown])
    order = sorted(
        by_skill, key=lambda name: (by_skill[name].in_original or by_skill[name].in_level or float("inf"), name)
    )
    body = []
    for name in order[:MAX_ROWS]:
        item = by_skill[name]
        bar = interval_bar(
            axis, 1, item.in_original, item.in_original, item.above.get(THRESHOLDS[-1]),
            [] if item.in_level is None else [item.in_level],
        )  # fmt: skip
        cells = (item.in_level, item.in_original, *(item.above.get(t) for t in THRESHOLDS))
        body.append([breakable(name), tag("td", bar, class_="wide"), *map(format_steps, cells)])
    header = [
        "skill", join("steps", step_labels(axis)), "in a level", "in the original",
        *(f"above {threshold:g}%" for threshold in THRESHOLDS),
    ]  # fmt: skip
    note = (
        "Training steps until the first success: in a level (small dot) and in the original (large dot). The bar ends "
        f"where success in the original first exceeds {THRESHOLDS[-1]:g}%. Success rates are those of {WINDOW} "
        "training episodes or of an evaluation, which may succeed before training does."
    )
    return join(
        tag("h5", "First successes"), table(header, body, "results", "Steps until skills succeed"),
        tag("p", note, class_="note"),
    )  # fmt: skip


def step_labels(axis: Axis) -> Html:
    return axis_labels(axis, lambda value: format_steps(value).replace(" ", ""))


# --- groups of runs


def group_adaptation(groups: Sequence["RunGroup"]) -> list[Html | None]:
    """For groups of runs: the steps until skills succeed, how often each skill had a level, and how success changed."""
    return [_group_steps(groups), _group_levels(groups)]


def _group_steps(groups: Sequence["RunGroup"]) -> Html | None:
    by_group = [[skill_steps(run) for run in group.runs if run.lines or run.cycles] for group in groups]
    names = list(dict.fromkeys(name for runs in by_group for steps in runs for name in steps))[:MAX_ROWS]
    means = {
        (k, name, threshold): _mean_steps([steps[name].above.get(threshold) for steps in runs if name in steps])
        for k, runs in enumerate(by_group) for name in names for threshold in THRESHOLDS
    }  # fmt: skip
    shown = [value for value, _, _ in means.values() if value is not None]
    if not shown:
        return None
    axis = Axis([0.0, *shown])

    def first(name: str) -> float:
        reached = [means[k, name, t][0] for t in reversed(THRESHOLDS) for k in range(len(groups))]
        return min((value for value in reached if value is not None), default=float("inf"))

    body = []
    for name in sorted(names, key=lambda name: (first(name), name)):
        marks = [
            ("seed" if threshold == THRESHOLDS[0] else "middle", group.index, means[k, name, threshold][0])
            for k, group in enumerate(groups) for threshold in THRESHOLDS
        ]  # fmt: skip
        cells = [" / ".join(_describe_steps(*means[k, name, t]) for t in THRESHOLDS) for k in range(len(groups))]
        body.append([breakable(name), tag("td", _marks(axis, marks), class_="wide"), *cells])
    header = ["skill", join("steps", step_labels(axis)), *(labeled(group.index, group.label) for group in groups)]
    low, high = THRESHOLDS
    note = (
        f"Training steps until success in the original first exceeds {low:g}% (small dots) and {high:g}% (large dots): "
        "means over the seeds that get there, with their number if some do not."
    )
    return tag(
        "section", tag("h3", "Steps until skills succeed"),
        table(header, body, "results", "Steps until skills succeed"), tag("p", note, class_="note"),
    )  # fmt: skip


def _mean_steps(values: Sequence[float | None]) -> tuple[float | None, int, int]:
    """The mean of the values that are not None, their number, and the number of all values."""
    known = [value for value in values if value is not None]
    return (float(np.mean(known)) if known else None), len(known), len(values)


def _describe_steps(value: float | None, reached: int, total: int) -> str:
    if value is None:
        return "-"
    return format_steps(value) if reached == total else f"{format_steps(value)} ({reached} of {total})"


def _marks(axis: Axis, marks: Sequence[tuple[str, int, float | None]]) -> Html:
    ticks = [tag("line", x1=axis.percent(t), x2=axis.percent(t), y1="0", y2="100%", class_="tick") for t in axis.ticks]
    dots = [
        tag(
            "circle",
            cx=axis.percent(value),
            cy="50%",
            r="3" if kind == "seed" else "5.5",
            class_=f"{kind} {color_class(index)}",
        )
        for kind, index, value in marks
        if value is not None
    ]
    return tag("svg", *ticks, *dots, class_="track", aria_hidden="true")


def _group_levels(groups: Sequence["RunGroup"]) -> Html | None:
    """The share of the cycles in which a skill had a level, and how its success changed there and in the original."""
    stats = [_taught_stats([run for run in group.runs if run.cycles]) for group in groups]
    names = list(dict.fromkeys(name for by_skill in stats for name in by_skill))[:MAX_ROWS]
    if not names:
        return None
    names.sort(key=lambda name: -sum(by_skill[name][0] for by_skill in stats if name in by_skill))
    shown = [(group, by_skill) for group, by_skill in zip(groups, stats, strict=True) if by_skill]
    body = [[breakable(name), *(_taught_cell(by_skill.get(name)) for _, by_skill in shown)] for name in names]
    header = ["a level for", *(labeled(group.index, group.label) for group, _ in shown)]
    note = (
        "Percentage of the cycles in which a level taught the skill. Below it: success in these levels in the "
        "first and the last third of their episodes, and the change of success in the original over these cycles."
    )
    return tag(
        "section", tag("h3", "Levels by skill"), table(header, body, "heatmap active", "Levels by skill"),
        tag("p", note, class_="note"),
    )  # fmt: skip


def _taught_stats(runs: Sequence[RunFiles]) -> dict[str, tuple[float, list[float], list[float], list[float]]]:
    """For each skill, the percentage of cycles with a level for it, and its success in each of them."""
    num_cycles, cycles_with = 0, dict[str, int]()
    by_skill: dict[str, tuple[list[float], list[float], list[float]]] = {}
    for run in runs:
        before: Mapping[str, float] = {}
        for cycle in run.cycles:
            num_cycles += 1
            after = skill_rates(cycle.result.get("evaluation"))
            for skill, first, last in _taught_skills(cycle):
                cycles_with[skill] = cycles_with.get(skill, 0) + 1
                firsts, lasts, changes = by_skill.setdefault(skill, ([], [], []))
                if first is not None and last is not None:
                    firsts.append(first)
                    lasts.append(last)
                if skill in before and skill in after:
                    changes.append(after[skill] - before[skill])
            before = after
    return {name: (100 * count / max(1, num_cycles), *by_skill[name]) for name, count in cycles_with.items()}


def _taught_skills(cycle: CycleFiles) -> Iterable[tuple[str, float | None, float | None]]:
    """Yield each skill that the levels of a cycle taught, with its success in the first and last third of its level."""
    outcomes, seen = objects(cycle.result, "cycle", "outcomes"), set[str]()
    for k, level in enumerate(objects(cycle.design, "proposal", "levels")):
        outcome = outcomes[k] if k < len(outcomes) else {}
        for skill in taught_skills(level):
            if skill not in seen:
                seen.add(skill)
                yield skill, numbers(outcome, "first_third").get(skill), numbers(outcome, "last_third").get(skill)


def _taught_cell(stats: tuple[float, list[float], list[float], list[float]] | None) -> Html:
    if stats is None:
        return tag("td", class_="heat none")
    share, firsts, lasts, changes = stats
    lines = [_arrow(float(np.mean(firsts)), float(np.mean(lasts)))] if firsts else []
    lines += [f"original {np.mean(changes):+.1f}"] if changes else []
    return tag("td", tag("b", f"{share:.0f}"), [tag("small", line) for line in lines], class_=heat_class(share))
