"""A figure over the seeds of a group of runs: the interquartile mean with a 95% bootstrap interval.

After Agarwal et al. 2021, who made it for a handful of seeds. The interval says how far other seeds might lead, not how
exactly one run was evaluated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 4000  # of the bootstrap


@dataclass(frozen=True)
class Aggregate:
    """A number with its 95% interval over `n` seeds; one seed has no interval."""

    value: float
    low: float | None
    high: float | None
    n: int

    def is_above(self, other: "Aggregate") -> bool:
        """Whether this interval lies wholly above that of `other`, by more than rounding may do."""
        return self.low is not None and other.high is not None and self.low > other.high + 1e-9

    def __str__(self) -> str:
        return f"{self.value:.1f}" if self.low is None else f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def iqm(values: Any) -> Any:
    """The interquartile mean over the last axis: the mean of the middle half of the sorted values.

    Each of n values is 1/n of the whole, and counts with as much of that as lies between a quarter and three quarters.
    Of four the middle two count; three weigh 1/6, 4/6 and 1/6; of one or two it is the mean.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    n = ordered.shape[-1]
    if n == 0:
        raise ValueError("an interquartile mean takes at least 1 value")
    borders = np.clip(np.arange(n + 1) / n, 0.25, 0.75)
    return ordered @ (2 * np.diff(borders))


def iqm_with_ci(values: Sequence[float]) -> Aggregate:
    """The interquartile mean of one value a seed, with the interval of resampled seeds; the same every time."""
    n, middle = len(values), float(iqm(values))
    if n == 1:
        return Aggregate(middle, None, None, n)
    drawn = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.quantile(iqm(np.asarray(values, np.float64)[drawn]), [0.025, 0.975])
    return Aggregate(middle, float(low), float(high), n)
