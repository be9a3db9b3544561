"""What tools/docs_site.py adds to the documentation site; test_readme.py builds the site."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import envgen
from scripts import imported_script

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[1]
WITHOUT_DOCSTRINGS = ("Inventory", "Vitals", "HeldKeys", "OpenDoors")  # whose fields are shown nevertheless


@pytest.fixture(scope="module")
def site():
    with imported_script(ROOT / "tools" / "docs_site.py") as module:
        yield module


def documented(path: str):
    """A module, class or function from its path."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def public_classes(path: str):
    found = documented(path)
    members = vars(found).values() if inspect.ismodule(found) else [found]
    return [
        member
        for member in members
        if inspect.isclass(member)
        and not member.__name__.startswith("_")
        and (member is found or member.__module__ == found.__name__)
    ]


def undocumented_fields(cls: type) -> list[str]:
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body[0].body
    described = re.findall(r"^ *(\w+): ", cls.__doc__.partition("Attributes:")[2], re.MULTILINE)
    fields = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            has_docstring = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if not has_docstring and node.target.id not in described:
                fields.append(f"{cls.__qualname__}.{node.target.id}")
    return fields


def test_every_field_of_the_reference_has_a_docstring(site):
    """The reference leaves out what has none."""
    classes = {cls for *_, paths in site.REFERENCE.values() for path in paths for cls in public_classes(path)}
    assert len(classes) > 80
    missing = [field for cls in classes if cls.__name__ not in WITHOUT_DOCSTRINGS for field in undocumented_fields(cls)]
    assert sorted(missing) == []


def test_the_reference_has_the_whole_public_api(site):
    objects = [documented(path) for *_, paths in site.REFERENCE.values() for path in paths]
    classes = {cls for *_, paths in site.REFERENCE.values() for path in paths for cls in public_classes(path)}
    for name in envgen.__all__:
        public = getattr(envgen, name)
        assert any(public is found for found in objects) or public in classes, name


def test_the_command_line_page_has_every_command_with_its_options(site):
    page = site._command_line_page()
    for command in site.commands(()):
        assert f"[`envgen {command}`](#envgen-{command})" in page
        section = page.partition(f"## envgen {command}\n")[2].partition("\n## ")[0]
        assert section.count("```text") == 2
        assert f"usage: envgen {command}" in section
        assert "-h, --help" in section
