"""Ctrl-C and other signals: handle them at the end of an update, or after code that discards exceptions of handlers."""

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType, TracebackType

from envgen.processes import is_main_process

INTERRUPTED = 130  # the exit code of `envgen` after Ctrl-C or SIGTERM


@contextmanager
def signal_handler(signals: Iterable[int], handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals in the block. Only the main thread receives any; in other threads, this does nothing."""
    is_main = threading.current_thread() is threading.main_thread()
    previous = {number: signal.signal(number, handle) for number in signals} if is_main else {}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def delay_interrupts(discards_exceptions: Callable[[FrameType | None], bool] = lambda frame: True) -> Iterator[None]:
    """Delay Ctrl-C until the end of the block where `discards_exceptions(frame)` says that it would be lost.

    Args:
        discards_exceptions: Whether an exception that a signal handler raises in a frame does not reach the caller of
            the block. By default that is so everywhere in the block.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield  # Python runs signal handlers only in the main thread, and here there may be none
        return
    handler, received = previous, list[int]()

    def handle(number: int, frame: FrameType | None) -> None:
        if discards_exceptions(frame):
            received.append(number)
        else:
            handler(number, frame)

    try:
        with signal_handler((signal.SIGINT,), handle):
            yield
    finally:
        if received:
            handler(received[-1], None)


class GracefulInterrupt:
    """A context in which Ctrl-C or SIGTERM sets `requested`, so that the update can finish and be saved.

    `by_ctrl_c` says whether it was Ctrl-C.

    A second Ctrl-C raises KeyboardInterrupt at once. Only the main thread receives signals; in other threads the
    context does nothing. Of several processes, which all receive the Ctrl-C of a terminal, the main one prints.

    Args:
        handle_sigterm: Whether SIGTERM is one of the signals. Otherwise it ends the process, as usual.
    """

    def __init__(self, handle_sigterm: bool = True) -> None:
        self.requested = self.by_ctrl_c = False
        self._signals = (signal.SIGINT, *((signal.SIGTERM,) if handle_sigterm else ()))
        self._installed = ExitStack()

    def __enter__(self) -> "GracefulInterrupt":
        self._installed.enter_context(signal_handler(self._signals, self._handle))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._installed.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        is_first, self.requested = not self.requested, True
        self.by_ctrl_c |= number == signal.SIGINT
        if is_first and is_main_process():
            with suppress(OSError):  # Ctrl-C has also ended the reader of the output, such as `tee`
                print("\nstopping after this update; press Ctrl-C again to stop at once", file=sys.stderr, flush=True)
