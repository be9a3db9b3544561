"""PyTorch's global random numbers, which belong to the calling program and to all of its threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

RNG_LOCK = threading.RLock()


@contextmanager
def isolated_rng(seed: int | None = None) -> Iterator[None]:
    """Restore PyTorch's global random number generators at the end. With a seed, start them from this seed.

    A GPU has one of its own, which `torch.manual_seed` seeds, too. Other threads that want to use the generators in
    this way wait.
    """
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with RNG_LOCK, torch.random.fork_rng(gpus, device_type="cuda"):
        if seed is not None:
            torch.manual_seed(seed)
        yield
