"""The order of imports that CONTRIBUTING.md describes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "envgen"
LAZY = {("report", "api")}  # imported when a function is called
FORBIDDEN = {("designers", "agents"), ("coevolution", "agents"), ("coevolution", "worlds")}


@pytest.fixture(scope="module")
def order() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    start = text.index("A package or module imports only from those before it")
    return re.findall(r"`(\w+)`", text[start : text.index(". Designers never", start)])


def imported_names(file: Path) -> Iterator[str]:
    """The packages and modules at the top of envgen that a file imports."""
    depth = len(file.relative_to(SRC).parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("envgen."))
        elif isinstance(node, ast.ImportFrom) and node.level in (0, depth):
            module = f"envgen.{node.module}" if node.level else str(node.module)  # `from .errors import ...` at the top
            if module == "envgen":
                yield from (alias.name for alias in node.names if not alias.name.startswith("__"))
            elif module.startswith("envgen."):
                yield module.split(".")[1]


def test_the_order_names_every_package_and_module(order):
    names = {path.stem for path in SRC.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(order) == sorted(names - {"__init__", "__main__"})


def test_imports_follow_the_order(order):
    seen = set()
    for file in SRC.rglob("*.py"):
        package = file.relative_to(SRC).parts[0].removesuffix(".py")
        if package in order:
            seen |= {(package, name) for name in imported_names(file) if name != package}
    assert {("api", "worlds"), ("jit", "interrupts")} <= seen
    assert {(package, name) for package, name in seen if order.index(name) > order.index(package)} == LAZY
    assert not seen & FORBIDDEN
