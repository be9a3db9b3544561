"""Devices, precision, threads and processes used by PPO.

`ThreadedGradients` splits each minibatch between two threads on the CPU. `ProcessGroup` combines the gradients of
several processes started by `torchrun`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import torch
from torch import distributed, nn

from envgen.processes import GROUP_TIMEOUT, is_one_of_several, local_rank, meet

Minibatch = dict[str, torch.Tensor]
T = TypeVar("T")
R = TypeVar("R")

NUM_CHUNKS = 2
MAX_RETAINED_BYTES = 31 << 20  # glibc adapts its thresholds to freed blocks of up to 32 MB
IS_ALONE = ContextVar("IS_ALONE", default=False)  # inside `alone`


# ----------------------------------------------------------------------------------------------- devices and precision


def local_device(device: str | torch.device) -> torch.device:
    """The device of this process: of several GPUs, the one assigned by `torchrun`."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", local_rank())
    return device


def set_device(device: torch.device) -> None:
    """Make `device` the current device of this thread."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def supports_bf16(device: torch.device) -> bool:
    """Whether the device has bfloat16 matrix instructions (GPUs since Ampere; x86 with AVX512-BF16 or AMX).

    Other devices may be slower in bfloat16 than in float32.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).major >= 8
    # older processors and PyTorch versions do not report capabilities
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return device.type == "cpu" and bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def autocast(device: torch.device, bfloat16: bool) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 if requested.

    The weight cache is off: threads would share it, and each weight is used once per pass anyway.
    """
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False) if bfloat16 else nullcontext()


def padded_size(num_rows: int) -> int:
    """`num_rows` rounded up to a number with three significant bits, by 11% on average.

    On the CPU, a matrix product in bfloat16 is compiled for each shape, which takes longer than a small product itself.
    Pad where the number of rows is different every time.
    """
    step = 1 << max(0, (num_rows - 1).bit_length() - 3)
    return -(-num_rows // step) * step


def retain_freed_memory() -> None:
    """Make glibc reuse the memory of freed tensors instead of returning it to the system.

    glibc raises its mmap and trim thresholds to the largest block it has seen freed, so allocating and freeing one
    large block is enough.
    """
    torch.empty(MAX_RETAINED_BYTES, dtype=torch.uint8)  # never written, so no page is touched


# ------------------------------------------------------------------------------------------------------------- threads


@contextmanager
def single_thread() -> Iterator[None]:
    """Make PyTorch's operations run in the calling thread alone.

    Use it for results that must be the same on every machine: several threads split sums and matrix factorizations.
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


class ThreadedGradients:
    """Computes the gradients of a minibatch in two threads on the CPU, one half each.

    With small networks, PyTorch's own threads do not keep two cores busy: inside single operations, synchronization
    outweighs the gain. One thread for each half of a minibatch does. There are always two halves, so one, two or three
    cores give bit-identical results; with more, PyTorch also splits sums within a half.

    Use it as a context manager: on entry PyTorch's own threads are divided among the workers.
    """

    def __init__(self, device: torch.device):
        self.num_chunks = NUM_CHUNKS if device.type == "cpu" else 1
        self._executor: ThreadPoolExecutor | None = None

    def __enter__(self) -> "ThreadedGradients":
        self._num_threads = torch.get_num_threads()
        if self.num_chunks > 1:
            retain_freed_memory()
            if self._num_threads > 1:
                threads_per_chunk = self._num_threads // self.num_chunks
                torch.set_num_threads(threads_per_chunk)  # this setting belongs to the calling thread
                self._executor = ThreadPoolExecutor(
                    self.num_chunks - 1, "envgen-gradients", torch.set_num_threads, (threads_per_chunk,)
                )
        return self

    def __exit__(self, *exc: object) -> None:
        torch.set_num_threads(self._num_threads)
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def map(self, function: Callable[[T], R], chunks: Sequence[T]) -> list[R]:
        """`[function(chunk) for chunk in chunks]`, in parallel inside the context."""
        if self._executor is None:
            return [function(chunk) for chunk in chunks]
        futures = [self._executor.submit(function, chunk) for chunk in chunks[1:]]
        try:
            return [function(chunks[0]), *(future.result() for future in futures)]
        finally:
            wait(futures)

    def compute(
        self,
        loss_function: Callable[[Minibatch], tuple[torch.Tensor, torch.Tensor]],
        parameters: Sequence[nn.Parameter],
        minibatch: Minibatch,
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Gradients and metrics of a loss that is a sum over the minibatch.

        `loss_function` returns the loss and a vector of metrics, which are summed over the chunks as well.
        """

        def gradients(chunk: Minibatch) -> tuple[list[torch.Tensor], torch.Tensor]:
            loss, metrics = loss_function(chunk)
            # networks of the user's own may have parameters that the loss does not depend on
            grads = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            return separate_memory(grads), metrics

        (grads, metrics), *others = self.map(gradients, split_minibatch(minibatch, self.num_chunks))
        for other_grads, other_metrics in others:
            for grad, other_grad in zip(grads, other_grads, strict=True):
                grad += other_grad
            metrics += other_metrics
        return grads, metrics


def separate_memory(grads: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients, copied where one shares memory with another or with itself, because they are changed in place.

    Autograd returns the same tensor for two parameters that are added, and an expanded one for a parameter whose
    elements are.
    """
    separate, storages = [], set[int]()
    for grad in grads:
        storage = grad.untyped_storage()
        is_shared = storage.data_ptr() in storages or storage.nbytes() < grad.numel() * grad.element_size()
        storages.add(storage.data_ptr())
        separate.append(grad.clone() if is_shared else grad)
    return separate


class GraphedFunction(Generic[R]):
    """A function of tensors on a GPU, recorded as a CUDA graph at the first call and then replayed.

    Launching the operations of a small network one by one takes longer than executing them. A graph is launched as a
    whole, but its shapes and addresses are fixed: arguments are copied to its inputs, and smaller ones padded with
    zeros.

    Args:
        function: Must not wait for the GPU. Tensors that it uses besides its arguments have to stay where they are.
        size: Rows of the largest arguments.
    """

    WARMUP_CALLS = 3

    def __init__(self, function: Callable[[Minibatch], R], size: int):
        self.function, self.size = function, size
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: Minibatch = {}
        self._results: R | None = None

    def __call__(self, arguments: Minibatch) -> R:
        """The results, which the next call overwrites."""
        if self._graph is None:
            self._inputs = {name: arg.new_zeros((self.size, *arg.shape[1:])) for name, arg in arguments.items()}
        for name, argument in arguments.items():
            self._inputs[name][: len(argument)] = argument
            self._inputs[name][len(argument) :] = 0
        if self._graph is None:
            self._graph = self._record()
        self._graph.replay()
        assert self._results is not None
        return self._results

    def _record(self) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries allocate their memory in the first calls
            for _ in range(self.WARMUP_CALLS):
                self.function(self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._results = self.function(self._inputs)
        return graph


def split_minibatch(minibatch: Minibatch, num_chunks: int) -> list[Minibatch]:
    """Chunks of nearly equal size, each with the same rows of every tensor."""
    chunks = {name: tensor.tensor_split(num_chunks) for name, tensor in minibatch.items()}
    return [{name: parts[k] for name, parts in chunks.items()} for k in range(num_chunks)]


# ----------------------------------------------------------------------------------------------------------- processes


@contextmanager
def alone() -> Iterator[None]:
    """Learners that are made in this context join no other processes, for example to load a policy."""
    token = IS_ALONE.set(True)
    try:
        yield
    finally:
        IS_ALONE.reset(token)


class ProcessGroup:
    """The processes that train one learner together; by default this process alone.

    `torchrun` starts every process with the same seed and its share of the environments. Each process samples the same
    random numbers for all environments and uses its own slice, and a minibatch is the union of the rows that each
    process holds. The number of processes therefore changes rounding and nothing else.

    DistributedDataParallel does not fit: it averages minibatches of equal size, and the local parts of ours differ.
    """

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size

    @classmethod
    def join(cls, device: torch.device) -> "ProcessGroup":
        """The group that `torchrun` started this process in, or a group of one."""
        if IS_ALONE.get() or not is_one_of_several():
            return cls()
        if not distributed.is_initialized():
            meet()
            set_device(device)
            backend = "nccl" if device.type == "cuda" else "gloo"
            distributed.init_process_group(backend, timeout=GROUP_TIMEOUT)
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and evaluates."""
        return self.rank == 0

    def local_slice(self, num_envs: int) -> slice:
        """The environments of this process, out of `num_envs` in all processes."""
        if num_envs % self.size:
            raise ValueError(
                f"num_envs={num_envs} cannot be divided evenly among {self.size} processes; "
                f"use a multiple of {self.size}"
            )
        envs_per_process = num_envs // self.size
        return slice(self.rank * envs_per_process, (self.rank + 1) * envs_per_process)

    def barrier(self) -> None:
        """Wait until every process has called this."""
        if self.size > 1:
            distributed.barrier()

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum the tensor over all processes, in place."""
        if self.size > 1:
            distributed.all_reduce(tensor)
        return tensor

    def all_gather_objects(self, value: T) -> list[T]:
        """The values of all processes, by rank. They are pickled."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def all_gather_envs(self, tensor: torch.Tensor) -> torch.Tensor:
        """The rows of all environments, (T, B, ...), from those of this process's environments, (T, B / size, ...)."""
        if self.size == 1:
            return tensor
        local = tensor.transpose(0, 1).contiguous()
        data = local.view(len(local), -1).view(torch.uint8)  # backends do not support every dtype
        parts = [torch.empty_like(data) for _ in range(self.size)]
        distributed.all_gather(parts, data)
        return torch.cat(parts).view(tensor.dtype).view(-1, *local.shape[1:]).transpose(0, 1).contiguous()

    def local_rows(self, count: int) -> slice:
        """The share of this process when `count` rows, which all processes have, are divided among them."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def all_reduce_many(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum each tensor over all processes, in place and in one exchange."""
        if self.size == 1:
            return
        flat = self.all_reduce(torch.cat([tensor.flatten() for tensor in tensors]))
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))
