"""Compile functions with numba: `jit`, and `jit_fastmath` where results need not equal a reference bit for bit.

numba caches compiled code on disk, but does not notice when a function that another one *calls* has changed in a
different file. So compiled code is cached in a folder named by a hash of all sources that it may depend on, its scope:
for a world, the files of the world and what all worlds share; for a package outside this project, the package and what
all worlds share. Change one of them, and the whole scope is compiled again. A cache that cannot be written is never an
error, only a slower start.

numba's cache files are pickles, so whoever can write to the cache can run code as its reader. A folder that another
user owns or can write to is therefore not used.

`parallel=True` is not used. Kernels are serial over a range [start, stop) and release the GIL;
`worlds/kernels/threaded_range.py` spreads them over threads.
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
from types import FrameType
from typing import Any

import numba
from llvmlite.binding import executionengine
from numba.core import config, types

from .interrupts import delay_interrupts

NUMBA_CONFIG = config.__dict__  # numba's settings by name
PROJECT_DIR = Path(__file__).resolve().parent
WORLDS_DIR = PROJECT_DIR / "worlds"
SHARED_DIR = "kernels"  # the folder that all worlds share
MIN_FREE_BYTES = 64 << 20  # with less free space the disk counts as full
NUM_VERSIONS_KEPT = 4  # versions of each scope's sources
NARROW_INTEGERS = {types.int8, types.int16, types.int32}
LLVM_CALLBACKS = "_raw_object_cache_notify", "_raw_object_cache_getbuffer"  # in llvmlite's execution engine
FASTMATH_FLAGS = {"reassoc", "contract", "nsz"}  # LLVM may reorder sums, and fuse multiplication and addition


def source_scope(file: str | Path) -> str:
    """The scope of a source file: the name of this project's world that it belongs to, or the path of the package
    outside this project; empty for what worlds share and for the rest of this project.

    A file outside of any package has its folder as scope.
    """
    path = Path(file).resolve()
    if path.is_relative_to(WORLDS_DIR):
        parts = path.relative_to(WORLDS_DIR).parts
        return parts[0] if len(parts) > 1 and parts[0] != SHARED_DIR else ""
    if path.is_relative_to(PROJECT_DIR) or not path.is_file():
        return ""
    folder = path.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return str(folder)


def function_scope(function: Callable) -> str:
    """The `source_scope` of the file that defines a function."""
    return source_scope(function.__code__.co_filename)


def source_hash(scope: str = "") -> str:
    """A name for everything that compiled code depends on and that numba's own cache key does not include.

    Every file counts: constants are frozen into the kernels that use them. Kernels of one world never use those of
    another.
    """
    digest = hashlib.sha256(f"{numba.__version__} {NUMBA_CONFIG['BOUNDSCHECK']} {NUMBA_CONFIG['OPT']}".encode())
    files = [Path(__file__).resolve(), *WORLDS_DIR.glob("*.py"), *(WORLDS_DIR / SHARED_DIR).rglob("*.py")]
    if os.path.isabs(scope):
        is_package = (Path(scope) / "__init__.py").is_file()
        files += Path(scope).rglob("*.py") if is_package else Path(scope).glob("*.py")
    elif scope:
        files += (WORLDS_DIR / scope).rglob("*.py")
    for file in sorted(files):
        name = file.relative_to(WORLDS_DIR.parent) if file.is_relative_to(WORLDS_DIR.parent) else file
        digest.update(name.as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _scope_folder_name(scope: str) -> str:
    """The name of the folder in the cache that holds the versions of a scope."""
    if os.path.isabs(scope):
        return f"kernels-{Path(scope).name}-{hashlib.sha256(scope.encode()).hexdigest()[:8]}"
    return f"kernels-{scope}" if scope else "kernels"


def cache_dir() -> Path:
    if path := os.environ.get("ENVGEN_CACHE"):
        return Path(path)
    if path := os.environ.get("XDG_CACHE_HOME"):
        return Path(path) / "envgen"
    try:
        return Path.home() / ".cache" / "envgen"
    except RuntimeError:  # no HOME, and a user that the system does not know
        return Path(os.devnull) / "envgen"  # cannot be created, so a temporary folder is used


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
        return shutil.disk_usage(folder).free > MIN_FREE_BYTES
    except OSError:
        return False


def _find_problem(folders: Sequence[Path], private: bool = False) -> str:
    """Why the last of these nested folders cannot be used; empty if it can. Creates those that do not exist."""
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat() if private else folder.stat()
        except OSError:
            return "it is read-only or full"
        if problem := _find_permission_problem(status, private, shared=folder is not folders[-1]):
            return f"{folder} {problem}"
    return "" if _is_writable(folders[-1]) else "it is read-only or full"


def _find_permission_problem(status: os.stat_result, private: bool, shared: bool) -> str:
    """How another user could put files into a folder; empty if none can.

    A `private` folder must be a real directory that is owned by this user and closed to all others. Other folders may
    also be owned by root, and a `shared` parent folder may have the sticky bit, like /tmp.
    """
    if not hasattr(os, "getuid"):  # Windows, where each user has home and temporary folders of their own
        return ""
    mode, user = status.st_mode, os.getuid()
    if not stat.S_ISDIR(mode):
        return "is not a directory"
    if status.st_uid not in ((user,) if private else (user, 0)):
        return "is owned by another user"
    if private:
        return "is open to other users" if mode & 0o077 else ""
    if shared and mode & stat.S_ISVTX:
        return ""
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_own_group(status.st_gid)):
        return "can be written by other users"
    return ""


def _is_own_group(group: int) -> bool:
    """Whether a group has no other member, like the user private groups of systems with umask 002."""
    import grp
    import pwd

    try:
        user, entry = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user}


@cache
def _temporary_folder() -> Path | None:
    """A new folder that only this user can open, removed at exit."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="envgen-kernels-"))
    except OSError:
        return None
    owner_pid = os.getpid()

    def remove() -> None:
        if os.getpid() == owner_pid:  # a forked process inherits this handler but not the folder
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _remove_old_versions(scope_folder: Path) -> None:
    def last_used(folder: Path) -> float:
        try:
            return folder.stat().st_mtime
        except OSError:  # another process removed it
            return 0.0

    for folder in sorted(scope_folder.iterdir(), key=last_used, reverse=True)[NUM_VERSIONS_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def cache_folder(scope: str = "") -> Path | None:
    """The folder for the compiled kernels of a scope: a temporary one if the cache cannot be written or is not safe,
    None if no folder can be used."""
    name = source_hash(scope)
    top = Path(os.path.realpath(cache_dir()))  # a symbolic link could be changed after the check
    scope_folder = top / _scope_folder_name(scope)
    problem = _find_problem([top, scope_folder, scope_folder / name])
    if not problem:
        os.utime(scope_folder / name)
        _remove_old_versions(scope_folder)
        return scope_folder / name
    fallback = _fallback_folder(name)
    consequence = f"using {fallback}" if fallback else "compiled code is not cached"
    warnings.warn(
        f"envgen cannot use its cache {scope_folder}: {problem}; {consequence}. "
        "Set ENVGEN_CACHE to a folder with free space that other users cannot write to.",
        RuntimeWarning,
        stacklevel=2,
    )
    return fallback


def _fallback_folder(name: str) -> Path | None:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        parent = Path(tempfile.gettempdir()) / f"envgen-kernels-{user}"
    except OSError:  # no temporary folder can be written
        return None
    if not _find_problem([parent, parent / name], private=True):
        return parent / name
    folder = _temporary_folder()
    if folder is None or _find_problem([folder, folder / name], private=True):
        return None
    return folder / name


def jit(function):
    """Compile `function` in nopython mode, without the GIL, with IEEE arithmetic, cached on disk."""
    compiled = _compile(function)
    _widen_integer_arguments(compiled)
    return compiled


def jit_fastmath(function):
    """Like `jit`, but LLVM may reorder sums of floats and so use SIMD, for results that need not equal a reference bit
    for bit.

    Such functions are inlined where they are called: several compiled copies could use different orders, and which one
    runs would depend on what is compiled and what is cached. The cache does not record which decorator was used, so a
    function must have only one of the two.
    """
    return _compile(function, fastmath=FASTMATH_FLAGS, inline="always")


def _compile(function, **extra_options):
    options = {"nogil": True, "error_model": "numpy", **extra_options}
    folder = cache_folder(function_scope(function))
    previous, NUMBA_CONFIG["CACHE_DIR"] = NUMBA_CONFIG["CACHE_DIR"], str(folder or "")
    try:  # numba reads the folder once, when the function is decorated
        compiled = numba.njit(cache=folder is not None, **options)(function)
    finally:
        NUMBA_CONFIG["CACHE_DIR"] = previous
    _tolerate_cache_errors(compiled)
    _delay_interrupts(compiled)
    return compiled


def _widen_integer_arguments(compiled) -> None:
    """Let other compiled functions pass integers as `int64` only.

    numba compiles a function once for each combination of widths and of constants that others pass to it: 22 times for
    a function that fills a rectangle. LLVM inlines it anyway, so the results are as fast, and a world compiles in up to
    half the time.
    """
    get_call_template = compiled.get_call_template

    def get_widened_call_template(args, kws):
        return get_call_template(tuple(map(_widen, args)), {name: _widen(kind) for name, kind in kws.items()})

    compiled.get_call_template = get_widened_call_template


def _widen(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if kind in NARROW_INTEGERS else kind


def _delay_interrupts(compiled) -> None:
    """Let Ctrl-C interrupt a compilation without an error of numba's, and without being lost."""
    compile_signature = compiled.compile

    def compile_with_delay(sig):
        with delay_interrupts(_is_in_llvm_callback):
            return compile_signature(sig)

    compiled.compile = compile_with_delay


def _is_in_llvm_callback(frame: FrameType | None) -> bool:
    """Whether LLVM has called a frame: it discards exceptions, and numba would miss the compiled code."""
    while frame is not None:
        code = frame.f_code
        if code.co_name in LLVM_CALLBACKS and code.co_filename == executionengine.__file__:
            return True
        frame = frame.f_back
    return False


def _tolerate_cache_errors(compiled) -> None:
    """A disk that fills up during compilation disables the cache but does not stop the program."""
    store = getattr(compiled, "_cache", None)
    if store is None:
        return
    save = store.save_overload

    def save_if_possible(sig, data):
        try:
            save(sig, data)
        except OSError as error:
            store.disable()
            _warn_once(f"envgen could not cache compiled code: {error}")

    store.save_overload = save_if_possible


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


@contextmanager
def compiling(name: str, scope: str, seconds: int):
    """Context for the first run of an engine's kernel: prints that it is being compiled, unless it is cached.

    Args:
        name: Display name of what is compiled.
        scope: The `source_scope` of the engine's source file.
        seconds: About how long it takes.
    """
    folder = cache_folder(scope)
    marker = folder / f"{name}.compiled" if folder else None
    if marker is None or not marker.exists():
        print(f"envgen: compiling {name}'s engine, once on this machine (about {seconds} s) ...", file=sys.stderr)
    yield
    if marker is not None:
        with suppress(OSError):  # the disk is full: the message will be printed again next time
            marker.touch()
