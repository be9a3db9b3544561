"""Several conversations at the same time, each in a thread."""

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from envgen.runs.files import check_inside
from envgen.runs.store import RunError

from .chat import Chat, UsageTracker
from .ledger import Ledger
from .offline import ManualBackend
from .protocol import Backend
from .runtime import LlmRuntime

T = TypeVar("T")


class Interrupted(Exception):
    """Another thread has failed, or the user wants to stop. A conversation raises it when the event `stop` is set."""


def run_in_threads(
    pending: deque[T],
    work: Callable[[T], object],
    num_threads: int,
    stop: threading.Event,
    log: Callable[[str], object] = print,
) -> None:
    """Call `work` with everything in `pending`, from several threads.

    After an error, or Ctrl-C, `stop` is set, nothing more is begun, and the error is raised here as soon as the calls
    in progress have ended.
    """
    errors: list[BaseException] = []

    def run() -> None:
        while not stop.is_set():
            try:
                element = pending.popleft()
            except IndexError:
                return
            try:
                work(element)
            except BaseException as error:  # noqa: BLE001  raised in the main thread
                errors.append(error)
                stop.set()

    threads = [threading.Thread(target=run, name=f"envgen-worker-{k}", daemon=True) for k in range(num_threads)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        stop.set()
        log("Stopping after the calls in progress. Press Ctrl-C again to abandon them.")
        for thread in threads:
            thread.join()
        raise
    for error in errors:
        if not isinstance(error, Interrupted):
            raise error


def open_chat(
    backend: Backend, file: Path, root: Path, config: LlmRuntime, usage_tracker: UsageTracker, stop: threading.Event,
    log: Callable[[str], object],
) -> Chat:  # fmt: skip
    """A conversation that is recorded in `file` and shares its budget with those of other threads.

    Args:
        root: The directory that must contain the file, also where folders are symbolic links.
        usage_tracker: Where the conversation is opened; its key is the file.
        stop: Ends waiting and pauses by raising `Interrupted`.
    """
    try:
        check_inside(root, file)
    except OSError as error:
        raise RunError(f"cannot use {file.parent}: {error.strerror}") from error

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise Interrupted

    if isinstance(backend, ManualBackend):
        backend.notify, backend.sleep = log, sleep
    ledger = Ledger(file)
    usage_tracker.open(file, ledger)
    return Chat(
        backend, ledger, config.budget, config.prices, sleep=sleep, usage_tracker=usage_tracker,
        budget_file=config.budget_file(ledger.file),
    )  # fmt: skip
