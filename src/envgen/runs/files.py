"""Files of run directories: read without trust in their content, and written so that they survive a power failure.

A run directory may come from someone else. Only regular files are opened and symbolic links are never followed: a
FIFO would block its reader, and a link may lead out of the run directory. Sizes are checked before a file is read, and
JSON may not be nested deeper than any that this package writes.
"""

import difflib
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
MAX_JSON_BYTES = 64 << 20  # parsed, JSON can take more than ten times its size
MAX_JSON_DEPTH = 64


def check_regular(file: Path) -> os.stat_result:
    """Return the status of a regular file. Raises OSError for anything else, FileNotFoundError if it is missing."""
    status = os.lstat(file)
    _check_status(status, file)
    return status


def _check_status(status: os.stat_result, file: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        problem = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise OSError(None, f"it is {problem}", str(file))


def exists(file: Path) -> bool:
    """Return whether there is an entry of this name, including a broken symbolic link."""
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


def read_regular(file: Path, size: int | None = None, max_bytes: int | None = None) -> bytes:
    """Return the content of a regular file. Its length is checked before it is read.

    Args:
        size: The length that the file must have.
        max_bytes: The length that it may have. By default half of the memory of this machine.
    """
    limit = memory_bytes() // 2 if max_bytes is None else max_bytes
    with open_regular(file, "rb") as stream:
        actual_size = os.fstat(stream.fileno()).st_size
        if size is not None and actual_size != size:
            raise OSError(None, f"it has {actual_size} bytes, not {size}", str(file))
        if actual_size > limit:
            raise OSError(None, f"it has {actual_size:,} bytes, but at most {limit:,} are read", str(file))
        return stream.read()


def memory_bytes() -> int:
    """Return the memory of this machine, or a terabyte where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def parse_json(text: bytes | str) -> Any:
    """Like `json.loads`, but any problem with the text raises ValueError, even if it is nested too deeply."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH and _is_deep(value):
        raise ValueError(f"it is nested deeper than {MAX_JSON_DEPTH} levels")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [
            item
            for inner in level
            if isinstance(inner, dict | list)
            for item in (inner.values() if isinstance(inner, dict) else inner)
        ]
        if not level:
            return False
    return True


def check_inside(folder: Path, file: Path) -> None:
    """Raise OSError if a directory between `folder` and `file` is a symbolic link that leads out of `folder`."""
    try:
        is_inside = file.parent.resolve().is_relative_to(folder.resolve())
    except RuntimeError:  # until Python 3.12, for a link that leads to itself
        raise OSError(None, "it is in a loop of symbolic links", str(file)) from None
    if not is_inside:
        raise OSError(None, f"it is outside {folder}", str(file))


def suggest_path(path: Path) -> str:
    """Return a hint with the existing name most like `path`, or most like the first of its parents that is missing.

    The hint is empty if `path` exists or no name is similar.
    """
    missing = next((entry for entry in (*reversed(path.parents), path) if not os.path.exists(entry)), None)
    try:
        siblings = os.listdir(missing.parent) if missing else []
    except OSError:
        return ""
    stems = {Path(name).stem: name for name in siblings}  # a common ending says nothing
    matches = difflib.get_close_matches(missing.stem, stems, n=1) if missing else []
    return f"; did you mean {missing.with_name(stems[matches[0]])}?" if missing and matches else ""


def write_flushed(file: Path, data: bytes) -> None:
    """Write a new file and flush it to disk. An existing file or symbolic link is removed, not followed."""
    file.unlink(missing_ok=True)
    with open(file, "xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def append_line(file: Path, line: bytes) -> None:
    """Append a line to a file, which may be new, and flush it to disk. What is written of it is the whole line or none.

    Raises OSError for anything but a regular file, and if only a part of the line fits on the disk.
    """
    with open_regular(file, "ab", buffering=0) as out:
        length = out.tell()
        if out.write(line) != len(line):
            out.truncate(length)
            raise OSError(0, "only part of the line was written; is the disk full?")
        os.fsync(out.fileno())


def flush_folder(folder: Path) -> None:
    """Flush a directory to disk where the system supports it, so that a rename survives a power failure."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
