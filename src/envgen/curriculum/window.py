"""What the training episodes of a phase showed: the measure that EnvGen and most Crafter papers publish.

The score is taken over all episodes that ended in the phase, so it lies below what the final policy can do; the reward
is the mean over those that ended in its last 100,000 steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from envgen.runs.statistics import score, success_counts, success_rates

REWARD_WINDOW = 100_000  # steps


class TrainingStats(BaseModel):
    """Rates and score are percentages."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    episodes: int
    score: float
    reward: float
    skills: dict[str, float]


def training_stats(lines: Iterable[Mapping[str, Any]], skills: Sequence[str]) -> TrainingStats | None:
    """Of the lines of progress of a phase; None if no episode ended in it."""
    lines = list(lines)
    episodes = np.array([line["episodes"] for line in lines])
    if not episodes.sum():
        return None
    returns = np.array([line["return_sum"] for line in lines])
    succeeded, possible = success_counts(lines, len(skills))
    steps = np.array([line["steps"] for line in lines])
    late = steps > steps[-1] - REWARD_WINDOW
    if not episodes[late].sum():
        late[:] = True
    rates = success_rates(succeeded.sum(0), possible.sum(0))
    return TrainingStats(
        episodes=int(episodes.sum()),
        score=float(score(rates)),
        reward=float(returns[late].sum() / episodes[late].sum()),
        skills=dict(zip(skills, np.nan_to_num(rates).tolist(), strict=True)),
    )
