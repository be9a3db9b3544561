"""The processes that `torchrun` or `accelerate launch` started to train together: how they meet, and losing one."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

from envgen.errors import EnvgenError

JOIN_TIMEOUT = timedelta(minutes=4)  # for the main process to answer, and again for the others to come
GROUP_TIMEOUT = timedelta(days=1)  # the others wait while the main process pretrains models or evaluates
ADVICE = "start several processes with torchrun, or unset WORLD_SIZE to train in one"
LOST = re.compile(  # in the errors of gloo and NCCL
    r"connection (was )?(closed|reset|refused)|broken pipe|timed out|closed by|socket (closed|error|timeout)"
    r"|pair closure|remote process (has )?exited|failed with: Success",
    re.IGNORECASE,
)


class ProcessGroupError(EnvgenError):
    """The variables of `torchrun` are incomplete or invalid, or the processes that they describe do not come."""


class ProcessLostError(EnvgenError):
    """Another process that trains with this one has ended. The message says how to resume."""


def is_one_of_several() -> bool:
    """Whether `torchrun` started this process together with others."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def is_main_process() -> bool:
    """Whether this is the main one of the processes that `torchrun` started, or the only process."""
    return os.environ.get("RANK", "0") == "0" or not is_one_of_several()


def world_size() -> int:
    """The number of processes that train together. Raises ProcessGroupError if a variable of `torchrun` is wrong."""
    if not is_one_of_several():
        return 1
    size = os.environ["WORLD_SIZE"]
    _check_number("WORLD_SIZE")
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]:
        raise ProcessGroupError(
            f"the environment variable WORLD_SIZE is {size}, but these are not set: {', '.join(missing)}; {ADVICE}"
        )
    for name in ("RANK", "MASTER_PORT"):
        _check_number(name)
    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    if rank >= int(size):
        raise ProcessGroupError(
            f"the environment variable RANK is {rank}, which is not less than WORLD_SIZE, {size}; {ADVICE}"
        )
    if not 0 < port < 1 << 16:
        raise ProcessGroupError(f"the environment variable MASTER_PORT is {port}, which is not a port; {ADVICE}")
    return int(size)


def local_rank() -> int:
    """The number of this process among those on its machine."""
    if "LOCAL_RANK" not in os.environ:
        return 0
    _check_number("LOCAL_RANK")
    return int(os.environ["LOCAL_RANK"])


def _check_number(name: str) -> None:
    value = os.environ[name]
    if not (value.isascii() and value.isdecimal()):
        advice = "unset it" if name == "LOCAL_RANK" else ADVICE
        raise ProcessGroupError(f"the environment variable {name} is {value!r:.80}, which is not a number; {advice}")


@cache
def meet() -> Any:
    """Wait until all processes have come, or raise ProcessGroupError if they do not within minutes.

    A process group created afterwards need not wait, so its own timeout can be as long as its operations may take.

    Returns:
        The store in which the processes have met. It is kept, because process 0 may serve it to the others.
    """
    from torch.distributed.rendezvous import rendezvous

    size, rank = world_size(), int(os.environ["RANK"])
    try:
        store, _, _ = next(rendezvous("env://", timeout=JOIN_TIMEOUT))
        store.set(f"envgen/{rank}", "here")
        store.wait([f"envgen/{k}" for k in range(size)], JOIN_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        values = [f"{name}={os.environ[name]}" for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")]
        raise ProcessGroupError(
            f"cannot join the processes that the environment variables {', '.join(values)} describe "
            f"({_reason(error)}); {ADVICE}"
        ) from error
    return store


def hangs_after_loss() -> bool:
    """Whether this process would wait forever for another that has ended (NCCL); gloo raises an error."""
    from torch import distributed

    is_grouped = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    return is_grouped and distributed.get_backend() != "gloo"


@contextmanager
def explaining_lost_processes(size: int, is_stopping: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Context for what `size` processes do together: a ProcessLostError says so if another of them has ended.

    Args:
        is_stopping: Whether the user has interrupted the processes. Then the first to end is not lost, and the others
            raise KeyboardInterrupt, too.
    """
    try:
        yield
    except RuntimeError as error:
        if size == 1 or isinstance(error, EnvgenError) or not LOST.search(str(error)):
            raise
        if is_stopping():
            raise KeyboardInterrupt from error
        raise ProcessLostError(
            f"another of the {size} processes that train together was lost ({_reason(error)}); to resume from the "
            "last checkpoint, repeat the command that started all of them"
        ) from error


def _reason(error: Exception) -> str:
    """The first sentence of an error of PyTorch, without the place in its source code."""
    line = re.sub(r"\[[^]]*\.\w+:\d+\] *", "", str(error).strip().partition("\n")[0])
    return line.partition(". ")[0][:200].rstrip(" .")
