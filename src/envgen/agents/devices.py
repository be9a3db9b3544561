"""Where an agent computes, and what is fast there."""

import os

import torch

LARGEST_KEPT = 31 << 20  # bytes; glibc heeds blocks of up to 32 MB


def own_device(device: str | torch.device) -> torch.device:
    """Of several GPUs, the one `torchrun` gave this process."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def use_device(device: torch.device) -> None:
    """Make it the one that this thread works on."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether it is a GPU or an x86 processor with instructions for products of bfloat16. Others may take longer for
    them than for those of float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).major >= 8
    able = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}  # older ones do not say
    return device.type == "cpu" and bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def keep_freed_memory() -> None:
    """Have tensors that were freed used again, not returned to the system and fetched anew page by page.

    The largest block that glibc has seen freed, this one, is the largest that it keeps, and twice that is how much may
    lie free at the end of its heap before it is returned.
    """
    torch.empty(LARGEST_KEPT, dtype=torch.uint8)  # never written, so it costs no memory
