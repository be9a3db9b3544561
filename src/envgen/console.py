"""What commands and functions of the API print while they run."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from envgen.processes import is_main_process
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
