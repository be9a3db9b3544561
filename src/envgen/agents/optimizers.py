"""The state of an optimizer as arrays, for checkpoints."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from envgen.arrays import Arrays, strip_prefix


def optimizer_arrays(
    prefix: str, optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter]
) -> dict[str, np.ndarray]:
    """The state of an optimizer: `prefix.K.NAME` for the K-th parameter."""
    return {
        f"{prefix}.{k}.{name}": tensor.detach().to("cpu", copy=True).numpy()
        for k, parameter in enumerate(parameters)
        for name, tensor in optimizer.state[parameter].items()
    }


def load_optimizer(
    prefix: str,
    optimizer: torch.optim.Optimizer,
    parameters: Iterable[nn.Parameter],
    arrays: Arrays,
    device: torch.device,
) -> None:
    """Restore what `optimizer_arrays` returned."""
    optimizer.state.clear()
    for k, parameter in enumerate(parameters):
        if moments := strip_prefix(f"{prefix}.{k}", arrays):
            optimizer.state[parameter] = {n: torch.from_numpy(a.copy()).to(device) for n, a in moments.items()}
