"""PyTorch's global random numbers, which belong to the calling program and to all of its threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

RNG_LOCK = threading.RLock()


@contextmanager
def isolated_rng(seed: int | None = None) -> Iterator[None]:
    """Restore PyTorch's global random number generators at the end. With a seed, start them from this seed.

    A GPU has one of its own, which `torch.manual_seed` seeds, too: if CUDA is not initialized, as soon as it is. Other
    threads that want to use the generators in this way wait.
    """
    with RNG_LOCK:
        is_used, seed_before = torch.cuda.is_initialized(), torch.initial_seed()
        try:
            with torch.random.fork_rng(range(torch.cuda.device_count()) if is_used else (), device_type="cuda"):
                if seed is not None:
                    torch.manual_seed(seed)
                yield
        finally:
            if seed is not None and not is_used:
                torch.cuda.manual_seed_all(seed_before)
