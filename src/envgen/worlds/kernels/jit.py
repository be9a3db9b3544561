"""`jit`: the one way a function of a world is compiled, and `jit_reordered` for what has no reference.

numba keeps compiled code on disk but does not notice when a function that another one *calls* has changed in its own
file. So the cache of a world lives in a folder named by a hash of all its sources and of what worlds share: touch one,
and all of it is compiled again. Functions of no world have a folder of their own, named by what worlds share.
A cache that cannot be written is never an error, only a slower start.

Not here: `parallel=True`. Kernels are serial over a range [lo, hi) and release the GIL; `shards.py` spreads them.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numba
from numba.core import config

SETTINGS = config.__dict__  # numba's own, by name
WORLDS = Path(__file__).resolve().parents[1]
SHARED = "kernels"  # this folder
ROOM_TO_WRITE = 64 << 20  # bytes; less free space than this counts as a full disk
KEPT_VERSIONS = 4  # folders of sources that are kept of each world
REORDER = {"reassoc", "contract", "nsz"}  # LLVM may sum in vectors, and multiply and add in one instruction


def world_of(function: Callable) -> str:
    """The folder of the world that a function belongs to; empty for what worlds share and for everything else."""
    file = Path(function.__code__.co_filename).resolve()
    inside = file.relative_to(WORLDS).parts if file.is_relative_to(WORLDS) else ()
    return inside[0] if len(inside) > 1 and inside[0] != SHARED else ""


def source_hash(world: str = "") -> str:
    """Names everything that compiled code of a world depends on and numba's own cache key does not see.

    Every file counts: constants are frozen into the kernels that use them. A world never uses another one's.
    """
    digest = hashlib.sha256(f"{numba.__version__} {SETTINGS['BOUNDSCHECK']} {SETTINGS['OPT']}".encode())
    folders = (SHARED, world) if world else (SHARED,)
    files = [*WORLDS.glob("*.py"), *(file for folder in folders for file in (WORLDS / folder).rglob("*.py"))]
    for file in sorted(files):
        digest.update(file.relative_to(WORLDS).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def cache_home() -> Path:
    if given := os.environ.get("ENVGEN_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envgen"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
        return shutil.disk_usage(folder).free > ROOM_TO_WRITE
    except OSError:
        return False


def _forget_old(home: Path) -> None:
    def last_used(folder: Path) -> float:
        try:
            return folder.stat().st_mtime
        except OSError:  # another process was faster
            return 0.0

    for folder in sorted(home.iterdir(), key=last_used, reverse=True)[KEPT_VERSIONS:]:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def cache_folder(world: str = "") -> Path | None:
    """Where a world's compiled kernels are kept, or those of none; a temporary folder if the usual one cannot be
    written; None if nothing can."""
    name = source_hash(world)
    home = cache_home() / (f"kernels-{world}" if world else "kernels")
    if _writable(home / name):
        os.utime(home / name)
        _forget_old(home)
        return home / name
    spare = Path(tempfile.gettempdir()) / f"envgen-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}" / name
    usable = _writable(spare)
    where = f"using {spare}" if usable else "compiled code will not be kept"
    warnings.warn(
        f"envgen cannot write its cache {home} (read-only or full); {where}. Set ENVGEN_CACHE to a folder with room.",
        RuntimeWarning,
        stacklevel=2,
    )
    return spare if usable else None


def jit(function):
    """Compile `function` in no-Python mode, without the GIL, with IEEE arithmetic, cached on disk."""
    return _compiled(function)


def jit_reordered(function):
    """As `jit`, but sums of floats may be taken in any order, and so with whole vectors of the processor: for what need
    not equal a reference bit for bit.

    Inlined where it is called: of several compiled copies of a function each may have chosen an order, and which one
    runs would depend on what was compiled and what was found on disk. What lies there does not tell which of the two
    decorators made it: a function has only one.
    """
    return _compiled(function, fastmath=REORDER, inline="always")


def _compiled(function, **special):
    options = {"nogil": True, "error_model": "numpy", **special}
    folder = cache_folder(world_of(function))
    if folder is None:
        return numba.njit(**options)(function)
    before, SETTINGS["CACHE_DIR"] = SETTINGS["CACHE_DIR"], str(folder)
    try:  # the folder is read once, when the function is decorated
        compiled = numba.njit(cache=True, **options)(function)
    finally:
        SETTINGS["CACHE_DIR"] = before
    _forgive(compiled)
    return compiled


def _forgive(compiled) -> None:
    """A disk that fills up while compiling must cost the cache, not the program."""
    store = getattr(compiled, "_cache", None)
    if store is None:
        return
    save = store.save_overload

    def save_if_possible(sig, data):
        try:
            save(sig, data)
        except OSError as error:
            store.disable()
            _say_once(f"envgen could not keep compiled code in {cache_folder()}: {error}")

    store.save_overload = save_if_possible


@cache
def _say_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


@contextmanager
def compiling(engine: str, seconds: int):
    """Around an engine's first run: says on the terminal that it is compiled, unless the cache holds it already.

    The world's folder is the engine's name in small letters.
    """
    folder = cache_folder(engine.lower())
    done = folder / f"{engine}.compiled" if folder else None
    if done is None or not done.exists():
        print(f"envgen: compiling {engine}'s engine, once for this machine (about {seconds} s) ...", file=sys.stderr)
    yield
    if done is not None:
        with suppress(OSError):  # a full disk: the line is said again next time, no more
            done.touch()
