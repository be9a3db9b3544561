"""Success rates of skills, Crafter's score, and aggregates over seeds.

The interval of an `Aggregate` covers variation between seeds. The interval of a single evaluation covers variation
between episodes and is computed in `envgen.curriculum.evaluate`.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WINDOW_EPISODES = 256  # of the success rates and scores that are shown during training
NUM_RESAMPLES = 4000  # of the bootstrap
Z95 = 1.959964  # 95% of a normal distribution lies within this many standard deviations
MIN_COVERAGE = 0.5  # share of the steps of a phase that must belong to episodes that ended in it

# --- success rates


def has_coverage(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the episodes in progress lines make up at least half of the steps, without those of practice.

    An episode that succeeds early also ends early. In a phase that is short compared with its episodes, those that end
    are mostly successes, and their success rate says nothing about the policy. Lines without the steps pass: those of
    whole phases, and those that earlier versions wrote for each level.
    """
    steps = sum(line.get("env_steps", 0) - line.get("practice", {}).get("length_sum", 0) for line in lines)
    return sum(line.get("length_sum", 0) for line in lines) >= MIN_COVERAGE * steps


def success_counts(lines: Sequence[Mapping[str, Any]], num_skills: int) -> tuple[np.ndarray, np.ndarray]:
    """Return per progress line the episodes in which each skill succeeded, and those in which it was possible.

    Both arrays have the shape (lines, skills).
    """
    succeeded = np.array([line["succeeded"] or [0] * num_skills for line in lines])
    possible = np.array([line.get("possible") or [line["episodes"]] * num_skills for line in lines])
    return succeeded, possible


def success_rates(succeeded: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Return success rates in percent; nan for skills that were possible in no episode."""
    return np.where(possible > 0, 100 * succeeded / np.maximum(1, possible), np.nan)


class EpisodeWindow:
    """The success rates of the last WINDOW_EPISODES episodes or a few more, from progress lines."""

    def __init__(self, num_skills: int):
        self.num_skills = num_skills
        self._lines: deque[Mapping[str, Any]] = deque()

    def add(self, line: Mapping[str, Any]) -> None:
        self._lines.append(line)
        while sum(line["episodes"] for line in self._lines) - self._lines[0]["episodes"] >= WINDOW_EPISODES:
            self._lines.popleft()

    def success_rates(self) -> np.ndarray:
        """Return success rates in percent; nan for skills that were possible in no episode."""
        succeeded, possible = (counts.sum(0) for counts in success_counts(list(self._lines), self.num_skills))
        return success_rates(succeeded, possible)


def score(rates: np.ndarray) -> float:
    """Return Crafter's score of success rates in percent: exp(mean(ln(1 + rate))) - 1 over the last axis.

    Skills whose rate is nan (possible in no episode) are left out.
    """
    is_known = np.isfinite(rates)
    logs = np.log1p(np.where(is_known, rates, 0)).sum(-1)
    return np.expm1(logs / np.maximum(1, is_known.sum(-1)))


def is_unmeasured(low: Any, high: Any) -> bool:
    """Return whether this is the interval of a success rate of no episodes."""
    return (low, high) == (0, 100)


def wilson_interval(successes: float, n: int) -> tuple[float, float]:
    """Return the 95% score interval of a success rate (Wilson 1927), which also works at 0 and 1."""
    p = successes / n
    center = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    margin = Z95 * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n)) / (1 + Z95**2 / n)
    return max(0.0, center - margin), min(1.0, center + margin)


# --- aggregates over seeds


@dataclass(frozen=True)
class Aggregate:
    """The interquartile mean of `n` seeds with its 95% bootstrap interval. A single seed has no interval."""

    value: float
    low: float | None
    high: float | None
    n: int

    def is_above(self, other: "Aggregate") -> bool:
        """Return whether this interval lies entirely above that of `other`, by more than a rounding error."""
        return self.low is not None and other.high is not None and self.low > other.high + 1e-9

    def __str__(self) -> str:
        return f"{self.value:.1f}" if self.low is None else f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def iqm(values: Any) -> Any:
    """Return the interquartile mean over the last axis (Agarwal et al. 2021): the mean of the middle half.

    Each of n values covers 1/n of the distribution and is weighted by the part of it between the quartiles. Of four
    values the middle two count; three values have the weights 1/6, 4/6 and 1/6; of one or two values it is the mean.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    n = ordered.shape[-1]
    if n == 0:
        raise ValueError("an interquartile mean needs at least 1 value")
    edges = np.clip(np.arange(n + 1) / n, 0.25, 0.75)
    return ordered @ (2 * np.diff(edges))


def iqm_with_ci(values: Sequence[float]) -> Aggregate:
    """Return the interquartile mean of one value per seed, with a 95% interval from a seeded bootstrap over seeds."""
    n, value = len(values), float(iqm(values))
    if n == 1:
        return Aggregate(value, None, None, n)
    indices = np.random.default_rng(0).integers(n, size=(NUM_RESAMPLES, n))
    low, high = np.quantile(iqm(np.asarray(values, np.float64)[indices]), [0.025, 0.975])
    return Aggregate(value, float(low), float(high), n)
