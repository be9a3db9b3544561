"""What commands and functions of the API print while they run."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from envgen.text import printable

if TYPE_CHECKING:
    from rich.console import Console


def terminal(verbose: bool) -> "tuple[Console, Callable[[str], None]]":
    """A console and a function that prints a line on it. Only the main process of several prints."""
    from envgen.runs.display import TerminalConsole

    console = TerminalConsole(quiet=not (verbose and is_main_process()), soft_wrap=True)

    def log(text: str) -> None:
        console.print(printable(text, keep="\n"), markup=False, highlight=False)

    return console, log


def is_main_process() -> bool:
    """Whether this is the main one of the processes that `torchrun` started, or the only process."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"
