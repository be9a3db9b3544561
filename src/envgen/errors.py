"""The base class of every error with a message for the user, errors common to all learners, and how to describe
exceptions of other code."""

import sysconfig
import traceback
from pathlib import Path


class EnvgenError(Exception):
    """Something a user can correct: a wrong setting, file, run directory, model or server. The message says how."""


class NonFiniteLossError(EnvgenError, ArithmeticError):
    """The loss or gradient norm is NaN or infinite. The weights were not updated."""


def describe_exception(error: BaseException) -> str:
    """The type and message of an exception, and the line of the user's own code that raised it or called what did."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    if isinstance(error, SyntaxError):  # the message names the line
        return text
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_users_file(frame.filename):
            return f"{text} ({_short_path(frame.filename)}, line {frame.lineno})"
    return text


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed. Torch raises errors of its own, of which only those of GPUs have a class."""
    is_torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return is_torch or isinstance(error, MemoryError)


def _is_users_file(path: str) -> bool:
    """Whether a file is neither of this project nor of Python or an installed package."""
    libraries = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    folders = Path(__file__).parent, *libraries
    return not path.startswith("<") and not any(Path(path).is_relative_to(folder) for folder in folders)


def _short_path(path: str) -> str:
    """Relative to the current folder, if the file lies there."""
    folder = Path.cwd()
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path
