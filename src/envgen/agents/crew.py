"""Two threads that share each minibatch on the CPU.

Small networks do not fill two cores operation by operation: handing over costs more than it brings. Halves of a
minibatch do. Each thread takes a half through the whole network and back, and the gradients are added. There are always
two halves: one, two or three cores give the same result to the bit (beyond, PyTorch shares out sums within a half).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from .devices import keep_freed_memory

PIECES = 2
Given = TypeVar("Given")
Found = TypeVar("Found")


class Crew:
    """While it is entered, `share` works on several pieces at once; PyTorch's own threads are shared out among them."""

    def __init__(self, device: torch.device):
        self.size = PIECES if device.type == "cpu" else 1
        self._helpers: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Crew":
        self._all = torch.get_num_threads()
        if self.size > 1:
            keep_freed_memory()
            if self._all > 1:
                each = self._all // self.size
                torch.set_num_threads(each)  # a setting of each thread's own
                self._helpers = ThreadPoolExecutor(self.size - 1, "envgen-crew", torch.set_num_threads, (each,))
        return self

    def __exit__(self, *exc: object) -> None:
        torch.set_num_threads(self._all)
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None

    def share(self, function: Callable[[Given], Found], pieces: list[Given]) -> list[Found]:
        """The function of every piece."""
        if self._helpers is None:
            return [function(piece) for piece in pieces]
        others = [self._helpers.submit(function, piece) for piece in pieces[1:]]
        try:
            return [function(pieces[0]), *(other.result() for other in others)]
        finally:
            wait(others)


def split(part: dict[str, torch.Tensor], count: int) -> list[dict[str, torch.Tensor]]:
    """The same entries of every tensor, in `count` nearly equal pieces."""
    chunks = {name: tensor.tensor_split(count) for name, tensor in part.items()}
    return [{name: chunk[k] for name, chunk in chunks.items()} for k in range(count)]
