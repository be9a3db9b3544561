"""What can go wrong between an agent and its environments, each with a sentence that says what."""

import torch


class SpaceError(ValueError):
    """An observation or action space that no network here fits, or that is not the agent's."""


class NonFiniteLossError(ArithmeticError):
    """A loss that is not a number; the message describes the batch. The step that would have followed was not taken."""


def describe_batch(part: dict[str, torch.Tensor], metrics: dict[str, float], where: str) -> str:
    """`policy_loss is nan in update 3, ...; the batch: seen (512, 81) 0 to 12; actions (512,) 0 to 16; ...`"""
    bad = [f"{name} is {value}" for name, value in metrics.items() if not abs(value) < float("inf")]
    lines = []
    for name, values in part.items():
        spoilt = 0 if not values.is_floating_point() else int((~values.isfinite()).sum())
        reach = f"{values.min().item():.4g} to {values.max().item():.4g}" if values.numel() else "empty"
        lines.append(f"{name} {tuple(values.shape)} {reach}" + (f" with {spoilt} not finite" if spoilt else ""))
    return f"{', '.join(bad)} in {where}; the batch: {'; '.join(lines)}"
