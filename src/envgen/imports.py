"""Optional extras, and worlds, designers, learners and domains outside this project, given as `module:Class`."""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from .errors import EnvgenError, describe_exception

EXTRAS = {  # packages that an optional extra of this project installs
    "train": ("torch", "safetensors", "rich", "matplotlib"),
    "studio": ("torch", "safetensors", "rich", "matplotlib"),
    "slurm": ("submitit",),
    "ray": ("ray",),
    "lora": ("peft",),
    "genenv": ("torch", "safetensors", "rich", "matplotlib", "transformers", "tokenizers", "accelerate"),
}


class MissingExtraError(EnvgenError, ImportError):
    """A package of an optional extra is not installed; the message says how to install it."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it. The current directory may hold a folder of its name."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None  # such a folder is found, too, but has no origin


def require_extra(extra: str, what: str) -> None:
    """Raise MissingExtraError if a package of an extra is missing, without importing any.

    Args:
        what: What needs it, for the message.
    """
    for library in EXTRAS[extra]:
        if not is_installed(library):
            raise MissingExtraError(f"{what} needs {library}: pip install 'envgen[{extra}]'")


class ImportPathError(EnvgenError, ValueError):
    """There is no such module, it has no such attribute, or importing it raised the exception in `__cause__`."""


def import_object(path: str, base: type) -> Any:
    """The object at `module:attribute`. The current directory is searched last, also if it is not in `sys.path`.

    Raises ImportPathError, whatever goes wrong.

    Args:
        path: An import path such as `my_package.my_module:MyClass`.
        base: If there is no such attribute, the error lists the subclasses of this class in the module.
    """
    module_name, _, attribute = path.partition(":")
    try:
        with _current_folder_searched():
            module = import_module(module_name)
    except Exception as error:  # whatever the module raises while it is imported
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise ImportPathError(f"there is no module {module_name!r} (check the spelling and PYTHONPATH)") from None
        raise ImportPathError(describe_exception(error)) from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        names = [
            name for name, value in vars(module).items() if isinstance(value, base) or _is_own(value, module, base)
        ]
        hint = f"; it has {', '.join(names)}" if names else ""
        raise ImportPathError(f"{module_name} has no {attribute!r}{hint}") from None


@contextmanager
def _current_folder_searched() -> Iterator[None]:
    """Import modules from the current directory as well. Afterwards, `sys.path` is as before: it is the caller's."""
    try:
        folder = os.getcwd()  # a new object, which tells this entry from an equal one, also of another thread
    except OSError:  # it has been deleted
        folder = None
    if folder is not None:
        sys.path.append(folder)
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in sys.path if entry is not folder]


def _is_own(value: Any, module: ModuleType, base: type) -> bool:
    """Whether a value is a concrete subclass of `base`, and not one of envgen's that the module imports."""
    is_imported = getattr(value, "__module__", "").startswith("envgen.") and not module.__name__.startswith("envgen.")
    return is_concrete_subclass(value, base) and not is_imported


def is_concrete_subclass(value: Any, base: type) -> bool:
    """Whether `value` is a subclass of `base` without abstract methods."""
    return inspect.isclass(value) and issubclass(value, base) and value is not base and not inspect.isabstract(value)
