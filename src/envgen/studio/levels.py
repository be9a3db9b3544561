"""The level editor: a form made from the Level class of a world, its level from above, and level files."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, get_args, get_origin
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from envgen.curriculum.audit import changed_stats
from envgen.curriculum.plan import EVALUATION_SEED
from envgen.designers.designer import ProposedLevel
from envgen.report.html import Child, Html, details, table, tag, to_json
from envgen.runs.files import exists, parse_json, read_regular
from envgen.runs.store import write_bytes
from envgen.settings import flatten, format_validation_error, format_value, list_options
from envgen.worlds.level_space import is_text, number_bounds
from envgen.worlds.world import Level, LevelError, World

from .page import page
from .server import RequestError, Response

STATS_SEEDS = range(16)  # of the maps over which statistics are averaged
MAX_CHANGES = 12  # statistics that are listed
MAX_LEVEL_BYTES = 1 << 16
MAX_FILES = 200
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}", re.ASCII)
MAX_SEED = EVALUATION_SEED - 1  # of a map and a game; that of training
RESERVED = ("run.json", "summary.json")  # would make the folder look like a run directory


def levels_page(world: World, worlds: tuple[str, ...], folder: Path, level: str) -> Response:
    """The page of the level editor. `level` is the JSON of the level that it opens."""
    tabs = [
        tag("a", name, href="levels?" + urlencode({"world": name}), aria_current="true" if name == world.name else None)
        for name in worlds
    ]
    file_row = tag(
        "div",
        tag("label", "File ", tag("input", id="file-name", type="text", placeholder="my-level", maxlength="80",
                                  autocomplete="off", spellcheck="false", list="file-names")),
        tag("datalist", *(tag("option", value=name) for name in level_files(folder, world)), id="file-names"),
        tag("button", "Save", type="button", id="save"),
        tag("button", "Load", type="button", id="load"),
        tag("label", "Open from this computer", tag("input", type="file", id="upload", accept=".json,application/json"),
            class_="upload"),
        tag("p", f"Level files are in {folder}.", id="file-status", role="status", class_="note"),
        class_="files",
    )  # fmt: skip
    seed = tag("label", "Seed ", tag("input", type="number", id="seed", value="0", min="0", max=MAX_SEED, step="1",
                                     aria_describedby="seed-error"))  # fmt: skip
    view = tag(
        "section",
        tag("h2", "From above", class_="visually-hidden"),
        tag("div", tag("img", id="map", alt=f"The {world.name} level from above"), class_="map", aria_busy="true"),
        tag("p", seed, tag("button", "Another map", type="button", id="reseed"),
            tag("button", "Play", type="button", id="play", class_="primary"), class_="toolbar"),
        tag("p", id="seed-error", role="status", class_="errors"),
        _play_area(),
        tag("div", class_="stats", id="stats", aria_live="polite"),
        class_="preview",
    )  # fmt: skip
    settings = tag(
        "section", tag("h2", "Settings"),
        tag("p", "Settings that you do not change keep the values of the original. ",
            tag("button", "Reset all", type="button", id="reset"), class_="note"),
        level_form(world), class_="settings-form",
    )  # fmt: skip
    text = details(
        tag("strong", "The level as JSON"),
        tag("textarea", id="level-text", rows="8", spellcheck="false", aria_label="The level as JSON",
            aria_describedby="level-error"),
        open_=True,
    )  # fmt: skip
    return page(
        "levels", "Level editor",
        tag("p", *tabs, class_="tabs") if len(tabs) > 1 else None,
        tag("div", settings,
            tag("div", view, text, tag("p", id="level-error", role="alert", class_="errors"), file_row, id="look"),
            class_="editor"),
        tag("script", to_json({"world": world.name, "level": level}), type="application/json", id="start"),
        stream="events?view=levels", scripts=("levels.js",),
    )  # fmt: skip


def _play_area() -> Html:
    screen = tag("div", tag("img", alt=""), id="screen", tabindex="0", role="application", aria_label="Game",
                 aria_describedby="play-help")  # fmt: skip
    return tag(
        "div", screen, tag("p", id="play-status", class_="status"),
        tag("p", id="play-events", role="status", class_="status"),
        tag("div", id="play-actions", class_="actions"),
        tag("p", id="play-help", class_="note"),
        tag("button", "Stop playing", type="button", id="stop"), id="game", hidden=True,
    )  # fmt: skip


# --- the form


def level_form(world: World, id_prefix: str = "set") -> Html:
    """A control for every setting of a level, in the order of the class."""
    controls = _fields(world.Level, "", id_prefix)
    return tag("form", controls, class_="level-form", data_world=world.name, autocomplete="off")


def _fields(model: type[BaseModel], prefix: str, id_prefix: str) -> list[Html]:
    controls = []
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            inner = _fields(annotation, f"{prefix}{name}.", id_prefix)
            heading = [tag("strong", _words(name)), tag("span", class_="changes muted")]
            hint = tag("p", _hint(field), class_="hint")
            legend = tag("legend", _words(name), class_="visually-hidden")
            controls.append(details(heading, hint, tag("fieldset", legend, *inner), class_="group"))
        else:
            controls.append(_control(prefix + name, field, id_prefix))
    return controls


def _control(name: str, field: FieldInfo, id_prefix: str) -> Html:
    """The control of one setting. `data-setting` is its dotted name, `data-original` its value in the original."""
    id_ = f"{id_prefix}-{name.replace('.', '-')}"
    original = field.get_default(call_default_factory=True)
    hint = _hint(field)
    annotation = field.annotation
    data = {"data_setting": name, "data_original": json.dumps(original)}
    described = {"aria_describedby": f"{id_}-hint" if hint else None}
    if options := list_options(annotation):
        boxes = [
            tag("label", tag("input", type="checkbox", value=json.dumps(option), checked=option in original), " ",
                _words(str(option)))
            for option in options
        ]  # fmt: skip
        label = tag("legend", _words(name.rpartition(".")[2]))
        control = tag("fieldset", label, tag("div", *boxes, class_="options"), data_kind="list", **data, **described)
    elif annotation is bool:
        box = tag("input", type="checkbox", id=id_, checked=original, data_kind="bool", **data, **described)
        control = tag("label", box, " ", _words(name.rpartition(".")[2]))
    else:
        label = tag("label", _words(name.rpartition(".")[2]), for_=id_)
        if is_text(annotation):
            text = tag("textarea", "\n".join(original), id=id_, rows="6", spellcheck="false", data_kind="text", **data,
                       **described)  # fmt: skip
            control = [label, text]
        elif get_origin(annotation) is not None:
            options = [
                tag("option", _words(str(option)), value=json.dumps(option), selected=option == original)
                for option in get_args(annotation)
            ]
            control = [label, tag("select", *options, id=id_, data_kind="option", **data, **described)]
        else:
            low, high = number_bounds(field)
            step = "1" if annotation is int else "any"
            number = tag("input", type="number", id=id_, value=original, min=low, max=high, step=step,
                         data_kind="number", **data, **described)  # fmt: skip
            control = [label, number, tag("small", f"{low} to {high}")]
    return tag("div", control, tag("p", hint, class_="hint", id=f"{id_}-hint") if hint else None, class_="setting")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _hint(field: FieldInfo) -> list[Child]:
    """The documentation of a setting, with names in backticks as code."""
    parts = " ".join((field.description or "").split()).split("`")
    return [tag("code", text) if k % 2 else text for k, text in enumerate(parts) if text]


# --- levels and their statistics


class WrongNumbers(LevelError):
    """A level with settings that must be numbers and are not, or are too small or too large.

    `fields` holds what to enter instead, by the dotted names of these settings.
    """

    def __init__(self, message: str, fields: Mapping[str, str]):
        super().__init__(message)
        self.fields = fields


def parse_level(world: World, value: Any) -> Level:
    """A level from its settings, or from JSON text. Raises LevelError."""
    if isinstance(value, str):
        try:
            value = parse_json(value or "{}")
        except ValueError as error:
            raise LevelError(f"this is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise LevelError("a level is a JSON object with settings")
    inner = value.get("level")  # of an entry of a proposal
    is_entry = isinstance(inner, Mapping) and value.keys() <= ProposedLevel.model_fields.keys()
    settings = inner if is_entry else value
    try:
        return world.Level.parse(settings)
    except LevelError:
        _refuse_numbers(world.Level, settings)
        raise


def _refuse_numbers(model: type[Level], settings: Any) -> None:
    """Raises WrongNumbers if any number is wrong. pydantic's own messages are about types."""
    fields: dict[str, str] = {}

    def describe(details: Mapping[str, Any]) -> str:
        name = ".".join(map(str, details["loc"]))
        if name not in wanted:
            return ""
        fields[name] = f"Enter {wanted[name]}."
        value = details["input"]
        return f"{name} must be {wanted[name]}, " + ("but is empty" if value is None else f"not {format_value(value)}")

    wanted = _wanted_numbers(model)
    try:
        model.model_validate(settings)
    except ValidationError as error:
        message = format_validation_error(error, describe=describe)
        if fields:
            raise WrongNumbers(message, fields) from None


def _wanted_numbers(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """What each number of a level must be, by its dotted name."""
    wanted = {}
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            wanted |= _wanted_numbers(annotation, f"{prefix}{name}.")
        elif annotation in (int, float):
            low, high = number_bounds(field)
            wanted[prefix + name] = f"a {'whole ' if annotation is int else ''}number from {low} to {high}"
    return wanted


def describe_level(level: Level) -> dict[str, Any]:
    """A level for the script of the page: what differs from the original, and all values by dotted name."""
    return {"overrides": level.to_overrides(), "values": flatten(level.model_dump(mode="json"))}


def level_key(level: Level) -> str:
    return json.dumps(level.to_overrides(), sort_keys=True)


@lru_cache(maxsize=256)
def _stats_of(world: World, key: str) -> tuple[dict[str, float], tuple[str, ...]]:
    """Statistics of a level, and the skills that are impossible in it."""
    level = world.Level.parse(key)
    stats = world.level_stats(level, STATS_SEEDS)
    possible = world.reachable_skills(level, stats)
    return stats.as_dict(), tuple(skill.name for skill in world.skills if skill.name not in possible)


def stats_section(world: World, level: Level) -> Html:
    """The statistics of a level: what differs from the original first."""
    stats, impossible = _stats_of(world, level_key(level))
    original, never = _stats_of(world, "{}")
    changes = changed_stats(original, stats, MAX_CHANGES)
    lost = [name for name in impossible if name not in never]
    rows = [
        [name, f"{value:,.1f}", f"{original[name]:,.1f}" if name in original else "-"] for name, value in stats.items()
    ]
    header = [f"mean of {len(STATS_SEEDS)} maps", "this level", "original"]
    return tag(
        "div",
        tag("p", tag("strong", "Impossible here: "), ", ".join(lost), class_="impossible") if lost else None,
        tag("ul", [tag("li", change) for change in changes], class_="chips") if changes
        else tag("p", "No statistic differs much from the original.", class_="note"),
        details("All statistics", table(header, rows, caption="Statistics")),
    )  # fmt: skip


# --- level files


def level_files(folder: Path, world: World) -> list[str]:
    """The files in a folder that hold a level of this world, `MAX_FILES` at most."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".json" and entry.is_file())
    except OSError:
        return []
    levels = (name for name in names if name not in RESERVED and _is_level(folder / name, world))
    return list(islice(levels, MAX_FILES))


def _is_level(file: Path, world: World) -> bool:
    try:
        load_level(file, world)
    except (RequestError, LevelError):
        return False
    return True


def load_level(file: Path, world: World) -> Level:
    """Raises RequestError if there is no such file, LevelError if it holds no level of this world."""
    try:
        value = parse_json(read_regular(file, max_bytes=MAX_LEVEL_BYTES))
    except FileNotFoundError:
        raise RequestError(f"there is no file {file.name}", 404) from None
    except OSError as error:
        raise RequestError(f"cannot read {file.name}: {error.strerror}", 422) from None
    except ValueError as error:
        raise LevelError(f"{file.name} is not JSON: {error}") from None
    return parse_level(world, value)


def file_in(folder: Path, name: str) -> Path:
    """A level file of this name. Raises RequestError for names that could mean another folder or a run's file."""
    if not FILE_NAME.fullmatch(name):
        raise RequestError("use letters, digits, spaces, dots, hyphens and underscores for the name of a file")
    name = name if name.endswith(".json") else f"{name}.json"
    if name in RESERVED:
        raise RequestError(f"{name} is the name of a run's file; choose another")
    return folder / name


def save_level(file: Path, level: Level, world: World, replace: bool) -> None:
    """Write a level file. Only a file that holds a level of this world is replaced."""
    if exists(file):
        if not _is_level(file, world):
            raise RequestError(f"{file.name} exists and holds no level of {world.name}; choose another name", 422)
        if not replace:
            raise RequestError(f"{file.name} exists", 409)
    write_bytes(file, (json.dumps(level.to_overrides(), indent=1) + "\n").encode())
