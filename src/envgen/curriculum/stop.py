"""Ctrl-C while an agent learns: the update is finished and saved first; a second one stops at once."""

import signal
import sys
import threading
from types import FrameType, TracebackType


class GracefulInterrupt:
    """Use as a context; `asked` says whether somebody wants to stop. Only the main thread hears signals."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> "GracefulInterrupt":
        self._here = threading.current_thread() is threading.main_thread()
        if self._here:
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._here:
            signal.signal(signal.SIGINT, self._before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping after this update; Ctrl-C again to stop at once", file=sys.stderr, flush=True)
