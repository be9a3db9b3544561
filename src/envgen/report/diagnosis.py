"""A `diagnosis.json` of a run directory as tables in the terminal and as a figure."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from envgen.runs.store import read_json, reading, write_bytes

Json = Mapping[str, Any]
LIGHT, GREEN, RED = "#d9dee5", "#54a24b", "#c0392b"
COLORS = {"prerequisite": "#4c78a8", "condition": "#f58518", "try": GREEN, "success": GREEN}
BAR_HEIGHT = 0.78
COLUMNS = 3  # of funnels in the figure
NUM_BINS = 40  # of the histogram of episode lengths
MAX_LENGTH_PERCENTILE = 99  # of the lengths that the histogram shows; its last bin also holds longer episodes
MAX_CAUSES = 8  # causes with a color of their own


def unmastered_skills(diagnosis: Json) -> dict[str, Json]:
    """The skills that are possible but not mastered, the most successful first."""
    skills = [(name, s) for name, s in diagnosis["skills"].items() if s["episodes"] and not s["mastered"]]
    return dict(sorted(skills, key=lambda item: -item[1]["success"]["value"]))


# --- tables


def diagnosis_tables(diagnosis: Json) -> Group:
    """What the terminal shows: how episodes end, how often each skill was attempted, and where episodes are lost."""
    skills, parts = unmastered_skills(diagnosis), [_ends_table(diagnosis)]
    if not skills:
        return Group(*parts, Text(f"Every skill succeeds in at least {diagnosis['threshold']:g}% of the episodes."))
    if any(skill["attempts"] for skill in skills.values()):
        parts.append(_attempts_table(skills))
    return Group(*parts, _funnels_table(skills, diagnosis["threshold"]))


def _new_table(title: str, *columns: str, wide: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        is_text = k == 0 or column in wide
        table.add_column(column, justify="left" if is_text else "right", overflow="fold", no_wrap=k == 0)
    return table


def _ends_table(diagnosis: Json) -> Table:
    ends, total = diagnosis["ends"], diagnosis["evaluation"]["episodes"]
    names = list(ends[0]["circumstances"])
    table = _new_table(f"Ends of {total} episodes", "cause", "episodes", "median step", *names, wide=names)
    for end in ends:
        cells = [_shares(end["circumstances"][name], end["episodes"]) for name in names]
        share = f"{100 * end['episodes'] / total:.1f}%"
        table.add_row(end["cause"], share, f"{np.median(end['lengths']):.0f}", *cells)
    return table


def _shares(counts: Mapping[str, int], total: int, max_items: int = 3) -> str:
    return ", ".join(f"{name} {100 * count / total:.0f}%" for name, count in list(counts.items())[:max_items])


def _attempts_table(skills: Mapping[str, Json]) -> Table:
    table = _new_table(
        "Opportunities (steps at which a skill could have succeeded) and attempts", "skill", "success", "first success",
        "in episodes", "steps", "used", "failed attempts", "missing conditions", wide=("missing conditions",),
    )  # fmt: skip
    for name, skill in skills.items():
        first = "never" if skill["first_step"] is None else f"{skill['first_step']:.0f}"
        cells = [f"{skill['success']['value']:.1f}%", first]
        if attempts := skill["attempts"]:
            cells += [f"{attempts[key]:,}" for key in ("opportunity_episodes", "opportunity_steps", "used_steps")]
            cells += [f"{attempts['failed_steps']:,}", _format_missing(attempts)]
        table.add_row(name, *cells)
    return table


def _format_missing(attempts: Json, max_items: int = 3) -> str:
    """The conditions that most often did not hold in failed attempts."""
    ranked = sorted(attempts["missing"].items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0f}%" for name, share in ranked[:max_items] if share >= 0.5)


def _funnels_table(skills: Mapping[str, Json], threshold: float) -> Table:
    title = (
        f"Skills below {threshold:g}%: percent of episodes that reach each stage and all before it "
        "(in parentheses: the stage at any time)"
    )
    table = _new_table(title, "skill", "", "stages", wide=("", "stages"))
    for name, skill in skills.items():
        bottleneck = skill["bottleneck"] or {}
        for k, (label, kind, stages) in enumerate(
            (
                ("prerequisites", "prerequisite", skill["prerequisites"]),
                ("conditions", "condition", skill["conditions"]),
            )
        ):
            if stages:
                table.add_row(
                    name if k == 0 or not skill["prerequisites"] else "", label, _funnel(stages, kind, bottleneck)
                )
        description = describe_bottleneck(bottleneck) if bottleneck else "no bottleneck"
        is_first = not (skill["prerequisites"] or skill["conditions"])
        table.add_row(name if is_first else "", "bottleneck", Text(description, style="red"), end_section=True)
    return table


def _funnel(stages: Sequence[Json], kind: str, bottleneck: Json) -> Text:
    text = Text()
    for k, stage in enumerate(stages):
        is_worst = (bottleneck.get("kind"), bottleneck.get("name")) == (kind, stage["name"])
        at_any_time = f" ({stage['ever']:.0f})" if stage["ever"] - stage["together"] >= 1 else ""
        text.append(" > " if k else "", style="dim")
        text.append(f"{stage['name']} {stage['together']:.1f}", style="bold red" if is_worst else "")
        text.append(at_any_time, style="dim")
    return text


def describe_bottleneck(bottleneck: Json) -> str:
    return f"{bottleneck['name']}: {bottleneck['reached']} of the {bottleneck['of']} episodes that got this far"


# --- the figure


def plot_diagnosis(folder: Path, file: Path) -> None:
    """Draw the `diagnosis.json` of a run directory as a PNG: ends of episodes, success rates, a funnel per skill."""
    import matplotlib.figure  # noqa: F401  its errors are not those of the file

    with reading(folder / "diagnosis.json"):
        png = _draw_diagnosis(read_json(folder / "diagnosis.json"))
    write_bytes(file, png)


def _draw_diagnosis(diagnosis: Json) -> bytes:
    from matplotlib.figure import Figure

    evaluation, skills = diagnosis["evaluation"], list(unmastered_skills(diagnosis).items())
    rows = [skills[k : k + COLUMNS] for k in range(0, len(skills), COLUMNS)]
    num_bars = [max(len(_stages(skill)) for _, skill in row) + 2 for row in rows]  # with two lines of text
    heights = [max(15, 0.75 * len(diagnosis["skills"])), *num_bars]  # in bars
    figure = Figure(figsize=(15, 0.19 * (sum(heights) + 3.5 * len(heights)) + 0.6), layout="constrained")
    figure.suptitle(
        f"{evaluation['episodes']} episodes of {evaluation['world']}: score {evaluation['score']['value']:.1f}, "
        f"reward {evaluation['reward']['value']:.1f}, {evaluation['length']['value']:.0f} steps",
        fontsize=13, fontweight="bold",
    )  # fmt: skip
    grid = figure.add_gridspec(len(heights), COLUMNS, height_ratios=heights)
    _plot_ends(figure.add_subplot(grid[0, :2]), diagnosis)
    _plot_rates(figure.add_subplot(grid[0, 2]), diagnosis)
    for j, row in enumerate(rows):
        for k, (name, skill) in enumerate(row):
            _plot_funnel(figure.add_subplot(grid[1 + j, k]), name, skill, num_bars[j])
    if skills:
        figure.legend(handles=_funnel_legend(), loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
    png = BytesIO()
    figure.savefig(png, dpi=90)
    return png.getvalue()


def _plot_ends(axis: Any, diagnosis: Json) -> None:
    """When and why episodes end: a histogram of their lengths, stacked by cause."""
    ends, total = diagnosis["ends"], diagnosis["evaluation"]["episodes"]
    groups = [(_describe_end(end), end["lengths"]) for end in ends[:MAX_CAUSES]]
    if len(ends) > MAX_CAUSES:
        groups.append(("other", [length for end in ends[MAX_CAUSES:] for length in end["lengths"]]))
    longest = np.percentile([length for _, lengths in groups for length in lengths], MAX_LENGTH_PERCENTILE)
    edges = np.linspace(0, max(longest, 2), NUM_BINS + 1)
    axis.hist(
        [np.minimum(lengths, edges[-1]) for _, lengths in groups], bins=edges, stacked=True,
        label=[f"{100 * len(lengths) / total:.1f}%  {label}" for label, lengths in groups],
        color=[f"C{k}" for k in range(len(groups))], edgecolor="white", linewidth=0.3,
    )  # fmt: skip
    axis.set_title("when and why episodes end", loc="left", fontsize=10, fontweight="bold")
    axis.set(xlabel="step (the last bar also holds longer episodes)", ylabel="episodes", xlim=(0, edges[-1]))
    tallest = axis.get_ylim()[1]
    axis.set_ylim(0, tallest * (1 + 0.07 * len(groups)))  # room for the legend
    axis.legend(frameon=False, fontsize=8, loc="upper left", labelspacing=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def _describe_end(end: Json) -> str:
    """The cause, and the two most common values of each circumstance."""
    parts = [
        f"{name}: {_shares(counts, end['episodes'], max_items=2)}" for name, counts in end["circumstances"].items()
    ]
    return f"{end['cause']}  ({'; '.join(parts)})" if parts else end["cause"]


def _plot_rates(axis: Any, diagnosis: Json) -> None:
    """Success rates of all skills, with the threshold."""
    skills = sorted(diagnosis["skills"].items(), key=lambda item: -item[1]["success"]["value"])
    for position, (_, skill) in enumerate(skills):
        rate = skill["success"]["value"]
        first = "" if skill["first_step"] is None else f"  at step {skill['first_step']:.0f}"
        label = f"{rate:.1f}%{first}" if skill["episodes"] else "impossible"
        _draw_bar(axis, position, rate, GREEN if skill["mastered"] else RED, label)
    axis.axvline(diagnosis["threshold"], color="black", linewidth=0.8, linestyle=":")
    axis.set_title("success, and first success (median)", loc="left", fontsize=10, fontweight="bold")
    _finish_bars(axis, [name for name, _ in skills], len(skills))


class _Bar(NamedTuple):
    kind: str  # as in a bottleneck
    name: str
    ever: float
    together: float


def _stages(skill: Json) -> list[_Bar]:
    """All stages of a skill, up to its success."""
    bars = [_Bar("prerequisite", stage["name"], stage["ever"], stage["together"]) for stage in skill["prerequisites"]]
    bars += [_Bar("condition", stage["name"], stage["ever"], stage["together"]) for stage in skill["conditions"]]
    if attempts := skill["attempts"]:
        used = 100 * attempts["used_episodes"] / skill["episodes"]
        bars.append(_Bar("try", "attempted", used, used))
    success = skill["success"]["value"]
    return [*bars, _Bar("success", "success", success, success)]


def _plot_funnel(axis: Any, name: str, skill: Json, num_bars: int) -> None:
    """One bar per stage: dark for the episodes that had it and all before it, light for those that ever had it."""
    bars, bottleneck = _stages(skill), skill["bottleneck"] or {}
    for position, bar in enumerate(bars):
        axis.barh(position, bar.ever, color=LIGHT, height=BAR_HEIGHT)
        _draw_bar(axis, position, bar.together, COLORS[bar.kind], f"{bar.together:.1f}")
    title = f"{name}  {skill['success']['value']:.1f}%"
    axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
    labels = _finish_bars(axis, [bar.name for bar in bars], num_bars)
    for label, bar in zip(labels, bars, strict=True):
        is_named = bar.kind in ("try", "success") or bar.name == bottleneck.get("name")
        if bar.kind == bottleneck.get("kind") and is_named:
            label.set(color=RED, fontweight="bold")
    if attempts := skill["attempts"]:
        text = f"{attempts['opportunity_steps']:,} opportunities, {attempts['used_steps']:,} used"
        if attempts["failed_steps"]:
            text += f"\n{attempts['failed_steps']:,} failed attempts, missing {_format_missing(attempts, max_items=2)}"
        axis.text(0, len(bars) - 0.2, text, va="top", fontsize=7.5).set_in_layout(False)


def _draw_bar(axis: Any, position: float, percent: float, color: str, label: str) -> None:
    """A bar with its label at the end: inside where the bar is long."""
    axis.barh(position, percent, color=color, height=BAR_HEIGHT)
    is_inside = percent > 75
    axis.text(
        percent + (-1 if is_inside else 1), position, label, va="center", fontsize=7,
        ha="right" if is_inside else "left", color="white" if is_inside else "black",
    )  # fmt: skip


def _finish_bars(axis: Any, names: Sequence[str], num_bars: int) -> Any:
    """Name the bars, and leave room for `num_bars`, so that bars are as high as those of other axes."""
    axis.set_yticks(range(len(names)), names, fontsize=7.5)
    axis.set(ylim=(num_bars - 0.4, -0.6), xlim=(0, 104), xticks=())
    axis.spines[["top", "right", "bottom", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    return axis.get_yticklabels()


def _funnel_legend() -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(color=COLORS["prerequisite"], label="prerequisite, with all above"),
        Patch(color=COLORS["condition"], label="condition, at the same step as all above"),
        Patch(color=LIGHT, label="the stage at any time"),
        Patch(color=COLORS["success"], label="attempted, succeeded"),
        Patch(color=RED, label="red name: where most episodes are lost"),
    ]
