"""Work is spread over threads without gaps, overlaps or lost errors."""

import os
import signal
import subprocess
import sys
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_process_starts_threads_of_its_own():
    pool = ThreadedRange(2)
    start_threads(pool)
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a child that hangs
        visits = []
        pool.run(lambda start, stop, thread: visits.append(start), SIZE)
        pool.close()
        os._exit(0 if sorted(visits) == list(range(SIZE)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    pool.run(lambda start, stop, thread: None, SIZE)
    pool.close()


STEP_IN_CHILD = """
import multiprocessing, sys, warnings
from envgen.worlds.registry import make_world
warnings.simplefilter("ignore", DeprecationWarning)
envs = make_world(sys.argv[1]).make(num_envs=4, seed=3, observation="symbols", threads=3)
envs.reset()
envs.step([1, 2, 3, 4])

def step(queue=None):
    obs = envs.step([4, 3, 2, 1])[0]
    queue.put(obs.tolist()) if queue else None
    return obs.tolist()

queue = multiprocessing.get_context("fork").Queue()
process = multiprocessing.get_context("fork").Process(target=step, args=(queue,))
process.start()
print(queue.get(timeout=60) == step())
process.join(20)
print(process.exitcode)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("world", ["crafter", "heist"])
def test_environments_with_threads_continue_in_a_forked_process(world):
    done = subprocess.run(
        [sys.executable, "-c", STEP_IN_CHILD, world], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split() == ["True", "0"], done.stderr
