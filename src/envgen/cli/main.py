"""`envgen COMMAND ...`: which commands there are, and one sentence for every mistake."""

import functools
import io
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from typing import Any

import tyro

from envgen.settings import nearest

from .coevolve import coevolve
from .common import UserError
from .demo import bench, demo
from .judge import compare, evaluate
from .look import census, play, preview
from .train import train

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "train": train,
    "coevolve": coevolve,
    "evaluate": evaluate,
    "compare": compare,
    "census": census,
    "preview": preview,
    "play": play,
    "bench": bench,
}


def main() -> None:
    try:
        parsed(sys.argv[1:])()
    except UserError as error:
        print(f"envgen: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def parsed(words: Sequence[str]) -> Callable[[], None]:
    """What the words ask for, ready to be called."""
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise UserError(f"command {nearest(words[0], list(COMMANDS))}")
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            return tyro.extras.subcommand_cli_from_dict(
                {name: _later(command) for name, command in COMMANDS.items()}, prog="envgen", args=words
            )
    except SystemExit as end:
        if end.code in (0, None):
            raise
        raise UserError(sentence(told.getvalue())) from None


def _later(command: Callable[..., None]) -> Callable[..., Any]:
    """The command with all it was given, to be called when nothing is caught any more."""

    @functools.wraps(command)
    def call(*args: Any, **kw: Any) -> Callable[[], None]:
        return functools.partial(command, *args, **kw)

    call.__annotations__ = {**command.__annotations__, "return": Callable[[], None]}
    return call


def sentence(box: str) -> str:
    """What one of tyro's boxes says: its first paragraph, and the option it thinks was meant."""
    drawn = "╭" in box  # else in ASCII, where a line and a rule above the paragraph are the title
    lines = [line.strip("│ ") for line in box.splitlines()[1 if drawn else 2 :]]
    rules = [k for k, line in enumerate(lines) if line and set(line) <= set("─-")] or [len(lines)]
    said = " ".join(lines[: rules[0]])
    meant = re.search(r"^(--[a-z][a-z-]*)", "\n".join(lines[rules[0] :]), re.MULTILINE)
    return (said or "these words make no command") + (
        f"; did you mean {meant[1]}?" if meant and "Unrecognized" in said else ""
    )
