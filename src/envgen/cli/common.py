"""What the commands share: worlds and files by name, and mistakes as sentences."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from envgen.worlds.world import LevelError, World, nearest


class UserError(Exception):
    """A mistake in what the user typed; shown as one sentence."""


def world_named(name: str) -> World:
    from envgen.worlds.crafter.world import Crafter
    from envgen.worlds.heist.world import Heist

    worlds = {world.name: world for world in (Crafter, Heist)}
    if name not in worlds:
        raise UserError(f"world {nearest(name, list(worlds))}")
    return worlds[name]()


def one_of(what: str, word: str, words: tuple[str, ...]) -> str:
    if word not in words:
        raise UserError(f"{what} {nearest(word, words)}")
    return word


def read_level(file: Path | None, world: World) -> Any:
    """A level from a JSON file; the original without one."""
    if file is None:
        return world.original
    try:
        return world.Level.parse(file.read_text())
    except OSError as error:
        raise UserError(f"cannot read the level {file}: {error.strerror}{near(file)}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read the level {file}: it is not a text file") from None
    except LevelError as error:
        raise UserError(f"{file}: {error}") from None


def near(path: Path) -> str:
    """What stands beside a path that does not exist and is called alike."""
    import difflib

    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.5)
    return f"; did you mean {path.parent / close[0]}?" if close else ""


def pairs(option: str, settings: tuple[str, ...]) -> dict[str, Any]:
    """`name=value`, the values as JSON."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        try:
            found[name] = json.loads(value)
        except ValueError:
            raise UserError(
                f"--{option} takes name=value with a number, true, false or null, not {setting!r}"
            ) from None
        if not equals:
            raise UserError(f"--{option} takes name=value, not {setting!r}")
    return found


def check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise UserError(f"--{name} must be at least 1, not {count}")


def writable(picture: Path) -> Path:
    """Where to write a picture, with its folder made."""
    if picture.suffix.lower() != ".png":
        raise UserError(f"a picture is written as .png, not {picture.name!r}")
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.touch()
    except OSError as error:
        raise UserError(f"cannot write {picture}: {error.strerror}") from None
    return picture


def needs_training() -> None:
    """One sentence if the learner's libraries are missing. They are not imported: that takes a while."""
    for library in ("torch", "safetensors", "rich", "matplotlib"):
        if find_spec(library) is None:
            raise UserError(f"this needs {library}: pip install 'envgen[train]'")
