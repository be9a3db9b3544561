"""Success rates of skills and the score made of them, from the tallies that lines of progress hold.

Not here: intervals. Those of one agent's episodes are an evaluation's, those over seeds are in figures.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def score(rates: np.ndarray) -> float:
    """Crafter's score of success rates in percent: exp(mean ln(1 + s)) - 1, over the last axis; without those that are
    nan, of skills that no episode could hold."""
    known = np.isfinite(rates)
    logs = np.log1p(np.where(known, rates, 0)).sum(-1)
    return np.expm1(logs / np.maximum(1, known.sum(-1)))


def success_rates(succeeded: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Percentages; nan for what was never possible."""
    return np.where(possible > 0, 100 * succeeded / np.maximum(1, possible), np.nan)


def success_counts(lines: Sequence[Mapping[str, Any]], skills: int) -> tuple[np.ndarray, np.ndarray]:
    """In how many episodes of each line each skill succeeded, and in how many it could, (lines, skills)."""
    succeeded = np.array([line["succeeded"] or [0] * skills for line in lines])
    possible = np.array([line.get("possible") or [line["episodes"]] * skills for line in lines])
    return succeeded, possible
