"""A run of EnvGen: its settings, score, skills, the levels of each cycle, the conversation, and clips of its policy."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from PIL import Image

from envgen.runs.kinds import number, skill_rates
from envgen.settings import flatten
from envgen.text import plural

from .adaptation import adaptation_section
from .archive import archive_cards, archive_facts, archive_table
from .charts import chart, curve, figure_row, point_data
from .clips import Clip
from .conversation import conversation
from .curves import cycle_rates, evaluation_points, training_points
from .html import (
    Html,
    badge,
    breakable,
    definitions,
    details,
    format_number,
    format_seconds,
    format_steps,
    guarded,
    heat_cell,
    join,
    table,
    tag,
    to_json,
)
from .level_progress import phase_slots, plays_levels
from .pictures import LevelMaps, PictureStore, to_animation, to_webp
from .read import CycleFiles, RunFiles, as_text, estimate, numbers, objects, texts

MAX_LEVELS = 32  # of a cycle
MAX_SKILLS = 200  # of a heat map
MAX_SETTINGS = 40  # of a level
MILLISECONDS = 100  # per frame
VERDICTS = ("good", "doubtful", "bad")  # each is a class of the style sheet


def train_section(run: RunFiles, maps: LevelMaps | None) -> list[Html | None]:
    """The parts of a run of `envgen train`."""
    return [guarded(build, name) for name, build in train_parts(run, maps).items()]


def train_parts(run: RunFiles, maps: LevelMaps | None) -> dict[str, Callable[[], Html | None]]:
    """The functions that build the parts of a run, by name."""
    return {
        "facts": lambda: _facts(run),
        "charts": lambda: _charts(run),
        "skills": lambda: _skills(run),
        "adaptation": lambda: adaptation_section(run),
        "levels": lambda: _cycles(run, maps),
        "conversation": lambda: conversation(run),
        "settings": lambda: settings_list(run),
    }


def _facts(run: RunFiles) -> Html:
    score, reward = estimate(run.summary, "final", "score"), estimate(run.summary, "final", "reward")
    length = estimate(run.summary, "final", "length")
    llm = numbers(run.summary, "llm")
    items: dict[str, Any] = {
        "final score %": _with_interval(score),
        "final reward": _with_interval(reward),
        "episode length": _with_interval(length, 0),
        "score in training %": format_number(number(run.summary, "training", "score")),
        "steps": _steps(run),
        "wall time": format_seconds(run.seconds),
        "LLM calls": format_number(llm.get("calls", 0), 0) if run.summary else "-",
    }
    if llm.get("calls"):
        cost = llm.get("cost")
        items["LLM cost"] = "unknown" if cost is None else f"${cost:,.2f}"
        names = ("prompt_tokens", "reply_tokens", "estimated_tokens")
        items["LLM tokens"] = format_steps(sum(llm.get(name, 0) for name in names))
    return definitions(items)


def _steps(run: RunFiles) -> Html | str:
    if not run.summary:
        return f"{format_steps(run.steps)} of {format_steps(run.planned_steps)}"
    steps = numbers(run.summary, "steps")
    ranking = steps.pop("ranking", 0)  # not part of the sum
    parts = " + ".join(f"{format_steps(n)} {name}" for name, n in steps.items() if n)
    measured = f"; {format_steps(ranking)} more to measure levels" if ranking else ""
    return join(format_steps(run.steps), tag("small", f" {parts}{measured}"))


def _with_interval(value: tuple[float, float | None, float | None] | None, digits: int = 1) -> Html | str:
    if value is None:
        return "-"
    middle, low, high = value
    if low is None or high is None:
        return format_number(middle, digits)
    interval = f" [{format_number(low, digits)}, {format_number(high, digits)}]"
    return join(format_number(middle, digits), tag("small", interval))


def _charts(run: RunFiles) -> Html | None:
    charts = [score_chart(run)]
    losses = [
        curve(name.replace("_", " "), index, data)
        for index, name in enumerate(("entropy", "explained_variance"))
        if (data := _metric(run, name))
    ]
    if losses:
        charts.append(chart("Entropy and explained variance", losses, "steps", "nats, or share", from_zero=False))
    shown = [drawn for drawn in charts if drawn is not None]
    return figure_row(*shown) if shown else None


def score_chart(run: RunFiles) -> Html | None:
    """The score over steps, in training and in the original."""
    training, phases = training_points(run)
    evaluation = evaluation_points(run)
    curves = []
    if len(training) > 1:
        curves.append(curve("training episodes", 0, point_data(training)))
    if len(evaluation) > 1:
        curves.append(curve("evaluations in the original", 1, point_data(evaluation), points=True))
    if not curves:
        return None
    slots = phase_slots(run)
    shades = [(start, end, name) for start, end, name in phases if plays_levels(name, slots)]
    note = "Shaded: phases in the designer's levels, which can be easier or harder than the original."
    return chart("Score", curves, "steps", "score %", note if shades else "", shades=shades)


def _metric(run: RunFiles, name: str, max_points: int = 200) -> dict[str, list[float]] | None:
    points = [
        (steps, value)
        for line in run.lines
        if (steps := number(line, "steps")) is not None and (value := number(line, name)) is not None
    ]
    stride = -(-len(points) // max_points) if points else 1
    return point_data(points[::stride]) if len(points) > 1 else None


def _skills(run: RunFiles) -> Html | None:
    """A heat map of skills x cycles."""
    rates = cycle_rates(run)
    if not rates:
        return None
    names = list(dict.fromkeys(name for by_skill in rates.values() for name in by_skill))
    last = list(rates.values())[-1]
    names.sort(key=lambda name: -last.get(name, 0.0))
    body: list[list[Html]] = [
        [breakable(name), *(heat_cell(by_skill.get(name)) for by_skill in rates.values())]
        for name in names[:MAX_SKILLS]
    ]
    score = [
        number(cycle.result, "evaluation", "score", "value") for cycle in run.cycles if f"cycle {cycle.number}" in rates
    ] + ([number(run.summary, "final", "score", "value")] if "final" in rates else [])
    body.append([Html("score"), *(tag("td", format_number(value), class_="total") for value in score)])
    return tag(
        "section", tag("h4", "Skills by cycle"),
        table(["skill", *rates], body, "heatmap", "Success in the original after each cycle"),
        tag("p", "Success in the original in percent, after each cycle.", class_="note"),
    )  # fmt: skip


# --- the levels of each cycle


def _cycles(run: RunFiles, maps: LevelMaps | None) -> Html | None:
    if not run.cycles:
        return None
    parts = []
    before: Mapping[str, float] = {}
    for cycle in run.cycles:
        parts.append(_cycle(cycle, before, maps))
        before = skill_rates(cycle.result.get("evaluation"))
    legend = map_legend(maps) if maps and any(_has_levels(cycle) for cycle in run.cycles) else None
    return tag("section", tag("h4", "Levels by cycle"), legend, *parts)


def _has_levels(cycle: CycleFiles) -> bool:
    return bool(objects(cycle.design, "proposal", "levels") or cycle.archive)


def _cycle(cycle: CycleFiles, before: Mapping[str, float], maps: LevelMaps | None) -> Html:
    levels = archive_cards(cycle.archive) or objects(cycle.design, "proposal", "levels")
    audits = objects(cycle.design, "audits")
    outcomes = objects(cycle.result, "cycle", "outcomes")
    after = skill_rates(cycle.result.get("evaluation"))
    score = estimate(cycle.result, "evaluation", "score")
    heading = [
        tag("strong", f"Cycle {cycle.number}"),
        tag("span", _what_was_played(cycle, len(levels)), class_="muted"),
        tag("span", "score afterwards ", _with_interval(score), class_="muted") if score else None,
    ]
    cards = [
        level_card(k, level, _at(audits, k), _at(outcomes, k), before, after, maps)
        for k, level in enumerate(levels[:MAX_LEVELS])
    ]
    notes = [tag("p", note, class_="warning") for note in texts(cycle.design, "proposal", "notes")]
    parts = (archive_facts(cycle.archive), archive_table(cycle.archive)) if cycle.archive else ()
    archive = [part for part in parts if part is not None]
    if not cards and not notes and not archive:
        return tag("p", *heading, class_="cycle-line")
    return details(heading, *notes, *archive, tag("div", *cards, class_="levels"), class_="cycle", open_=True)


def _what_was_played(cycle: CycleFiles, num_levels: int) -> str:
    if cycle.archive:
        return "a level for every episode"
    return plural(num_levels, "level") if num_levels else "the original only"


def _at(items: Sequence[dict[str, Any]], k: int) -> dict[str, Any]:
    return items[k] if k < len(items) else {}


def level_card(
    k: int, level: Mapping[str, Any], audit: Mapping[str, Any] = MappingProxyType({}),
    outcome: Mapping[str, Any] = MappingProxyType({}), before: Mapping[str, float] = MappingProxyType({}),
    after: Mapping[str, float] = MappingProxyType({}), maps: LevelMaps | None = None, heading: str = "h5",
    footer: Html | None = None,
) -> Html:  # fmt: skip
    """Level `k` of a proposal, from above, with what is known about it."""
    overrides = level.get("level") if isinstance(level.get("level"), dict) else {}
    purpose = as_text(level.get("purpose")) or "No purpose given."
    picture = maps.add(overrides) if maps else None
    settings = list(flatten(overrides).items())[:MAX_SETTINGS] if overrides else []
    verdict = as_text(audit.get("verdict"))
    findings = [*texts(audit, "reasons"), *texts(audit, "findings")]
    return tag(
        "article",
        _map(picture, f"Map of level {k + 1}: {purpose}"),
        tag(
            "div",
            tag("header", tag(heading, f"Level {k + 1}"),
                badge(f"audit: {verdict}", verdict if verdict in VERDICTS else "") if verdict else None),
            tag("p", purpose, class_="purpose untrusted"),
            tag("ul", [tag("li", tag("span", name), " ", tag("b", as_text(value))) for name, value in settings],
                class_="chips") if settings else tag("p", "The original, unchanged.", class_="muted"),
            _level_skills(texts(level, "skills"), outcome, before, after),
            details("What the audit found", tag("ul", [tag("li", text) for text in findings]), class_="small")
            if findings else None,
            maps.links(overrides) if maps else None,
            footer,
        ),
        class_="level",
    )  # fmt: skip


def _map(picture: str | None, alt: str) -> Html | None:
    if picture is None:
        return None
    return tag("button", tag("img", alt=alt, data_picture=picture), class_="zoom", type="button", title="Enlarge")


def map_legend(maps: LevelMaps) -> Html | None:
    """What the maps show."""
    entries = maps.legend()
    if not entries:
        return None
    items = [tag("li", tag("img", alt="", data_picture=name), text) for name, text in entries]
    return tag("ul", *items, class_="map-legend")


def _level_skills(
    skills: Sequence[str], outcome: Mapping[str, Any], before: Mapping[str, float], after: Mapping[str, float]
) -> Html | None:
    """The success of the skills that a level teaches: in the level, and in the original before and after the cycle."""
    first, last = numbers(outcome, "first_third"), numbers(outcome, "last_third")
    if not skills:
        return None
    if not (first or last or before or after):
        return tag("p", tag("span", "teaches ", class_="muted"), ", ".join(skills), class_="teaches")
    rows = [
        [
            breakable(skill),
            tag("td", _change(first.get(skill), last.get(skill))),
            tag("td", _change(before.get(skill), after.get(skill))),
        ]
        for skill in skills
    ]
    episodes = number(outcome, "episodes")
    in_level: Html | str = "in this level"
    if episodes is not None:
        in_level = join(in_level, tag("small", f" {episodes:,.0f} episodes"))
    return table(["teaches", in_level, "in the original"], rows, "change", "Success in percent, before and after")


def _change(old: float | None, new: float | None) -> Html | str:
    if old is None and new is None:
        return "-"
    if old is None:
        return f"after {new:.0f}"
    if new is None:
        return f"before {old:.0f}"
    direction = "up" if new > old + 0.5 else "down" if new < old - 0.5 else "same"
    return tag("span", f"{old:.0f} → {new:.0f}", class_=direction)


# --- settings, clips


def settings_list(run: RunFiles) -> Html:
    """All settings of a run, its library versions and its machine."""
    rows = [[name, as_text(value)] for name, value in flatten(run.request).items()]
    entry = run.entry
    rows += [[f"version of {name}", as_text(value)] for name, value in flatten(entry.get("versions") or {}).items()]
    if machine := entry.get("machine"):
        rows.append(["machine", as_text(machine)])
    return details("All settings", table(["setting", "value"], rows[:400], "settings", "Settings"))


def clips_section(clips: Sequence[Clip], store: PictureStore, title: str) -> Html | None:
    """The clips of a policy, with a player each."""
    players = [player for clip in clips if (player := _player(clip, store)) is not None]
    if not players:
        return None
    return tag("section", tag("h3", title), tag("div", *players, class_="clips"), class_="policy")


def _player(clip: Clip, store: PictureStore) -> Html | None:
    key = f"{clip.title}{clip.first_step}{clip.actions}{clip.frames[0].tobytes().hex()[:64]}"
    animation = store.add(f"clip {key}", lambda: to_animation(clip.frames, MILLISECONDS))
    shown = clip.skills.get(clip.title, len(clip.frames) // 2)  # before the clip is played
    poster = store.add(f"poster {key}", lambda: to_webp(Image.fromarray(clip.frames[shown])))
    if animation is None or poster is None:
        return None
    spec = {
        "clip": animation, "frames": len(clip.frames), "first": clip.first_step, "ms": MILLISECONDS,
        "poster": shown,
        "actions": clip.actions, "vitals": clip.vitals, "maxima": clip.maxima,
        "skills": sorted(([frame, name] for name, frame in clip.skills.items()), key=lambda item: item[0]),
    }  # fmt: skip
    return tag(
        "figure",
        tag("figcaption", tag("strong", clip.title), tag("span", clip.caption)),
        tag("div", tag("img", alt=f"{clip.title}: {clip.caption}", data_picture=poster), class_="screen"),
        tag("div", class_="controls"),
        tag("script", to_json(spec), type="application/json"),
        class_="clip",
    )  # fmt: skip
