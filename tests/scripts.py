"""Import scripts that are not in a package: those of benchmarks/ and tools/."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def imported_script(path: Path) -> Iterator[ModuleType]:
    """The module of a script. It can be imported by name until the end of the context."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))  # as in `python path`: scripts import each other
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(path.parent))
        del sys.modules[path.stem]
