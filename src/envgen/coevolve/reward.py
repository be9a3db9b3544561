"""The alpha-curriculum: what a task is worth to the environment that wrote it (GenEnv, sections 2.2 and 2.3)."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .settings import Curriculum


def success_rates(scores: np.ndarray, groups: Sequence[int], curriculum: Curriculum) -> np.ndarray:
    """Equation 2: p of each task (N,), from the scores (N, G) of its replies. Equal `groups` are variations of one."""
    hits = (scores >= curriculum.success).mean(1)
    if curriculum.unit == "task":
        return hits
    group = np.zeros(len(hits), np.int64) if curriculum.unit == "batch" else np.asarray(groups)
    return np.array([hits[group == g].mean() for g in group])


def rewards(p: np.ndarray, curriculum: Curriculum) -> np.ndarray:
    """Equation 3."""
    return np.exp(-curriculum.beta * (p - curriculum.alpha) ** 2)


def passes(p: np.ndarray, curriculum: Curriculum) -> np.ndarray:
    """Which tasks lie near enough to alpha to be learned from by regression."""
    if curriculum.filter is None:
        return np.ones(p.shape, np.bool_)
    return np.abs(p - curriculum.alpha) <= curriculum.filter + 1e-9


def weights(values: np.ndarray, curriculum: Curriculum) -> np.ndarray:
    """exp(lambda R), with mean 1 so that lambda says nothing about the step's length."""
    raw = np.exp(curriculum.weight * values)
    return raw / raw.mean() if raw.size else raw


def acceptance(n: int, p: float, curriculum: Curriculum) -> float:
    """How often a task of success rate p passes the filter when n replies are seen."""
    seen = np.arange(n + 1) / n
    chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    return float(np.array(chances)[passes(seen, curriculum)].sum())


def repetition(texts: Sequence[str], n: int = 3) -> np.ndarray:
    """Of each text, the mean over its n-grams of words of the share of the others that have it too, (texts,)."""
    grams = [_grams(text, n) for text in texts]
    held = Counter(gram for found in grams for gram in found)
    others = max(1, len(texts) - 1)
    return np.array([sum((held[g] - 1) / others for g in found) / max(1, len(found)) for found in grams])


def _grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = "".join(c if c.isalnum() or c == "$" else " " for c in text).split()
    return {tuple(words[k : k + n]) for k in range(len(words) - n + 1)}
