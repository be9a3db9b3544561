"""Run a kernel over ranges of environments on several threads.

Kernels release the GIL, so plain threads use plain cores. The calling thread works too: with one thread nothing is
handed over at all. Threads are daemons, started when first needed and stopped by `close`, or when
nobody holds the shards any more.
"""

import threading
import weakref
from collections.abc import Callable

RANGES_PER_THREAD = 4  # for each thread, where nothing is known of the work


class ThreadedRange:
    """`run(job, size)` calls job(lo, hi, k) for ranges that cover [0, size), in thread k, and waits for all of them.

    With several threads there are `ranges` of them for each; who is done takes the next, so that all end together. Few
    do where the work is even: between two ranges a thread waits for the interpreter, which another may hold.
    """

    def __init__(self, threads: int):
        self.num_threads = threads
        self._helpers: list[_Helper] = []
        weakref.finalize(self, _stop, self._helpers)

    def run(self, job: Callable[[int, int, int], None], size: int, ranges: int = RANGES_PER_THREAD) -> None:
        threads = min(self.num_threads, size)
        if threads <= 1:  # microseconds count here
            if size:
                job(0, size, 0)
            return
        grain = -(-size // (threads * ranges))
        starts = iter(range(0, size, max(1, grain)))  # shared: the interpreter hands out each once

        def work(k: int) -> None:
            for lo in starts:
                job(lo, min(lo + grain, size), k)

        while len(self._helpers) < threads - 1:
            self._helpers.append(_Helper())
        started: list[_Helper] = []
        failure: BaseException | None = None
        try:
            for k, helper in enumerate(self._helpers[: threads - 1], 1):
                started.append(helper)
                helper.start(work, k)
            work(0)
        finally:  # never leave while a helper still works on the caller's arrays, not even for Ctrl-C
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
        self.__init__(state["threads"])  # threads are not copied; they start when needed

    def close(self) -> None:
        _stop(self._helpers)


def _stop(helpers: "list[_Helper]") -> None:
    while helpers:
        helpers.pop().stop()


class _Helper:
    """A thread that waits for a job. Two locks hand it over: cheaper than a queue when a job takes microseconds."""

    def __init__(self):
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._job: tuple | None = None
        self._failure: BaseException | None = None
        self._stopped = False
        threading.Thread(target=self._work, name="envgen-shard", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._go.acquire()
            if self._stopped or self._job is None:
                return
            work, k = self._job
            try:
                work(k)
            except BaseException as error:  # noqa: BLE001  it is raised again in the calling thread
                self._failure = error
            finally:
                self._done.release()

    def start(self, work: Callable[[int], None], k: int) -> None:
        self._job = (work, k)
        self._go.release()

    def wait(self) -> BaseException | None:
        """What went wrong, if anything. May be called again if it was interrupted."""
        if self._job is not None:
            self._done.acquire()
            self._job = None
        failure, self._failure = self._failure, None
        return failure

    def stop(self) -> None:
        self._stopped = True
        self._go.release()
