"""Worker processes that step groups of environments of a `PythonWorld`.

A worker receives method calls on its `EnvGroup` through its standard input and answers through its standard output;
actions, observations and rewards travel through shared memory. It ends when its input is closed, which also
happens when the parent process is killed. Workers whose environments were closed wait for the next ones: starting
Python and its imports takes longer than many evaluations.
"""

import atexit
import itertools
import mmap
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import cloudpickle
import numpy as np

from envgen.errors import EnvgenError

from .env_group import Arrays, EnvGroup

if TYPE_CHECKING:
    from .python_world import PythonWorld

MAX_IDLE_WORKERS = 64
CLOSE_TIMEOUT = 5.0  # seconds until a worker whose input was closed is killed
SHARED_MEMORY_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None  # else the folder for temporary files
LENGTH_BYTES = 8

ArrayLayout = Mapping[str, tuple[np.dtype, tuple[int, ...]]]  # dtype and shape of a row, by array


class WorkerError(EnvgenError, RuntimeError):
    """A worker process has died, or its environments raised an error that cannot be sent to the parent."""


def map_arrays(path: str, layout: ArrayLayout, num_envs: int) -> Arrays:
    """Arrays with `num_envs` rows in the memory of a file, which is made as large as they need."""
    offsets, size = {}, 0
    for name, (dtype, shape) in layout.items():
        offsets[name] = size
        size += -(-num_envs * dtype.itemsize * int(np.prod(shape, dtype=np.int64)) // 64) * 64  # whole cache lines
    with open(path, "r+b") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(1, size))  # else a full disk ends the process
            else:
                file.truncate(max(1, size))
        except OSError as error:
            raise WorkerError(
                f"{os.path.dirname(path)} has no room for {size / 2**20:.1f} MB of observations and states: "
                f"{error.strerror}; use fewer environments, or in a container more shared memory (--shm-size)"
            ) from None
        memory = mmap.mmap(file.fileno(), max(1, size))
    return {
        name: np.ndarray((num_envs, *shape), dtype, memory, offsets[name]) for name, (dtype, shape) in layout.items()
    }


# --- the worker's side


def run_worker() -> None:
    """Answer calls until standard input is closed. The main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what environments print
    group: EnvGroup | None = None
    while True:
        while group is not None and not _has_input(calls) and _prepare_next(group):
            pass
        message = _receive(calls)
        if message is None:
            break
        try:
            name, args = pickle.loads(message)
            if name == "create":
                group, result = _create(*args), None
            elif name == "close":
                if group is not None:
                    group.close()
                group = result = None
            else:
                result = getattr(group, name)(*args)
            answer = _dumps((True, result), has_objects=result is not None)
        except Exception as error:  # noqa: BLE001  environments may raise anything; the parent raises it again
            answer = _pickle_error(error)
        try:
            _send(answers, answer)
        except OSError:
            break  # the parent has died
    if group is not None:
        group.close()


def _has_input(file: BinaryIO) -> bool:
    return sys.platform == "win32" or _wait_readable(file, 0)


def _wait_readable(file: IO[bytes], timeout: int | None) -> bool:
    """Wait until a pipe has something to read, for at most `timeout` milliseconds.

    Unlike `select.select`, also if its descriptor is above 1023. Selectors take 15 microseconds longer for each step.
    """
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(timeout))


def _prepare_next(group: EnvGroup) -> bool:
    try:
        return group.prepare_next()
    except Exception:  # noqa: BLE001  the error comes again, and can be reported, when the episode begins
        return False


def _create(pickled_world: bytes, path: str, layout: ArrayLayout, num_envs: int, rows: slice) -> EnvGroup:
    arrays = {name: array[rows] for name, array in map_arrays(path, layout, num_envs).items()}
    return EnvGroup(cloudpickle.loads(pickled_world), arrays)


def _pickle_error(error: Exception) -> bytes:
    text = "".join(traceback.format_exception(error))
    try:
        answer = pickle.dumps((False, (error, text)))
        pickle.loads(answer)
        return answer
    except Exception:  # noqa: BLE001  whatever its class does when it is pickled
        return pickle.dumps((False, (None, text)))


def _dumps(message: Any, has_objects: bool) -> bytes:
    """Pickle a message; with cloudpickle if it has objects, whose classes may be those of a script or a notebook."""
    return cloudpickle.dumps(message) if has_objects else pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def _send(file: BinaryIO, message: bytes) -> None:
    file.write(len(message).to_bytes(LENGTH_BYTES, "little") + message)
    file.flush()


def _receive(file: BinaryIO) -> bytes | None:
    """The next message; None after the last one."""
    length = file.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    message = file.read(int.from_bytes(length, "little"))
    return message if len(message) == int.from_bytes(length, "little") else None


# --- the parent's side


class Worker:
    """A worker process. Each `start` of a call must be followed by a `finish`.

    Args:
        key: What it may be used for: other classes of the same modules would be those that it has imported before.
    """

    def __init__(self, key: Any = None) -> None:
        self.key = key
        path = [*sys.path, ""]  # the world may have been imported from the current directory (envgen/imports.py)
        code = f"import sys; sys.path[:] = {path!r}; from {__name__} import run_worker; run_worker()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={"OMP_NUM_THREADS": "1", **os.environ}, start_new_session=True,
        )  # fmt: skip

    def start(self, name: str, args: Sequence[Any] = ()) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # it has died: `finish` reports it
            _send(self.process.stdin, _dumps((name, args), has_objects=bool(args)))  # pyright: ignore[reportArgumentType]

    def wait(self) -> None:
        """Wait until there is an answer. An interrupt here, unlike in `finish`, loses nothing."""
        assert self.process.stdout is not None
        if sys.platform != "win32":  # where only sockets can be waited for
            _wait_readable(self.process.stdout, None)

    def finish(self) -> tuple[bool, Any]:
        """Wait for the answer to a call. Returns whether it succeeded, and its result or its exception."""
        assert self.process.stdout is not None
        answer = _receive(self.process.stdout)  # pyright: ignore[reportArgumentType]
        if answer is None:
            code = self.close()
            cause = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
            return False, WorkerError(
                f"a worker process {cause} (memory exhausted, or a crash in the environment?); make the environments "
                "again, or with num_workers=1, which steps them in this process"
            )
        succeeded, result = pickle.loads(answer)
        if succeeded:
            return True, result
        error, text = result
        if error is None:
            return False, WorkerError(f"an environment in a worker process raised an error:\n{text}")
        error.add_note(f"in a worker process:\n{text}")
        return False, error

    def close(self) -> int:
        """End the process. Returns its exit status."""
        for file in (self.process.stdin, self.process.stdout):
            if file is not None:
                with suppress(OSError):
                    file.close()
        try:
            return self.process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None


_idle_workers: list[Worker] = []
_lock = threading.Lock()


def _take_worker(world: "PythonWorld") -> Worker:
    """An idle worker that has had environments made by the same code, or a new one."""
    key = (*world.worker_key(), *sys.path)  # after a reload of its module, a class is another object
    with _lock:
        dead = [worker for worker in _idle_workers if not worker.is_alive]
        alive = [worker for worker in _idle_workers if worker.is_alive]
        taken = next((worker for worker in reversed(alive) if worker.key == key), None)
        _idle_workers[:] = [worker for worker in alive if worker is not taken]
    for worker in dead:
        worker.close()
    return taken or Worker(key)


def _return_worker(worker: Worker) -> None:
    """Keep a worker for later environments. Of more than MAX_IDLE_WORKERS, those that have waited longest end."""
    superfluous = [] if worker.is_alive else [worker]
    with _lock:
        if worker.is_alive:
            _idle_workers.append(worker)
        while len(_idle_workers) > MAX_IDLE_WORKERS:
            superfluous.append(_idle_workers.pop(0))
    for ended in superfluous:
        ended.close()


def close_idle_workers() -> None:
    """End the workers that wait for environments. Called at exit."""
    with _lock:
        workers, _idle_workers[:] = list(_idle_workers), []
    for worker in workers:
        worker.close()


atexit.register(close_idle_workers)
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_idle_workers.clear)  # they belong to the parent


class WorkerPool:
    """An `EnvGroup` for some of `num_envs` environments in each of `num_workers` processes.

    `arrays` are those of all environments. Group k has the environments `slices[k]`.
    """

    def __init__(self, world: "PythonWorld", layout: ArrayLayout, num_envs: int, num_workers: int):
        bounds = [num_envs * k // num_workers for k in range(num_workers + 1)]
        self.slices = [slice(*pair) for pair in itertools.pairwise(bounds)]
        try:
            pickled_world = cloudpickle.dumps(world)
        except Exception as error:
            raise WorkerError(
                f"the world {world.name} cannot be sent to worker processes: {error}; use num_workers=1"
            ) from error
        descriptor, path = tempfile.mkstemp(prefix="envgen-", dir=SHARED_MEMORY_FOLDER)
        os.close(descriptor)
        self.workers: list[Worker] = []
        self._process = os.getpid()
        weakref.finalize(self, _kill, self.workers, self._process)
        try:
            self.arrays = map_arrays(path, layout, num_envs)
            self.workers += [_take_worker(world) for _ in self.slices]
            self.call("create", [(pickled_world, path, dict(layout), num_envs, rows) for rows in self.slices])
        except BaseException:
            _kill(self.workers, self._process)
            raise
        finally:
            with suppress(OSError):  # the memory lives on until all have closed it
                os.unlink(path)

    def call(self, name: str, args: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """Call a method of all groups at the same time, with the arguments `args[k]`, and return the results.

        Waits for all groups, even if one raises an error or the user presses Ctrl-C, which is raised afterwards. A
        second Ctrl-C ends the workers.
        """
        if os.getpid() != self._process:
            raise WorkerError(
                "these environments belong to the process that this one was forked from; make them in this process, or "
                "with num_workers=1"
            )
        if not self.workers:
            raise WorkerError("the worker processes of these environments have ended; make the environments again")
        results, error, interrupt = [], None, None
        try:
            for worker, worker_args in zip(self.workers, args or [()] * len(self.workers), strict=True):
                worker.start(name, worker_args)
            for worker in self.workers:
                try:
                    worker.wait()
                except KeyboardInterrupt as first:
                    if interrupt is not None:
                        raise
                    interrupt = first
                    worker.wait()
                succeeded, result = worker.finish()
                if succeeded:
                    results.append(result)
                else:
                    error = error or result
        except BaseException:  # it is unknown which answers were read
            _kill(self.workers, self._process)
            raise
        if not all(worker.is_alive for worker in self.workers):
            _kill(self.workers, self._process)
        if interrupt is not None or error is not None:
            raise interrupt or error  # pyright: ignore[reportGeneralTypeIssues]
        return results

    def close(self) -> None:
        """Close the environments. The processes then wait for others."""
        if self.workers and os.getpid() == self._process:
            self.call("close")
            while self.workers:
                _return_worker(self.workers.pop())


def _kill(workers: list[Worker], process: int) -> None:
    """End workers at once, and empty the list. In a fork of the process that started them, they stay."""
    while workers and os.getpid() == process:
        worker = workers.pop()
        worker.process.kill()
        worker.close()
