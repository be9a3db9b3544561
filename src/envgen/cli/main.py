"""The command line: `envgen COMMAND ...`."""

import io
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import tyro

from envgen import __version__
from envgen.errors import EnvgenError, is_out_of_memory
from envgen.interrupts import INTERRUPTED
from envgen.text import printable

from .coevolve import coevolve_command
from .common import UserError
from .demo import bench, demo
from .diagnose import diagnose
from .evaluate import compare, evaluate, migrate
from .evaluate_llm import evaluate_llm
from .inspect import designers, play, preview, stats, worlds
from .new import new
from .report import report
from .studio import studio
from .sweep import split_args, sweep_command
from .train import train_command
from .watch import watch

NEWLINE = "\n"
MIN_COLUMNS = 20  # in a narrower terminal, tyro would never finish the help
DESCRIPTION = (
    "Train agents in environments that a designer adapts to them. `envgen COMMAND --help` shows the options of a "
    "command, and `envgen --version` the version."
)


def commands(args: Sequence[str], run_args: Sequence[str] = ()) -> dict[str, Callable[..., Any]]:
    """Every command. The options of `train` depend on the designer and the learner that `args` name.

    Args:
        run_args: The options of the runs of `sweep`.
    """
    return {
        "demo": demo,
        "train": train_command(args if args[:1] == ["train"] else ()),
        "coevolve": coevolve_command(),
        "evaluate": evaluate,
        "evaluate-llm": evaluate_llm,
        "watch": watch,
        "diagnose": diagnose,
        "compare": compare,
        "report": report,
        "studio": studio,
        "sweep": sweep_command(run_args),
        "stats": stats,
        "preview": preview,
        "play": play,
        "worlds": worlds,
        "designers": designers,
        "new": new,
        "bench": bench,
        "migrate": migrate,
    }


def check_current_folder() -> None:
    """Raise UserError if the current directory has been deleted: then PyTorch, for one, cannot be loaded."""
    try:
        os.getcwd()
    except OSError as error:
        raise UserError(f"the current directory cannot be used ({error.strerror}); change to another one") from None


def search_current_folder() -> None:
    """Let modules of the user be imported from the current directory at any time, as by `python -m envgen`."""
    if "" not in sys.path:
        sys.path.append("")


def check_no_empty(args: Sequence[str]) -> None:
    """Raise UserError for an empty argument, such as that of a shell variable which is not set."""
    for previous, arg in zip(["", *args], args, strict=False):
        option = previous if previous.startswith("--") else "an argument"
        if arg.startswith("--") and arg.endswith("="):
            option, arg = arg[:-1], ""
        if not arg:
            raise UserError(f"{option} is empty; pass a value, or leave it out")


def run(functions: Mapping[str, Callable[..., Any]], args: Sequence[str]) -> None:
    """Run the command that `args` names.

    Its errors name this command and suggest its options alone, because only its own parser reads the arguments.
    """
    config = (tyro.conf.DisallowNone,)
    if args and (function := functions.get(args[0])):
        tyro.cli(function, prog=f"envgen {args[0]}", args=args[1:], config=config)
    else:
        tyro.extras.subcommand_cli_from_dict(
            dict(functions), prog="envgen", description=DESCRIPTION, args=args, config=config
        )


def fail(message: str) -> NoReturn:
    print(f"envgen: {message}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # whoever started the command has closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    args = sys.argv[1:]
    if shutil.get_terminal_size().columns < MIN_COLUMNS:
        os.environ["COLUMNS"] = str(MIN_COLUMNS)
    if args == ["--version"]:
        print(f"envgen {__version__}")
        return
    if isinstance(sys.stdout, io.TextIOWrapper):  # tables have characters that not every encoding has
        sys.stdout.reconfigure(errors="replace")
    run_args: list[str] = []
    try:
        check_current_folder()
        search_current_folder()
        check_no_empty(args)
        if args[:1] == ["sweep"]:
            own_args, run_args = split_args(args[1:])
            args = ["sweep", *own_args]
        run(commands(args, run_args), args)
        sys.stdout.flush()
    except EnvgenError as error:
        if os.environ.get("ENVGEN_DEBUG"):
            traceback.print_exc()
        fail(printable(str(error), keep=NEWLINE))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:  # a full disk, or a path that no command expects, such as a name that is too long
        if error.strerror is None or os.environ.get("ENVGEN_DEBUG"):
            raise
        place = "" if error.filename is None else f"{error.filename}: "
        fail(printable(f"{place}{error.strerror}"))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or os.environ.get("ENVGEN_DEBUG"):
            raise
        detail = str(error).partition("\n")[0]
        fail(printable(f"out of memory: {detail}" if detail else "out of memory"))
