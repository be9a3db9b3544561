"""How different the specs of a step are from one another: the numbers that would show an environment collapsing."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .reward import repetition


def diversity(texts: Sequence[str], fields: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Of the specs that were written, whatever became of them, and the fields of those that are tasks."""
    if not texts:
        return {"distinct": 0.0, "repeats": 0.0, "entropy": {}}
    return {
        "distinct": len(set(texts)) / len(texts),
        "repeats": float(np.mean(repetition(texts))),  # of 3-grams of words, by how many of the others share them
        "entropy": {
            name: round(_bits([one[name] for one in fields if name in one]), 3)
            for name in sorted({name for one in fields for name in one})
        },
    }


def _bits(values: Sequence[str]) -> float:
    shares = [count / len(values) for count in Counter(values).values()]
    return -sum(share * math.log2(share) for share in shares)
