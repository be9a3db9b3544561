"""Run functions in forked processes, which can be killed and need not import everything again.

Where forking is not safe, processes are spawned, so functions and their arguments must be picklable.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

TIMEOUT = 600  # seconds
CONTEXT = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


@contextmanager
def forked(
    function: Callable, *args: Any, stdout: Path | None = None, stderr: Path | None = None, **kw: Any
) -> Iterator[BaseProcess]:
    """A process that calls a function and writes its output into files. At the end of the context, it is killed."""
    with suppress(ImportError):
        import torch._dynamo  # noqa: F401 - the first optimizer of each process would take two seconds for it
    process = CONTEXT.Process(target=_call, args=(stdout, stderr, function, args, kw))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # servers of tests are threads, which a fork does not have
        process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def run_forked(function: Callable, *args: Any, **kw: Any) -> int | None:
    """Call a function in a process of its own, which is killed after TIMEOUT, and return the exit code."""
    with forked(function, *args, **kw) as process:
        process.join(TIMEOUT)
    return process.exitcode


def run_with_output(function: Callable, *args: Any) -> subprocess.CompletedProcess:
    """The same, with what the process printed."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in ("stdout", "stderr")}
        exit_code = run_forked(function, *args, **paths)
        texts = {name: path.read_text() for name, path in paths.items()}
    assert exit_code is not None
    return subprocess.CompletedProcess(args, exit_code, **texts)


def _call(stdout: Path | None, stderr: Path | None, function: Callable, args: tuple, kw: dict) -> None:
    warnings.resetwarnings()  # pytest turns some into errors
    warnings.simplefilter("ignore", DeprecationWarning)
    for number, name, path in ((1, "stdout", stdout), (2, "stderr", stderr)):
        descriptor = os.open(path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, number)
        setattr(sys, name, os.fdopen(descriptor, "w", buffering=1))
    function(*args, **kw)
