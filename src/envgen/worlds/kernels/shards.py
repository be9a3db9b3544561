"""Run a kernel over ranges of environments on several threads.

Kernels release the GIL, so plain threads use plain cores. The calling thread takes the first shard itself: with one
thread nothing is handed over at all. Threads are daemons, started when first needed and stopped by `close`, or when
nobody holds the shards any more.
"""

import threading
import weakref
from collections.abc import Callable


class Shards:
    """`run(job, size)` calls job(lo, hi, k) for ranges that cover [0, size), the k-th in thread k, and waits."""

    def __init__(self, threads: int):
        self.threads = threads
        self._helpers: list[_Helper] = []
        weakref.finalize(self, _stop, self._helpers)

    def run(self, job: Callable[[int, int, int], None], size: int) -> None:
        threads = min(self.threads, size)
        while len(self._helpers) < threads - 1:
            self._helpers.append(_Helper())
        started: list[_Helper] = []
        failure: BaseException | None = None
        try:
            for k, helper in enumerate(self._helpers[: max(0, threads - 1)], 1):
                started.append(helper)
                helper.start(job, size * k // threads, size * (k + 1) // threads, k)
            if size > 0:
                job(0, size // threads, 0)
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
        return {"threads": self.threads}

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
            job, lo, hi, k = self._job
            try:
                job(lo, hi, k)
            except BaseException as error:  # noqa: BLE001  it is raised again in the calling thread
                self._failure = error
            finally:
                self._done.release()

    def start(self, job, lo, hi, k) -> None:
        self._job = (job, lo, hi, k)
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
