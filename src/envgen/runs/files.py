"""Files of a run directory, which may come from someone else: only regular files are opened, and no links followed.

A FIFO would block its reader, and a link leads to a file that is not part of the run.
"""

import os
import stat
from pathlib import Path
from typing import Any

OPTIONS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def check_regular(file: Path) -> os.stat_result:
    """An OSError unless this is a regular file, and FileNotFoundError if there is none."""
    about = os.lstat(file)
    _check(about, file)
    return about


def _check(about: os.stat_result, file: Path) -> None:
    if not stat.S_ISREG(about.st_mode):
        what = "a link" if stat.S_ISLNK(about.st_mode) else "not a regular file"
        raise OSError(None, f"it is {what}", str(file))


def exists(file: Path) -> bool:
    """Whether there is anything of this name, be it a link to nothing."""
    return os.path.lexists(file)


def open_regular(file: Path, mode: str, buffering: int = -1) -> Any:
    """`open(file, mode)` for a regular file, or for one that the mode creates."""
    if exists(file):
        check_regular(file)  # before it is opened: that alone may do something to a device

    def opener(path: str, flags: int) -> int:
        handle = os.open(path, flags | OPTIONS, 0o666)
        try:
            _check(os.fstat(handle), file)
        except OSError:
            os.close(handle)
            raise
        return handle

    return open(file, mode, buffering, opener=opener)


def read_regular(file: Path, size: int | None = None) -> bytes:
    """The bytes of a regular file. With `size` it must be so long, which is checked before it is read."""
    with open_regular(file, "rb") as opened:
        found = os.fstat(opened.fileno()).st_size
        if size is not None and found != size:
            raise OSError(None, f"it has {found} bytes, not {size}", str(file))
        return opened.read()


def check_inside(folder: Path, file: Path) -> None:
    """An OSError if folders between `folder` and `file` are links that lead out of it."""
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise OSError(None, f"it is outside {folder}", str(file))
