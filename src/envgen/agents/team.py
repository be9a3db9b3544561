"""Several processes that train one agent: each plays its share of the environments, and gradients are summed.

Started by `torchrun`, every process builds the same agent from the same seed and makes its own share of environments.
All draw the same random numbers for everybody and use their own part, and a minibatch is the union of what each holds
of it: the number of processes changes rounding and nothing else.

Not here: DistributedDataParallel, which averages minibatches of equal size; ours are equal only in sum.
"""

import os
from collections.abc import Sequence
from datetime import timedelta

import torch
from torch import distributed

from .devices import use_device

PATIENCE = timedelta(days=1)  # others may wait for one that evaluates


class ProcessGroup:
    """`rank` of `size` processes; one process alone by default."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size

    @classmethod
    def join(cls, device: torch.device) -> "ProcessGroup":
        """The team `torchrun` started this process for, if it did."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not distributed.is_initialized():
            use_device(device)
            kind = "nccl" if device.type == "cuda" else "gloo"
            distributed.init_process_group(kind, timeout=PATIENCE)
        return cls(distributed.get_rank(), distributed.get_world_size())

    def local_slice(self, count: int) -> slice:
        """Which of `count` environments of the whole team are this process's."""
        if count % self.size:
            raise ValueError(f"{count} environments cannot be shared evenly by {self.size} processes")
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def barrier(self) -> None:
        """Until everybody has come here."""
        if self.size > 1:
            distributed.barrier()

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of everybody's tensor, in place."""
        if self.size > 1:
            distributed.all_reduce(tensor)
        return tensor

    def all_reduce_many(self, tensors: Sequence[torch.Tensor]) -> None:
        """Each becomes the sum of everybody's, in one exchange."""
        if self.size == 1:
            return
        flat = self.all_reduce(torch.cat([tensor.flatten() for tensor in tensors]))
        for mine, whole in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            mine.copy_(whole.view_as(mine))
