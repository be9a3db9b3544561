"""`jit`: the one way a function of a world is compiled, and `jit_reordered` for what has no reference.

numba keeps compiled code on disk but does not notice when a function that another one *calls* has changed in its own
file. So the cache of a world lives in a folder named by a hash of all its sources and of what worlds share: touch one,
and all of it is compiled again. Functions of no world have a folder of their own, named by what worlds share.
A cache that cannot be written is never an error, only a slower start.

numba's cache files are pickles, so whoever can write to the cache can run code as its reader. A folder that another
user owns or can write to is therefore not used.

Not here: `parallel=True`. Kernels are serial over a range [lo, hi) and release the GIL; `shards.py` spreads them.
"""

import atexit
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numba
from numba.core import config

NUMBA_CONFIG = config.__dict__  # numba's own, by name
WORLDS_DIR = Path(__file__).resolve().parent / "worlds"
SHARED_DIR = "kernels"  # the folder of what worlds share
MIN_FREE_BYTES = 64 << 20  # bytes; less free space than this counts as a full disk
NUM_VERSIONS_KEPT = 4  # folders of sources that are kept of each world
FASTMATH_FLAGS = {"reassoc", "contract", "nsz"}  # LLVM may sum in vectors, and multiply and add in one instruction


def world_folder(function: Callable) -> str:
    """The folder of the world that a function belongs to; empty for what worlds share and for everything else."""
    file = Path(function.__code__.co_filename).resolve()
    inside = file.relative_to(WORLDS_DIR).parts if file.is_relative_to(WORLDS_DIR) else ()
    return inside[0] if len(inside) > 1 and inside[0] != SHARED_DIR else ""


def source_hash(world: str = "") -> str:
    """Names everything that compiled code of a world depends on and numba's own cache key does not see.

    Every file counts: constants are frozen into the kernels that use them. A world never uses another one's.
    """
    digest = hashlib.sha256(f"{numba.__version__} {NUMBA_CONFIG['BOUNDSCHECK']} {NUMBA_CONFIG['OPT']}".encode())
    folders = (SHARED_DIR, world) if world else (SHARED_DIR,)
    files = [
        Path(__file__).resolve(),
        *WORLDS_DIR.glob("*.py"),
        *(file for folder in folders for file in (WORLDS_DIR / folder).rglob("*.py")),
    ]
    for file in sorted(files):
        digest.update(file.relative_to(WORLDS_DIR.parent).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def cache_dir() -> Path:
    if given := os.environ.get("ENVGEN_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envgen"


def _writable(folder: Path) -> bool:
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
        return shutil.disk_usage(folder).free > MIN_FREE_BYTES
    except OSError:
        return False


def _find_problem(folders: Sequence[Path], private: bool = False) -> str:
    """Why the last of these folders, each inside the one before, cannot be used; empty if it can. Creates what is
    missing."""
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat() if private else folder.stat()
        except OSError:
            return "it is read-only or full"
        if danger := _find_danger(found, private, shared=folder is not folders[-1]):
            return f"{folder} {danger}"
    return "" if _writable(folders[-1]) else "it is read-only or full"


def _find_danger(found: os.stat_result, private: bool, shared: bool) -> str:
    """How another user could put files into a folder; empty if none can.

    A private folder must be a real directory, our own and closed to everyone else. Another folder may also be root's,
    and one in which only subfolders are `shared` with others may have the sticky bit, as /tmp has.
    """
    if not hasattr(os, "getuid"):  # Windows, where home and temporary folders are each user's own
        return ""
    mode, user = found.st_mode, os.getuid()
    if not stat.S_ISDIR(mode):
        return "is not a directory"
    if found.st_uid not in ((user,) if private else (user, 0)):
        return "is owned by another user"
    if private:
        return "is open to other users" if mode & 0o077 else ""
    if shared and mode & stat.S_ISVTX:
        return ""
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_own_group(found.st_gid)):
        return "can be written by other users"
    return ""


def _is_own_group(group: int) -> bool:
    """Whether a group has no other member, as each user's own group on systems whose umask is 002."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user and set(found.gr_mem) <= {user}


@cache
def _temporary_folder() -> Path | None:
    """A new folder that only this user can open, removed at exit."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="envgen-kernels-"))
    except OSError:
        return None
    maker = os.getpid()

    def remove() -> None:
        if os.getpid() == maker:  # a forked process inherits this handler but not the folder
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _remove_old_versions(home: Path) -> None:
    def last_used(folder: Path) -> float:
        try:
            return folder.stat().st_mtime
        except OSError:  # another process was faster
            return 0.0

    for folder in sorted(home.iterdir(), key=last_used, reverse=True)[NUM_VERSIONS_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def cache_folder(world: str = "") -> Path | None:
    """Where a world's compiled kernels are kept, or those of none; a temporary folder if the usual one cannot be
    written or is not safe; None if nothing can."""
    name = source_hash(world)
    top = Path(os.path.realpath(cache_dir()))  # a link could be changed after the check
    home = top / (f"kernels-{world}" if world else "kernels")
    problem = _find_problem([top, home, home / name])
    if not problem:
        os.utime(home / name)
        _remove_old_versions(home)
        return home / name
    spare = _fallback_folder(name)
    where = f"using {spare}" if spare else "compiled code will not be kept"
    warnings.warn(
        f"envgen cannot use its cache {home}: {problem}; {where}. "
        "Set ENVGEN_CACHE to a folder with room that other users cannot write.",
        RuntimeWarning,
        stacklevel=2,
    )
    return spare


def _fallback_folder(name: str) -> Path | None:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        parent = Path(tempfile.gettempdir()) / f"envgen-kernels-{user}"
    except OSError:  # no temporary folder can be written
        return None
    if not _find_problem([parent, parent / name], private=True):
        return parent / name
    fresh = _temporary_folder()
    if fresh is None or _find_problem([fresh, fresh / name], private=True):
        return None
    return fresh / name


def jit(function):
    """Compile `function` in no-Python mode, without the GIL, with IEEE arithmetic, cached on disk."""
    return _compile(function)


def jit_fastmath(function):
    """As `jit`, but sums of floats may be taken in any order, and so with whole vectors of the processor: for what need
    not equal a reference bit for bit.

    Inlined where it is called: of several compiled copies of a function each may have chosen an order, and which one
    runs would depend on what was compiled and what was found on disk. What lies there does not tell which of the two
    decorators made it: a function has only one.
    """
    return _compile(function, fastmath=FASTMATH_FLAGS, inline="always")


def _compile(function, **special):
    options = {"nogil": True, "error_model": "numpy", **special}
    folder = cache_folder(world_folder(function))
    if folder is None:
        return numba.njit(**options)(function)
    before, NUMBA_CONFIG["CACHE_DIR"] = NUMBA_CONFIG["CACHE_DIR"], str(folder)
    try:  # the folder is read once, when the function is decorated
        compiled = numba.njit(cache=True, **options)(function)
    finally:
        NUMBA_CONFIG["CACHE_DIR"] = before
    _tolerate_cache_errors(compiled)
    return compiled


def _tolerate_cache_errors(compiled) -> None:
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
            _warn_once(f"envgen could not keep compiled code in {cache_folder()}: {error}")

    store.save_overload = save_if_possible


@cache
def _warn_once(message: str) -> None:
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
