"""Errors raised by learners."""

import torch

from envgen.errors import EnvgenError


class SpaceError(EnvgenError, ValueError):
    """No network supports this observation or action space, or it differs from the learner's."""


def describe_batch(minibatch: dict[str, torch.Tensor], metrics: dict[str, float], location: str) -> str:
    """`policy_loss is nan in update 3, ...; the minibatch: obs (512, 81) 0 to 12; ...; lower the learning rate, ...`"""
    non_finite = [f"{name} is {value}" for name, value in metrics.items() if not abs(value) < float("inf")]
    parts = []
    for name, tensor in minibatch.items():
        bad_count = int((~tensor.isfinite()).sum()) if tensor.is_floating_point() else 0
        value_range = f"{tensor.min().item():.4g} to {tensor.max().item():.4g}" if tensor.numel() else "empty"
        parts.append(
            f"{name} {tuple(tensor.shape)} {value_range}" + (f" with {bad_count} not finite" if bad_count else "")
        )
    return (
        f"{', '.join(non_finite)} in {location}; the minibatch: {'; '.join(parts)}; lower the learning rate, or "
        "fix the environment if its observations or rewards are not finite"
    )
