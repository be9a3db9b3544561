"""The account that a run gives of each step and test, as one line of progress."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .diversity import diversity
from .reward import rewards
from .settings import Curriculum
from .task_filter import counted
from .tasks import Domain, Task

if TYPE_CHECKING:
    from .loop import Turn

NEAR = 0.1  # the paper's k_min: within it p counts as near alpha, whatever the filter is


def told_of_step(
    domain: Domain, turns: Sequence["Turn"], curriculum: Curriculum, spent: Mapping[str, int],
    seconds: Mapping[str, float],
) -> dict[str, Any]:  # fmt: skip
    written = [one for turn in turns for one in turn.proposals.written]
    tasks = [one.task for one in written if one.task is not None]
    p = np.concatenate([turn.p for turn in turns])
    scores = np.concatenate([turn.rolled.scores for turn in turns])
    valid = np.concatenate([turn.rolled.valid for turn in turns])
    tokens, writing = spent["agent_tokens"] + spent["environment_tokens"], seconds["rollout"] + seconds["environment"]
    return {
        "success": float((scores >= curriculum.success).mean()),
        "valid": float(valid.mean()),
        "flat": float((np.ptp(scores, axis=1) == 0).mean()),
        "p": _mean(p),  # of the tasks proposed
        "near": _mean(np.abs(p - curriculum.alpha) <= NEAR + 1e-9),
        "reward": _mean(rewards(p, curriculum)),
        "difficulty": _mean(np.array([domain.difficulty(task.spec) for task in tasks])),
        "refused": counted(one.reason for one in written if one.reason),
        "fallbacks": sum(turn.fallbacks for turn in turns),
        "diversity": diversity([one.text for one in written], [domain.features(task.spec) for task in tasks]),
        "tokens_per_second": round(tokens / max(1e-9, writing)),
    }


def told_of_test(domain: Domain, tasks: Sequence[Task], scores: np.ndarray) -> dict[str, Any]:
    by: dict[str, dict[str, list[float]]] = {}
    for task, score in zip(tasks, scores, strict=True):
        for field, value in domain.features(task.spec).items():
            by.setdefault(field, {}).setdefault(value, []).append(float(score))
    means = {
        field: {value: round(float(np.mean(found)), 4) for value, found in sorted(values.items())}
        for field, values in by.items()
    }
    return {"test": float(scores.mean()), "test_by": means}


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None
