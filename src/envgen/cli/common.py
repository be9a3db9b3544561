"""What the commands share: worlds and files by name, and mistakes as sentences."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from envgen.settings import nearest
from envgen.worlds.world import LevelError, World


class UserError(Exception):
    """A mistake in what the user typed; shown as one sentence."""


def world_named(name: str) -> World:
    from envgen.worlds.registry import WorldError, make_world

    try:
        return make_world(name)
    except WorldError as error:
        raise UserError(str(error)) from None


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


def pairs(option: str, settings: tuple[str, ...], words: bool = False) -> dict[str, Any]:
    """`name=value`, the values as JSON, or as they stand if they may be `words`."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        try:
            found[name] = json.loads(value)
        except ValueError:
            if words and value:
                found[name] = value
                continue
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


def flags_of(kind: type[BaseModel], name: str) -> type[BaseModel]:
    """The same settings as flags that may be left out."""
    fields: dict[str, Any] = {
        field: (_typed(about.annotation), Field(default=None, description=_described(about)))
        for field, about in kind.model_fields.items()
    }
    return create_model(name, __config__=ConfigDict(frozen=True), **fields)


def _typed(kind: Any) -> Any:
    """Words are checked by the settings themselves, which know the nearest right one."""
    return str | None if get_origin(kind) is Literal else kind | None


def _described(about: FieldInfo) -> str:
    words = get_args(about.annotation) if get_origin(about.annotation) is Literal else ()
    known = "" if about.default is None or about.is_required() else f"usually {about.default}"
    note = "; ".join(part for part in (" | ".join(words), known) if part)
    return " ".join(f"{about.description or ''} [{note}]".split()).removesuffix(" []")


def given(flags: BaseModel) -> dict[str, Any]:
    """Those that were not left out."""
    return {name: value for name, value in flags.model_dump().items() if value is not None}


def check_resume(positional: str, asked: dict[str, Any]) -> None:
    """`asked` tells by name what was given beside --resume, which leaves nothing more to be said."""
    if beside := [name for name, value in asked.items() if value]:
        named = f"a {positional}" if beside[0] == positional else f"--{beside[0].replace('_', '-')}"
        raise UserError(f"a run is resumed as it was begun: {named} cannot be given with --resume")


@contextmanager
def resumable(
    command: str, folder: Path, lead: bool, errors: tuple[type[Exception], ...], flags: str = ""
) -> Iterator[None]:
    """What can go wrong in a run as a sentence, and after Ctrl-C how it goes on; `flags` must then be given again."""
    try:
        yield
    except errors as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt:
        if lead and (folder / "run.json").exists():
            again = f"envgen {command} --resume {folder} {flags}".rstrip()
            print(f"\nInterrupted. It goes on with: {again}", file=sys.stderr)
        raise


def needs_training() -> None:
    """One sentence if the learner's libraries are missing."""
    needs("train", "torch", "safetensors", "rich", "matplotlib")


def needs(extra: str, *libraries: str) -> None:
    """They are not imported: that takes a while."""
    for library in libraries:
        if find_spec(library) is None:
            raise UserError(f"this needs {library}: pip install 'envgen[{extra}]'")
