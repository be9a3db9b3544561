"""The normalization of returns, which gives the values of a network their scale."""

import torch
from torch import nn


class ReturnNormalizer(nn.Module):
    """Exponentially weighted mean and variance of returns, debiased. With `decay=None` it does nothing.

    The statistics are in float64, because the variance is a difference of squares, which may be large.
    """

    running_mean: torch.Tensor
    running_mean_sq: torch.Tensor
    debiasing_term: torch.Tensor
    MIN_VARIANCE = 1e-2

    def __init__(self, decay: float | None):
        super().__init__()
        self.decay = decay
        for name in ("running_mean", "running_mean_sq", "debiasing_term"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def update(self, mean: torch.Tensor, mean_sq: torch.Tensor) -> None:
        """Add the mean and the mean square of a batch of returns."""
        if self.decay is not None:
            for buffer, new in ((self.running_mean, mean), (self.running_mean_sq, mean_sq), (self.debiasing_term, 1.0)):
                buffer.mul_(self.decay).add_(new * (1 - self.decay))

    def _mean_and_std(self) -> tuple[torch.Tensor, torch.Tensor]:
        zero, one = torch.zeros_like(self.running_mean), torch.ones_like(self.running_mean)
        if self.decay is None:
            return zero, one
        mean = self.running_mean / self.debiasing_term
        variance = self.running_mean_sq / self.debiasing_term - mean.square()
        has_data = self.debiasing_term > 0  # not a branch, which would wait for a GPU
        return mean.where(has_data, zero), variance.clamp(min=self.MIN_VARIANCE).sqrt().where(has_data, one)

    def normalize(self, returns: torch.Tensor) -> torch.Tensor:
        mean, std = self._mean_and_std()
        return (returns - mean) / std

    def denormalize(self, values: torch.Tensor) -> torch.Tensor:
        mean, std = self._mean_and_std()
        return values * std + mean
