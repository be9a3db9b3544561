"""The archive of levels after a cycle, of a run whose designer chose the level of every episode."""

from collections.abc import Mapping
from typing import Any

from envgen.runs.kinds import number
from envgen.settings import flatten
from envgen.text import plural

from .html import Html, details, format_number, table, tag
from .read import as_text, numbers, objects

MAX_CARDS = 4
MAX_ROWS = 20
MAX_SETTINGS = 12  # of a level in the table
KINDS = {"replay": "replayed", "random": "in new random levels", "mutation": "in new mutations"}
SCORES = {
    "positive_value_loss": "positive value loss",
    "max_mc": "MaxMC regret",
    "learnability": "learnability p(1 - p)",
}


def archive_facts(archive: Mapping[str, Any]) -> Html | None:
    """How many levels the archive holds, and what the episodes of the run so far played, as far as the sampler says."""
    episodes = numbers(archive, "episodes")
    played = ", ".join(f"{count:,.0f} {KINDS.get(kind, kind)}" for kind, count in episodes.items())
    size, tried = number(archive, "size"), number(archive, "levels_tried")
    levels = "levels" if tried is None else f"of {tried:,.0f} levels tried so far"
    ranking = f", ranked by {score}" if (score := _score_name(archive)) else ""
    measured = number(archive, "ranking_steps")
    parts = [
        f"The archive holds {size:,.0f} {levels}{ranking}." if size is not None else None,
        f"Episodes so far: {played}." if played else None,
        f"{measured:,.0f} steps went into measuring levels, in addition to training." if measured else None,
    ]
    text = " ".join(part for part in parts if part)
    return tag("p", text, class_="note") if text else None


def archive_cards(archive: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The levels with the highest priority, as proposed levels whose purpose says what is known about them."""
    return [
        {"level": entry.get("level"), "purpose": _describe(entry, archive)}
        for entry in objects(archive, "levels")[:MAX_CARDS]
    ]


def _describe(entry: Mapping[str, Any], archive: Mapping[str, Any]) -> str:
    kind, parent = entry.get("origin"), number(entry, "origin", "parent")
    kind = as_text(kind.get("kind")) if isinstance(kind, Mapping) else ""
    origin = f"{kind} of level {parent:.0f}" if parent is not None and parent >= 0 else kind
    parts = [
        f"Archived level {number(entry, 'id') or 0:.0f} ({origin}{_map_seed(entry)})",
        f"{_score_name(archive)} {format_number(number(entry, 'score'), 3)}",
        f"priority {format_number(_percent(entry, 'priority'))}%",
        plural(int(number(entry, "episodes") or 0), "episode"),
    ]
    rates = {name: rate for name, rate in numbers(entry, "success_rates").items() if 0 < rate < 100}
    if rates:
        name = min(rates, key=lambda skill: abs(rates[skill] - 50))
        parts.append(f"most learnable skill: {name} ({rates[name]:.0f}%)")
    return ", ".join(parts)


def archive_table(archive: Mapping[str, Any]) -> Html | None:
    """The levels with the highest priority, one in each row."""
    rows = []
    for entry in objects(archive, "levels")[:MAX_ROWS]:
        overrides = entry.get("level") if isinstance(entry.get("level"), dict) else {}
        settings = [f"{name} {as_text(value)}" for name, value in flatten(overrides).items()] if overrides else []
        more = [f"and {len(settings) - MAX_SETTINGS} more"] if len(settings) > MAX_SETTINGS else []
        rows.append([
            f"{number(entry, 'id') or 0:.0f}",
            *(tag("td", format_number(value, digits), class_="number") for value, digits in (
                (_percent(entry, "priority"), 1), (number(entry, "episodes"), 0), (number(entry, "mean_return"), 1),
                (number(entry, "positive_value_loss"), 3), (number(entry, "max_mc"), 2),
                (number(entry, "learnability"), 3),
            )),
            (", ".join([*settings[:MAX_SETTINGS], *more]) or "the original") + _map_seed(entry),
        ])  # fmt: skip
    if not rows:
        return None
    heading = ["level", "priority %", "episodes", "return", "positive value loss", "MaxMC", "p(1 - p)", "settings"]
    return details("The archive by priority", table(heading, rows, "settings", "Archived levels"), class_="small")


def _map_seed(entry: Mapping[str, Any]) -> str:
    """The seed of the map with which the level is replayed, if it is always the same one."""
    seed = number(entry, "seed")
    return "" if seed is None else f", map seed {seed:.0f}"


def _score_name(archive: Mapping[str, Any]) -> str:
    name = as_text(archive.get("score"))
    return SCORES.get(name, name)


def _percent(entry: Mapping[str, Any], name: str) -> float | None:
    value = number(entry, name)
    return None if value is None else 100 * value
