"""Safe access to the files of a run directory, which may come from someone else.

Only regular files are opened and links are never followed: a FIFO would block its reader, and a link may lead out of
the run directory.
"""

import os
import stat
from pathlib import Path
from typing import Any

OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def check_regular(file: Path) -> os.stat_result:
    """Return the status of a regular file. Raises OSError for anything else, FileNotFoundError if it is missing."""
    status = os.lstat(file)
    _check_status(status, file)
    return status


def _check_status(status: os.stat_result, file: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        problem = "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise OSError(None, f"it is {problem}", str(file))


def exists(file: Path) -> bool:
    """Return whether there is an entry of this name, including a broken link."""
    return os.path.lexists(file)


def open_regular(file: Path, mode: str, buffering: int = -1) -> Any:
    """Like `open(file, mode)`, but only for a regular file or one that the mode creates."""
    if exists(file):
        check_regular(file)  # before opening: opening alone may have an effect on a device

    def opener(path: str, flags: int) -> int:
        descriptor = os.open(path, flags | OPEN_FLAGS, 0o666)
        try:
            _check_status(os.fstat(descriptor), file)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    return open(file, mode, buffering, opener=opener)


def read_regular(file: Path, size: int | None = None) -> bytes:
    """Return the content of a regular file. With `size`, its length is checked before it is read."""
    with open_regular(file, "rb") as stream:
        actual_size = os.fstat(stream.fileno()).st_size
        if size is not None and actual_size != size:
            raise OSError(None, f"it has {actual_size} bytes, not {size}", str(file))
        return stream.read()


def check_inside(folder: Path, file: Path) -> None:
    """Raise OSError if a directory between `folder` and `file` is a link that leads out of `folder`."""
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise OSError(None, f"it is outside {folder}", str(file))
