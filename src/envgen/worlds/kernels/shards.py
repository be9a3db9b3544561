"""Run a kernel over ranges of environments on several threads.

Kernels release the GIL, so plain threads use plain cores. The calling thread takes the first shard itself: with one
thread nothing is handed over at all. Threads are daemons, started when first needed and stopped by `close`.
"""

import threading
from collections.abc import Callable
from itertools import pairwise


class Shards:
    """`run(job)` calls job(lo, hi, k) for the k-th of `threads` ranges that cover [0, size), and waits for all."""

    def __init__(self, size: int, threads: int):
        self.threads = max(1, min(threads, size))
        edges = [size * k // self.threads for k in range(self.threads + 1)]
        self.ranges = list(pairwise(edges))
        self._helpers: list[_Helper] = []

    def run(self, job: Callable[[int, int, int], None]) -> None:
        if self.threads > 1 and not self._helpers:
            self._helpers = [_Helper() for _ in self.ranges[1:]]
        for k, helper in enumerate(self._helpers, 1):
            helper.start(job, *self.ranges[k], k)
        failure: BaseException | None = None
        try:
            job(*self.ranges[0], 0)
        finally:  # never leave while a helper still works on the caller's arrays
            for helper in self._helpers:
                failure = helper.wait() or failure
        if failure is not None:
            raise failure

    def close(self) -> None:
        for helper in self._helpers:
            helper.stop()
        self._helpers = []


class _Helper:
    """A thread that waits for a job. Two locks hand it over: cheaper than a queue when a job takes microseconds."""

    def __init__(self):
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._job: tuple | None = None
        self._failure: BaseException | None = None
        threading.Thread(target=self._work, name="envgen-shard", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._go.acquire()
            if self._job is None:
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
        self._done.acquire()
        failure, self._failure = self._failure, None
        return failure

    def stop(self) -> None:
        self._job = None
        self._go.release()
