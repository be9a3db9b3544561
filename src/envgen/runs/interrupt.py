"""Stop a run at the end of an update, so that nothing is lost."""

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any


class GracefulInterrupt:
    """A context in which Ctrl-C or SIGTERM sets `requested`, so that the update can finish and be saved.

    A second Ctrl-C raises KeyboardInterrupt at once. Only the main thread receives signals; in other threads the
    context does nothing.

    Args:
        handle_sigterm: Whether SIGTERM is one of the signals. Otherwise it ends the process, as usual.
    """

    def __init__(self, handle_sigterm: bool = True) -> None:
        self.requested = False
        self._signals = (signal.SIGINT, *((signal.SIGTERM,) if handle_sigterm else ()))
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> "GracefulInterrupt":
        if threading.current_thread() is threading.main_thread():
            self._previous_handlers = {number: signal.signal(number, self._handle) for number in self._signals}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.requested:
            print("\nstopping after this update; press Ctrl-C again to stop at once", file=sys.stderr, flush=True)
        self.requested = True
