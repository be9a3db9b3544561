"""Worlds by name: this project's own, those of installed packages (entry points), and `module:Class`."""

import inspect
import warnings
from importlib import metadata
from typing import Any

from envgen.errors import EnvgenError, describe_exception
from envgen.imports import ImportPathError, import_object
from envgen.settings import format_choice_error

from .world import World

ENTRY_POINT_GROUP = "envgen.worlds"
BUILTIN_WORLDS = {
    "crafter": "envgen.worlds.crafter.world:Crafter",
    "heist": "envgen.worlds.heist.world:Heist",
    "minigrid": "envgen.worlds.minigrid.world:MiniGrid",
    "walker": "envgen.worlds.walker.world:Walker",
}


class WorldError(EnvgenError, ValueError):
    """A world that cannot be found or loaded."""


def world_names() -> list[str]:
    """The names of all worlds: this project's, then those of installed packages."""
    return [*BUILTIN_WORLDS, *sorted(_entry_points())]


def make_world(world: "str | World | type[World]") -> World:
    """A world from its name, `"module:Class"`, a World class or a World.

    A package makes its world available by name with an entry point of the group `envgen.worlds`:

        [project.entry-points."envgen.worlds"]
        gridworld = "my_package.gridworld:GridWorld"

    Args:
        world: The name of a world, which `envgen worlds` lists, such as `"crafter"`. `"module:Class"` names a world of
            your own.

    Raises:
        WorldError: There is no such world, or it cannot be imported.
    """
    if isinstance(world, World):
        return world
    if not isinstance(world, str):
        return _instantiate(world, f"{world!r}")
    if world in BUILTIN_WORLDS:
        return _instantiate(_import(BUILTIN_WORLDS[world]), world)
    if ":" in world:
        return _instantiate(_import(world), world)
    entry_points = _entry_points()
    if world not in entry_points:
        raise WorldError(
            f"world {format_choice_error(world, world_names())}; a world of your own is given as module:Class"
        )
    entry_point = entry_points[world]
    try:
        return _instantiate(entry_point.load(), f"{world} ({entry_point.value})")
    except WorldError:
        raise
    except Exception as error:
        raise WorldError(
            f"cannot load the world {world!r} from {entry_point.value}: {describe_exception(error)}"
        ) from error


def _entry_points() -> dict[str, metadata.EntryPoint]:
    """The entry points of installed packages by name, without importing them."""
    entry_points: dict[str, metadata.EntryPoint] = {}
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        problem = ""
        if entry_point.name in BUILTIN_WORLDS:
            problem = "this name belongs to envgen"
        elif entry_point.name in entry_points and entry_points[entry_point.name].value != entry_point.value:
            problem = f"{entry_points[entry_point.name].value} has the same name"
        elif not entry_point.attr:
            problem = "it does not have the form module:Class"
        if problem:
            warnings.warn(
                f"ignoring the entry point {entry_point.name} = {entry_point.value} of {ENTRY_POINT_GROUP}: {problem}",
                RuntimeWarning,
                stacklevel=3,
            )
        else:
            entry_points[entry_point.name] = entry_point
    return entry_points


def _import(path: str) -> Any:
    try:
        return import_object(path, World)
    except ImportPathError as error:
        raise WorldError(f"cannot import the world {path!r}: {error}") from error.__cause__


def _instantiate(world: Any, name: str) -> World:
    if isinstance(world, World):
        return world
    if not inspect.isclass(world) or not issubclass(world, World):
        raise WorldError(f"{name} is not a subclass of envgen.worlds.world.World")
    try:
        return world()
    except TypeError as error:
        raise WorldError(
            f"the world {name} cannot be created: {error}; it needs all abstract methods of World and a constructor "
            "without arguments"
        ) from error
