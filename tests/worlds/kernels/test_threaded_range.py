"""Work is spread over threads without gaps, overlaps or lost errors."""

import threading
import time

import pytest

from envgen.worlds.kernels.threaded_range import ThreadedRange

SIZE = 8  # one environment in a range, for two threads


@pytest.mark.parametrize(("size", "threads"), [(0, 2), (1, 1), (1, 4), (7, 2), (64, 3), (5, 8)])
def test_every_environment_is_visited_once(size, threads):
    shards = ThreadedRange(threads)
    visits = [0] * size

    def job(lo, hi, k):
        for i in range(lo, hi):
            visits[i] += 1

    for _ in range(3):
        shards.run(job, size)
    shards.close()
    assert visits == [3] * size


def test_an_error_in_a_thread_reaches_the_caller_and_the_threads_live_on():
    shards, both = ThreadedRange(2), threading.Barrier(2)

    def fail(lo, hi, k):
        if lo < 2:  # each thread takes one of the first two ranges
            both.wait(timeout=5)
        if k == 1:
            raise KeyError("environment 2")

    with pytest.raises(KeyError, match="environment 2"):
        shards.run(fail, SIZE)
    shards.run(lambda lo, hi, k: None, SIZE)
    shards.close()


def test_an_interrupt_waits_for_the_threads_that_still_work():
    shards, both, finished = ThreadedRange(2), threading.Barrier(2), []

    def job(lo, hi, k):
        if lo < 2:
            both.wait(timeout=5)
        if k == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)
        finished.append(lo)

    with pytest.raises(KeyboardInterrupt):
        shards.run(job, SIZE)
    assert len(finished) == SIZE - 1  # all but the interrupted range
    shards.run(lambda lo, hi, k: finished.append(lo), SIZE)
    assert len(finished) == 2 * SIZE - 1
    shards.close()


def test_closing_twice_is_harmless_and_ends_the_threads():
    shards = ThreadedRange(4)
    started = threads_of(shards)
    shards.close()
    shards.close()
    for thread in started:
        thread.join(timeout=5)
        assert not thread.is_alive()


def test_forgetting_the_shards_ends_the_threads_too():
    shards = ThreadedRange(2)
    (thread,) = threads_of(shards)
    del shards
    thread.join(timeout=5)
    assert not thread.is_alive()


def threads_of(shards: ThreadedRange) -> list[threading.Thread]:
    """Run once, and name the threads that this started."""
    before = set(threading.enumerate())
    shards.run(lambda lo, hi, k: None, SIZE)
    return [thread for thread in threading.enumerate() if thread not in before]
