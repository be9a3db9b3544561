"""`envgen new`: packages to start from."""

import keyword
import re
import shutil
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated, Literal

from tyro.conf import Positional

from envgen import __version__
from envgen.worlds.registry import world_names

from .common import UserError
from .options import default, required

FILES = {  # where the templates of a world go in its package
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "__init__.py": "src/{package}/__init__.py",
    "world.py": "src/{package}/world.py",
    "test_world.py": "tests/test_{package}_world.py",
}


def new(
    kind: Annotated[Literal["world"], Positional, required("world")],
    name: Annotated[str, Positional, required("NAME")],
    folder: Annotated[Path | None, default("NAME")] = None,
) -> None:
    """Create a package for a world of your own: a small working example with tests.

    Args:
        kind: What to create; world is the only kind so far.
        name: The name of the world, such as coin-grid.
        folder: The folder to create.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UserError(f"the name {name!r} must be lowercase words with hyphens between them, such as coin-grid")
    if name in world_names():
        raise UserError(f"there is already a world {name!r}; choose another name")
    package = name.replace("-", "_")
    title = "".join(word.capitalize() for word in name.split("-"))
    if keyword.iskeyword(package) or keyword.iskeyword(title) or find_spec(package) is not None:
        raise UserError(f"the name {name!r} is taken by a Python keyword or an installed package; choose another name")
    values = {"name": name, "package": package, "title": title, "version": __version__}
    folder, written = folder or Path(name), list[Path]()
    try:
        folder.mkdir(parents=True)
        try:
            for template, target in FILES.items():
                text = files("envgen").joinpath(f"templates/{kind}/{template}.template").read_text("utf-8")
                written.append(folder / target.format(package=package))
                written[-1].parent.mkdir(parents=True, exist_ok=True)
                written[-1].write_text(Template(text).substitute(values), "utf-8")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # so that the command can be repeated
            raise
    except FileExistsError:
        raise UserError(f"{folder} already exists; choose another folder with --folder") from None
    except OSError as error:
        raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from None
    for file in written:
        print(f"Written: {file}")
    print(f"Next: pip install -e {folder}, then envgen train {name}")
