"""A window where one can be opened, otherwise the terminal."""

import sys
from collections.abc import Callable


def run_front_end(
    in_window: Callable[[], None], in_terminal: Callable[[], None], terminal: bool, fallback: str
) -> None:
    """Run the window, or the terminal if `terminal` is set or no window can be opened. Ctrl-C quits either.

    Args:
        fallback: What follows the reason why no window can be opened, such as "using the terminal instead".
    """
    from .window import WindowUnavailable

    try:
        if not terminal:
            try:
                in_window()
                return
            except WindowUnavailable as error:
                print(f"{error}; {fallback}", file=sys.stderr)
        in_terminal()
    except KeyboardInterrupt:
        print(file=sys.stderr)
