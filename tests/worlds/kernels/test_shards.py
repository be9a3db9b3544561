"""Work is spread over threads without gaps, overlaps or lost errors."""

import threading

import pytest

from envgen.worlds.kernels.shards import Shards


@pytest.mark.parametrize(("size", "threads"), [(1, 1), (1, 4), (7, 2), (64, 3), (5, 8)])
def test_every_environment_is_visited_once(size, threads):
    shards = Shards(size, threads)
    visits = [0] * size

    def job(lo, hi, k):
        for i in range(lo, hi):
            visits[i] += 1

    for _ in range(3):
        shards.run(job)
    shards.close()
    assert visits == [3] * size


def test_an_error_in_a_thread_reaches_the_caller_and_the_threads_live_on():
    shards = Shards(4, 2)

    def fail(lo, hi, k):
        if k == 1:
            raise KeyError("environment 2")

    with pytest.raises(KeyError, match="environment 2"):
        shards.run(fail)
    shards.run(lambda lo, hi, k: None)
    shards.close()


def test_closing_twice_is_harmless_and_ends_the_threads():
    before = threading.active_count()
    shards = Shards(8, 4)
    shards.run(lambda lo, hi, k: None)
    shards.close()
    shards.close()
    for thread in threading.enumerate():
        if thread.name == "envgen-shard":
            thread.join(timeout=5)
    assert threading.active_count() <= before
