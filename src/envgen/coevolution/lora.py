"""LoRA: low-rank adapters are trained in place of the weights of a language model (Hu et al. 2021, arXiv 2106.09685).

The adapters are those of the library peft, in every linear layer but the output layer. The experts of a mixture, whose
weights are one tensor, get none. A model with billions of parameters then needs little more memory than its weights,
and its initial distribution, which the KL penalty refers to, is the model without its adapters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from envgen.imports import require_extra
from envgen.rng import isolated_rng

LINEAR = nn.Linear, Conv1D
BASE_LAYER = ".base_layer"  # what peft adds to the name of a layer that has adapters
ADAPTER = ".lora_"  # in the names of their parameters


def add_adapters(model: Any, rank: int, alpha: float, seed: int) -> None:
    """Add adapters in float32 to a model, in place, and freeze its other parameters. At first, they change nothing."""
    require_extra("lora", "lora_rank")
    from peft import LoraConfig, inject_adapter_in_model

    # by their names: "all-linear" also adapts the weights of experts, which are no layers of their own
    output = model.get_output_embeddings()
    names = [name for name, module in model.named_modules() if isinstance(module, LINEAR) and module is not output]
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=names)  # pyright: ignore[reportArgumentType]
    with isolated_rng(seed):
        inject_adapter_in_model(config, model)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # in bfloat16, small updates would be lost


def trainable_names(model: nn.Module) -> set[str]:
    """The names of the parameters that are trained: with adapters, those of the adapters alone."""
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


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


def base_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, Any]]:
    """The parameters without adapters, under the names that they have in a model without any.

    With each weight that has an adapter comes its layer, with the others None.
    """
    layers = dict(_adapted_layers(model))
    for name, parameter in model.named_parameters():
        layer_name, _, rest = name.partition(f"{BASE_LAYER}.")
        if layer_name in layers:
            yield f"{layer_name}.{rest}", parameter, layers[layer_name] if rest == "weight" else None
        elif name.partition(ADAPTER)[0] not in layers:
            yield name, parameter, None


def merged_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The state of the model without adapters that computes the same. Tied weights are in it once."""
    state = {name: merged_weights(parameter, layer) for name, parameter, layer in base_parameters(model)}
    buffers = dict(model.named_buffers())
    persistent = {name: tensor for name, tensor in model.state_dict().items() if name in buffers}
    return state | {name.replace(f"{BASE_LAYER}.", "."): tensor for name, tensor in persistent.items()}


def merged_weights(parameter: nn.Parameter, layer: Any) -> Tensor:
    """The weights with which the layer would compute the same without its adapter, if it has one."""
    if layer is None:
        return parameter
    (adapter,) = layer.active_adapters
    return (parameter.detach().float() + layer.get_delta_weight(adapter).detach().float()).to(parameter.dtype)
