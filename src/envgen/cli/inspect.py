"""Commands that need no training: `stats`, `preview`, `play`, `worlds` and `designers`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from envgen.text import plural, printable
from envgen.worlds.registry import WorldError, make_world, world_names

from .common import UserError, prepare_png, read_level, require_positive, require_seed, write_png
from .options import NONE, default, flag

MAX_PREVIEWS = 64


def stats(
    level: Annotated[Path | None, Positional, default("the original", "[LEVEL]")] = None,
    world: str = "crafter",
    seeds: int = 32,
) -> None:
    """Print statistics of the environments that a level generates: what they contain, and how often.

    Args:
        level: A JSON file with a level.
        world: The world of the level.
        seeds: Number of environments to generate.
    """
    require_positive(seeds=seeds)
    chosen = make_world(world)
    print(chosen.level_stats(read_level(level, chosen), range(seeds)))


def preview(
    level: Annotated[Path | None, Positional, default("the original", "[LEVEL]")] = None,
    world: str = "crafter",
    out: Path = Path("preview.png"),
    seeds: int = 4,
) -> None:
    """Draw environments of a level from above, and print the statistics of the level as `envgen stats` does.

    Args:
        level: A JSON file with a level.
        world: The world of the level.
        out: The PNG file to write.
        seeds: Number of environments to draw.
    """
    require_positive(seeds=seeds)
    if seeds > MAX_PREVIEWS:
        raise UserError(f"--seeds must be at most {MAX_PREVIEWS}, not {seeds}: all are drawn into {out}")
    chosen = make_world(world)
    parsed, image_file = read_level(level, chosen), prepare_png(out)
    images = chosen.render_levels({f"seed {seed}": parsed for seed in range(seeds)}, columns=min(4, seeds))
    write_png(images, image_file)
    print(f"{plural(seeds, 'environment')}: {image_file}")
    stats(level, world)


def play(
    world: Annotated[str, Positional, default("crafter", "[WORLD]")] = "crafter",
    level: Annotated[Path | None, default("the original")] = None,
    seed: int = 0,
    terminal: bool = False,
) -> None:
    """Play a world yourself, in a window or in the terminal.

    The keys are listed at the start. In the terminal, piped input is one line of keys, such as `right right space`,
    which are played before the last screen is printed.

    Args:
        world: The world to play.
        level: A JSON file with a level.
        seed: Seed of the environment.
        terminal: Play in the terminal, even where a window could open.
    """
    from envgen.play import play as play_world

    require_seed(seed)
    chosen = make_world(world)
    play_world(chosen, read_level(level, chosen), seed, terminal)


def worlds() -> None:
    """List the worlds, with what an agent can observe and learn in each."""
    for name in world_names():
        try:
            world = make_world(name)
        except WorldError as error:  # a broken package does not hide the other worlds
            print(f"{name}: {printable(str(error))}")
            continue
        actions = f"{len(world.actions)} actions" if world.actions else "continuous actions"
        print(f"{name}: {actions}, {len(world.skills)} skills")
        print(f"  observations: {', '.join(world.observations)}")
        print(f"  level settings: {', '.join(world.Level.model_fields)}")
        print(f"  skills: {', '.join(skill.name for skill in world.skills)}")


def designers() -> None:
    """List the designers, with the settings of each."""
    from envgen.designers.registry import designer_descriptions, settings_class

    for name, description in designer_descriptions().items():
        print(f"{name}: {description}")
        settings = settings_class(name)
        for field_name, field in (settings.model_fields if settings else {}).items():
            option = flag(f"designer.{field_name}")
            default_value = NONE if field.default is None else field.default
            print(f"  {option} (default: {default_value})  {' '.join((field.description or '').split())}")
