"""What the commands share: input checks, and one-line error messages."""

import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL.Image import Image

from envgen import imports
from envgen.designers.chains import parse_level_or_chain
from envgen.designers.chat.protocol import AmbiguousError, ConnectionSetupError, RejectedError, RetryableError
from envgen.designers.designer import LevelChain
from envgen.errors import EnvgenError
from envgen.processes import is_main_process, is_one_of_several
from envgen.runs.files import parse_json, read_regular, suggest_path
from envgen.runs.store import write_bytes
from envgen.settings import format_choice_error
from envgen.worlds.registry import make_world
from envgen.worlds.world import LevelError, SupportsReference, World

MAX_LEVEL_BYTES = 1 << 20


class UserError(EnvgenError):
    """A mistake in what the user typed."""


def require_reference(world: World) -> SupportsReference:
    """The world as one whose results can be compared with those of its reference package."""
    if not isinstance(world, SupportsReference):
        raise UserError(f"leave out --reference-episodes: there is no reference package of {world.name}")
    return world


def load_policy_and_world(run: Path, device: str, world: str | None, learner: str | None) -> tuple[Any, World]:
    """The policy of a run, and the world to play in: `world`, or by default the one that it was trained in."""
    from envgen import api

    chosen = None if world is None else make_world(world)
    policy = api.load_policy(run, device, chosen, learner)
    if chosen is not None:
        return policy, chosen
    if "world" not in policy.metadata:
        raise UserError(f"{run} does not name the world that its policy was trained in; add --world")
    api.check_world_name(policy.metadata["world"], api.PASS_WORLD)
    return policy, make_world(policy.metadata["world"])


def require_run(run: Path) -> None:
    """Check that there is such a run, saved policy or release file, or a policy of this name in the cache."""
    from envgen.agents.released import HUB_PREFIX, find_cached_policy

    if not run.exists() and not str(run).startswith(HUB_PREFIX) and find_cached_policy(str(run)) is None:
        raise UserError(f"{run} does not exist; pass a run directory or a trained policy{suggest_path(run)}")


def output_folder(run: Path) -> Path:
    """Where commands write what they make from a policy: into its folder, or, if it is not in one, into out/NAME."""
    return run if run.is_dir() else Path("out") / run.name.removesuffix(".zip")


def require_choice(what: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise UserError(f"{what} {format_choice_error(value, choices)}")
    return value


def require_positive(**counts: float) -> None:
    for name, count in counts.items():
        if not 0 < count < float("inf"):
            raise UserError(f"--{name.replace('_', '-')} must be a positive number, not {count}")


def require_seed(seed: int) -> int:
    if seed < 0:
        raise UserError(f"--seed must be 0 or greater, not {seed}")
    return seed


def require_extra(extra: str) -> None:
    """Check that the libraries of an optional extra are installed, without importing them."""
    imports.require_extra(extra, "this command")


def read_levels(file: Path, world: World, chains: bool = False) -> list[Any]:
    """The levels in a JSON file: one level, a list of levels, or a `levels.json` of a run.

    With `chains`, `{"chain": {...}}` is a `LevelChain` (its levels are derived if it has none); otherwise it is the
    level that it begins with.
    """
    try:
        data = parse_json(read_regular(file.resolve(), max_bytes=MAX_LEVEL_BYTES))  # a symbolic link is allowed
    except OSError as error:
        raise UserError(f"cannot read the level {file}: {error.strerror}{suggest_path(file)}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read the level {file}: it is not a text file") from None
    except ValueError as error:
        raise UserError(f"{file}: Invalid JSON: {error}") from None
    settings = world.Level.model_fields
    for key in ("proposal", "levels"):
        data = data[key] if isinstance(data, dict) and key in data and key not in settings else data
    items = data if isinstance(data, list) else [data]
    levels = []
    for item in items:
        has_level = isinstance(item, dict) and isinstance(item.get("level"), dict) and "level" not in settings
        if has_level and not isinstance(item.get("chain"), dict):
            item = item["level"]  # an entry of a levels.json
        if not isinstance(item, dict):
            raise UserError(f"{file}: a level is a JSON object, not {item!r:.60}")
        try:
            parsed = parse_level_or_chain(item, world)
            is_chain = isinstance(parsed, LevelChain)
            levels.append(parsed.levels[parsed.start] if is_chain and not chains else parsed)
        except LevelError as error:
            raise UserError(f"{file}: {error}") from None
    if not levels:
        raise UserError(f"{file} contains no level")
    return levels


def read_level(file: Path | None, world: World) -> Any:
    """The one level in a JSON file, or the original if there is no file."""
    if file is None:
        return world.original
    levels = read_levels(file, world)
    if len(levels) > 1:
        raise UserError(f"{file} contains {len(levels)} levels; this command takes a file with one")
    return levels[0]


def prepare_png(file: Path) -> Path:
    """Check that a PNG file can be written here, and create its folder."""
    if file.suffix.lower() != ".png":
        raise UserError(f"images are written as .png files, not {file.name!r}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise UserError(f"{file} is a directory, not a PNG file")
        existed = file.exists()
        file.touch()
        if not existed:
            file.unlink()  # nothing is left behind if drawing fails
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
    return file


def write_png(image: Image, file: Path) -> None:
    """Write an image to a file that `prepare_png` has checked."""
    content = io.BytesIO()
    image.save(content, "PNG")
    write_bytes(file, content.getvalue())


EXTENDING_FLAGS = {"--extend", "--cycles", "--final-steps"}


def refuse_with_resume(flags: Sequence[str]) -> None:
    """A resumed run takes everything that identifies it from its run directory."""
    if not flags:
        return
    hint = ""
    if EXTENDING_FLAGS.intersection(flags):
        hint = "; to extend a finished run, repeat the command that started it with the larger number and --extend"
    raise UserError(f"{flags[0]} cannot be combined with --resume: a run continues with its own settings{hint}")


@contextmanager
def resume_hint(command: str, folder: Path, resume_flags: str | None = None) -> Iterator[None]:
    """Say how to continue a run after Ctrl-C or a server's failure, in which nothing that was trained is lost.

    `resume_flags` are those that `--resume` needs; None if the run cannot be resumed with `--resume`.
    """
    try:
        yield
    except (RetryableError, AmbiguousError, RejectedError, ConnectionSetupError, KeyboardInterrupt) as error:
        if not (is_main_process() and (folder / "run.json").exists()):
            raise
        how = "by repeating the command"
        if resume_flags is not None and not is_one_of_several():  # a single process might not be allowed to resume
            how = f"with: envgen {command} --resume {shlex.quote(str(folder))} {resume_flags}".rstrip()
        if isinstance(error, KeyboardInterrupt):
            print(f"\nInterrupted. Resume {how}", file=sys.stderr)
            raise
        raise UserError(f"{error}\nResume {how}") from error
