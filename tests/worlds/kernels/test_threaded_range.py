"""Work is spread over threads without gaps, overlaps or lost errors."""

import threading
import time

import pytest

from envgen.worlds.kernels.threaded_range import ThreadedRange

SIZE = 8  # one environment in a range, for two threads


@pytest.mark.parametrize(("size", "threads"), [(0, 2), (1, 1), (1, 4), (7, 2), (64, 3), (5, 8)])
def test_ranges_cover_every_environment_once(size, threads):
    pool = ThreadedRange(threads)
    visits = [0] * size

    def job(start, stop, thread):
        for i in range(start, stop):
            visits[i] += 1

    for _ in range(3):
        pool.run(job, size)
    pool.close()
    assert visits == [3] * size


def test_error_in_a_thread_is_raised_and_threads_stay_usable():
    pool, barrier = ThreadedRange(2), threading.Barrier(2)

    def fail(start, stop, thread):
        if start < 2:  # each thread takes one of the first two ranges
            barrier.wait(timeout=5)
        if thread == 1:
            raise KeyError("environment 2")

    with pytest.raises(KeyError, match="environment 2"):
        pool.run(fail, SIZE)
    pool.run(lambda start, stop, thread: None, SIZE)
    pool.close()


def test_interrupt_waits_for_running_threads():
    pool, barrier, finished = ThreadedRange(2), threading.Barrier(2), []

    def job(start, stop, thread):
        if start < 2:
            barrier.wait(timeout=5)
        if thread == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)
        finished.append(start)

    with pytest.raises(KeyboardInterrupt):
        pool.run(job, SIZE)
    assert len(finished) == SIZE - 1  # all but the interrupted range
    pool.run(lambda start, stop, thread: finished.append(start), SIZE)
    assert len(finished) == 2 * SIZE - 1
    pool.close()


def test_close_is_idempotent_and_ends_the_threads():
    pool = ThreadedRange(4)
    started = start_threads(pool)
    pool.close()
    pool.close()
    for started_thread in started:
        started_thread.join(timeout=5)
        assert not started_thread.is_alive()


def test_garbage_collection_ends_the_threads():
    pool = ThreadedRange(2)
    (thread,) = start_threads(pool)
    del pool
    thread.join(timeout=5)
    assert not thread.is_alive()


def start_threads(pool: ThreadedRange) -> list[threading.Thread]:
    """Run once and return the threads that this started."""
    existing = set(threading.enumerate())
    pool.run(lambda start, stop, thread: None, SIZE)
    return [thread for thread in threading.enumerate() if thread not in existing]
