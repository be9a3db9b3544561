"""Play a world by hand, in a window or in the terminal. It uses only the contract of worlds."""

from typing import Any

from envgen.worlds.world import World

from .front_end import run_front_end
from .session import PlayError, check_playable

__all__ = ["PlayError", "play"]


def play(world: World, level: Any = None, seed: int | None = None, terminal: bool = False) -> None:
    """Play one environment of `world` until the player quits.

    Opens a window, or plays in the terminal if `terminal` is set or no window can be opened. Ctrl-C quits too.
    """
    from envgen.play.terminal import play_in_terminal  # each front end imports what only it needs
    from envgen.play.window import play_in_window

    check_playable(world, world.key_bindings)  # before a window opens
    run_front_end(
        lambda: play_in_window(world, level, seed),
        lambda: play_in_terminal(world, level, seed),
        terminal,
        "playing in the terminal instead",
    )
