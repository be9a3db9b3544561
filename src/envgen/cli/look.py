"""`envgen census`, `preview`, `play`: a world and its levels without any agent."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from envgen.worlds.world import LevelError

from .common import UserError, check_counts, read_level, world_named, writable


def census(level: Annotated[Path | None, Positional] = None, world: str = "crafter", worlds: int = 32) -> None:
    """Count what worlds of a level hold.

    Args:
        level: A JSON file with a level; the original if left out.
        world: The level's family.
        worlds: How many worlds to make.
    """
    check_counts(worlds=worlds)
    chosen = world_named(world)
    print(chosen.level_stats(read_level(level, chosen), range(worlds)))


def preview(
    level: Annotated[Path | None, Positional] = None,
    world: str = "crafter",
    out: Path = Path("preview.png"),
    worlds: int = 4,
) -> None:
    """Draw worlds of a level from above, and count what they hold.

    Args:
        level: A JSON file with a level; the original if left out.
        world: The level's family.
        out: The picture to write.
        worlds: How many worlds to draw.
    """
    check_counts(worlds=worlds)
    chosen = world_named(world)
    setting, out = read_level(level, chosen), writable(out)
    chosen.render_levels({f"seed {k}": setting for k in range(worlds)}, columns=min(4, worlds)).save(out)
    print(f"{worlds} worlds: {out}")
    census(level, world)


def play(
    world: Annotated[str, Positional] = "crafter",
    level: Path | None = None,
    seed: int = 0,
    terminal: bool = False,
) -> None:
    """Play a world yourself, in a window or in the terminal.

    Args:
        world: Which world.
        level: A JSON file with a level; the original if left out.
        seed: Of the world.
        terminal: Play in the terminal although there could be a window.
    """
    from envgen.play import PlayError
    from envgen.play import play as begin

    chosen = world_named(world)
    try:
        begin(chosen, read_level(level, chosen), seed, terminal)
    except (PlayError, LevelError) as error:
        raise UserError(str(error)) from None
