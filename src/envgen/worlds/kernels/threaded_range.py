"""Run a kernel over ranges of environments on several threads.

Kernels release the GIL, so threads use several cores. The calling thread works too: with one thread, no work is handed
to another. The other threads are daemons; they start when they are first needed and end with `close`, or when their
`ThreadedRange` is garbage collected. A forked process has none of its parent's threads, so it starts its own.
"""

import os
import threading
import weakref
from collections.abc import Callable

RANGES_PER_THREAD = 4  # if nothing is known about the work


class ThreadedRange:
    """Splits [0, size) into ranges and runs a job on them in several threads."""

    def __init__(self, threads: int):
        self.num_threads = threads
        self._helpers: list[_Helper] = []
        weakref.finalize(self, _stop, self._helpers)
        _ALL_RANGES.add(self)

    def run(self, job: Callable[[int, int, int], None], size: int, ranges: int = RANGES_PER_THREAD) -> None:
        """Call job(start, stop, thread) for ranges that cover [0, size), and wait for all of them.

        Args:
            job: Errors that it raises are raised again here.
            size: The number of environments.
            ranges: Ranges per thread. Threads that are idle take the next range, which balances uneven work. For even
                work use 1: between two ranges a thread waits for the GIL.
        """
        threads = min(self.num_threads, size)
        if threads <= 1:  # fast path: microseconds matter here
            if size:
                job(0, size, 0)
            return
        range_size = -(-size // (threads * ranges))
        starts = iter(range(0, size, max(1, range_size)))  # shared: under the GIL each is taken once

        def work(thread: int) -> None:
            for start in starts:
                job(start, min(start + range_size, size), thread)

        while len(self._helpers) < threads - 1:
            self._helpers.append(_Helper())
        started: list[_Helper] = []
        failure: BaseException | None = None
        try:
            for thread, helper in enumerate(self._helpers[: threads - 1], 1):
                started.append(helper)
                helper.start(work, thread)
            work(0)
        finally:  # never return while a helper still uses the caller's arrays, not even on Ctrl-C
            interrupt: BaseException | None = None
            while started:
                try:
                    failure = started[-1].wait() or failure
                    started.pop()
                except KeyboardInterrupt as error:
                    interrupt = error
            if interrupt is not None:
                raise interrupt
        if failure is not None:
            raise failure

    def __getstate__(self) -> dict:
        return {"threads": self.num_threads}

    def __setstate__(self, state: dict) -> None:
        self.__init__(state["threads"])  # threads are not pickled; they start when needed

    def close(self) -> None:
        _stop(self._helpers)


_ALL_RANGES: "weakref.WeakSet[ThreadedRange]" = weakref.WeakSet()


def _forget_threads() -> None:
    """In a forked process: the parent's threads do not run here, and waiting for one would never end."""
    for threaded_range in _ALL_RANGES:
        threaded_range._helpers.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_forget_threads)


def _stop(helpers: "list[_Helper]") -> None:
    while helpers:
        helpers.pop().stop()


class _Helper:
    """A thread that waits for jobs. Two locks are faster than a queue, and jobs may take only microseconds."""

    def __init__(self):
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._job: tuple | None = None
        self._failure: BaseException | None = None
        self._stopped = False
        threading.Thread(target=self._work, name="envgen-worker", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._go.acquire()
            if self._stopped or self._job is None:
                return
            work, thread = self._job
            try:
                work(thread)
            except BaseException as error:  # noqa: BLE001  raised again in the calling thread
                self._failure = error
            finally:
                self._done.release()

    def start(self, work: Callable[[int], None], thread: int) -> None:
        self._job = (work, thread)
        self._go.release()

    def wait(self) -> BaseException | None:
        """Wait for the job; return its exception, if any. May be called again after an interrupt."""
        if self._job is not None:
            self._done.acquire()
            self._job = None
        failure, self._failure = self._failure, None
        return failure

    def stop(self) -> None:
        self._stopped = True
        self._go.release()
