"""Ctrl-C while code runs that discards the exceptions of signal handlers."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if received:
            handler(received[-1], None)
