"""LoRA: low-rank adapters are trained in place of the weights of a language model (Hu et al. 2021, arXiv 2106.09685).

The adapters are those of the library peft, in every linear layer but the output layer. A model with billions of
parameters then needs little more memory than its weights, and its initial distribution, which the KL penalty refers to,
is the model without its adapters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from envgen.imports import require_extra

BASE_LAYER = ".base_layer"  # what peft adds to the name of a layer that has adapters


def add_adapters(model: Any, rank: int, alpha: float, seed: int) -> None:
    """Add adapters in float32 to a model, in place, and freeze its other parameters. At first, they change nothing."""
    require_extra("lora", "lora_rank")
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear")  # pyright: ignore[reportArgumentType]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # in bfloat16, small updates would be lost


def has_adapters(model: nn.Module) -> bool:
    return any(True for _ in _adapted_layers(model))


def _adapted_layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """The names and modules of all layers with adapters."""
    if any(BASE_LAYER in name for name, _ in model.named_parameters()):
        from peft.tuners.lora import LoraLayer

        for name, module in model.named_modules():
            if isinstance(module, LoraLayer):
                yield name, module


@contextmanager
def adapters_disabled(model: nn.Module) -> Iterator[None]:
    """Disable the adapters in this context, so that the model is the initial one. It must not be trained there."""
    layers = [layer for _, layer in _adapted_layers(model)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def merged_parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters that a model without adapters would need to compute the same, under its own names."""
    layers = dict(_adapted_layers(model))
    for name, parameter in model.named_parameters():
        layer_name, _, kind = name.rpartition(".")
        layer = layers.get(layer_name.removesuffix(BASE_LAYER))
        if layer is None:
            if not any(name.startswith(f"{adapted}.") for adapted in layers):
                yield name, parameter
        elif layer_name.endswith(BASE_LAYER):
            weights = parameter.detach()
            if kind == "weight":
                (adapter,) = layer.active_adapters
                weights = (weights.float() + layer.get_delta_weight(adapter).float()).to(weights.dtype)
            yield name.replace(f"{BASE_LAYER}.", "."), weights
