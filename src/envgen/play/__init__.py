"""Playing a world by hand, in a window or in the terminal, through nothing but the contract of worlds."""

import sys
from typing import Any

from envgen.worlds.world import World

from .game import PlayError

__all__ = ["PlayError", "play"]


def play(world: World, level: Any = None, seed: int | None = None, terminal: bool = False) -> None:
    """Play one environment of `world` until the player leaves it.

    In a window, or in the terminal if `terminal` or if there can be no window. Ctrl-C leaves too, and is no error.
    """
    from . import terminal as words  # the front ends import what only they need
    from . import window

    try:
        if not terminal:
            try:
                window.play(world, level, seed)
                return
            except window.NoWindow as reason:
                print(f"{reason}; this is the game in the terminal", file=sys.stderr)
        words.play(world, level, seed)
    except KeyboardInterrupt:
        print(file=sys.stderr)
