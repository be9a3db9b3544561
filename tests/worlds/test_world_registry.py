"""Worlds are found by name, entry point and import path; a broken one does not affect the others."""

from importlib import metadata

import pytest
from line_world import LineWorld

from envgen.worlds import registry
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.registry import WorldError, make_world, world_names
from envgen.worlds.world import World


def install(monkeypatch, **values: str) -> None:
    """Pretend that packages with these entry points are installed."""
    entry_points = [
        metadata.EntryPoint(name.rstrip("_"), value, registry.ENTRY_POINT_GROUP) for name, value in values.items()
    ]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: entry_points)


@pytest.mark.parametrize("world", ["crafter", "envgen.worlds.crafter.world:Crafter", Crafter, Crafter()])
def test_own_world_by_name_path_class_or_instance(world):
    assert isinstance(make_world(world), Crafter)


def test_installed_world_is_found_by_name(monkeypatch):
    install(monkeypatch, line="line_world:LineWorld")
    assert world_names() == ["crafter", "heist", "minigrid", "walker", "line"]
    assert isinstance(make_world("line"), LineWorld)


def test_broken_entry_point_does_not_affect_other_worlds(monkeypatch):
    install(monkeypatch, broken="no_such_module:World", line="line_world:LineWorld")
    assert world_names() == ["crafter", "heist", "minigrid", "walker", "broken", "line"]
    assert isinstance(make_world("line"), LineWorld)
    assert isinstance(make_world("crafter"), Crafter)
    with pytest.raises(
        WorldError, match="cannot load the world 'broken' from no_such_module:World: ModuleNotFoundError"
    ):
        make_world("broken")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"crafter": "line_world:LineWorld"}, "this name belongs to envgen"),
        ({"line": "line_world"}, "it does not have the form module:Class"),
        ({"line": "line_world:LineWorld", "line_": "other:World"}, "line_world:LineWorld has the same name"),
    ],
)
def test_invalid_entry_point_is_ignored_with_a_warning(monkeypatch, values, problem):
    install(monkeypatch, **values)
    with pytest.warns(RuntimeWarning, match=problem):
        world_names()


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ("crafte", "'crafte' is not one of crafter, heist, minigrid, walker; did you mean 'crafter'"),
        ("no_such_module:World", "cannot import the world 'no_such_module:World': there is no module 'no_such_module'"),
        ("line_world:LineWord", "line_world has no 'LineWord'; it has LineWorld"),
        ("json:dumps", "not a subclass of envgen.worlds.world.World"),
        (int, "not a subclass"),
        (World, "cannot be created.*abstract methods of World and a constructor without arguments"),
    ],
)
def test_unknown_worlds_are_refused(world, message):
    with pytest.raises(WorldError, match=message):
        make_world(world)


def test_the_worlds_of_a_module_are_listed_without_base_classes(tmp_path, monkeypatch):
    lines = ["from envgen.worlds.python_world import PythonWorld", "import line_world",
             "class MyWorld(line_world.LineWorld): pass", "world = MyWorld()"]  # fmt: skip
    (tmp_path / "my_two_worlds.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WorldError, match=r"my_two_worlds has no 'word'; it has MyWorld, world$"):
        make_world("my_two_worlds:word")
