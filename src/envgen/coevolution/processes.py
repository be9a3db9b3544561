"""The processes that train language models together, as accelerate sees them."""

import os

import torch
from accelerate import Accelerator
from accelerate.state import is_initialized
from accelerate.utils import InitProcessGroupKwargs

from envgen.processes import GROUP_TIMEOUT, ProcessGroupError, local_rank, meet, world_size

TRUE = ("y", "yes", "t", "true", "on", "1")  # as accelerate reads them
UNSUPPORTED = {"ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM"}
PRECISIONS = ("no", "bf16")


def start_accelerator() -> Accelerator:
    """The accelerator of this process, after all processes that `torchrun` or `accelerate launch` started have come.

    Without GPUs, the processes train on the CPU, in a group of gloo. accelerate only does so when told to use the CPU.
    """
    check_settings()
    num_processes = world_size()
    local_rank()  # accelerate would raise an error of its own
    if num_processes == 1 or is_initialized():
        accelerator = Accelerator()
    else:
        meet()
        on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in TRUE or not torch.cuda.is_available()
        # accelerate passes on what differs from its default, nccl, and on GPUs prefers a backend of its own choice
        group = InitProcessGroupKwargs(backend="gloo" if on_cpu else "nccl", timeout=GROUP_TIMEOUT)
        try:
            accelerator = Accelerator(cpu=on_cpu, kwargs_handlers=[group])
        except (ValueError, ImportError, NotImplementedError) as error:
            raise ProcessGroupError(f"accelerate cannot start: {error}; correct its configuration") from error
    if accelerator.num_processes != num_processes:
        raise ProcessGroupError(
            f"the environment variable WORLD_SIZE is {num_processes}, but the number of processes of "
            f"accelerate is {accelerator.num_processes}, on {accelerator.device.type}; start the program with "
            "accelerate launch or torchrun, and create no Accelerator before"
        )
    return accelerator


def check_settings() -> None:
    """Raise ProcessGroupError if the settings of accelerate, which `accelerate launch` passes on, are not supported."""
    for variable, name in UNSUPPORTED.items():
        if os.environ.get(variable, "").lower() in TRUE:
            raise ProcessGroupError(
                f"{name} is not supported, but {variable} or the configuration of accelerate asks for it: launch with "
                "FSDP (launch/fsdp.yaml) or data-parallel"
            )
    precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    if precision not in PRECISIONS:
        raise ProcessGroupError(
            f"mixed precision in {precision} is not supported, but ACCELERATE_MIXED_PRECISION or the configuration of "
            "accelerate asks for it: choose bf16 or no"
        )
