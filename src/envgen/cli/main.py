"""`envgen COMMAND ...`: which commands there are, and one sentence for every mistake."""

import difflib
import functools
import io
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from typing import Any

import tyro

from envgen.worlds.world import nearest

from .common import UserError
from .demo import bench, demo
from .judge import compare, evaluate
from .look import census, play, preview
from .train import train

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "train": train,
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
    check_words(words)
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
    @functools.wraps(command)
    def call(*args: Any, **kw: Any) -> Callable[[], None]:
        return functools.partial(command, *args, **kw)

    call.__annotations__ = {**command.__annotations__, "return": Callable[[], None]}
    return call


def sentence(box: str) -> str:
    """The message in one of tyro's boxes."""
    said = []
    for line in box.splitlines():
        inside = line.strip("\u2502 ")
        if set(inside) <= {"\u2500"} and said:
            break
        if inside and inside[0] not in "\u256d\u2500\u2570":
            said.append(inside)
    return " ".join(said) or "these words make no command; see envgen --help"


def check_words(words: Sequence[str]) -> None:
    """Refuse a command or option that does not exist, with the nearest one that does."""
    if not words or words[0] in ("-h", "--help"):
        return
    if words[0] not in COMMANDS:
        raise UserError(f"command {nearest(words[0], list(COMMANDS))}")
    parser = tyro.extras.get_parser(COMMANDS[words[0]])
    known = [option for action in parser._actions for option in action.option_strings]
    for word in words[1:]:
        name = word.partition("=")[0].replace("_", "-")
        if word.startswith("--") and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else f"see envgen {words[0]} --help"
            raise UserError(f"envgen {words[0]} has no option {name}; {hint}")
