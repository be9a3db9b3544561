"""The metrics of each step and evaluation, as they are logged to progress.jsonl."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .reward import curriculum_rewards, ngram_overlap
from .settings import AlphaCurriculumSettings
from .task_stores import count_rejections
from .tasks import Domain, Task

if TYPE_CHECKING:
    from .loop import StepBatch

SUMMED_METRICS = ("num_specs", "gradient_steps", "num_tokens")  # of an update
NEAR_TARGET = 0.1  # the paper's k_min: the distance from alpha that is logged as near, whatever the filter setting


def step_metrics(
    domain: Domain, batches: Sequence["StepBatch"], curriculum: AlphaCurriculumSettings, new_counts: Mapping[str, int],
    seconds: Mapping[str, float],
) -> dict[str, Any]:  # fmt: skip
    """Metrics of one step. `new_counts` are the counters' increments during it."""
    candidates = [candidate for batch in batches for candidate in batch.proposals.candidates]
    tasks = [candidate.task for candidate in candidates if candidate.task is not None]
    p = np.array([rate for batch in batches for rate in batch.success_rates.values()])
    scores = np.concatenate([batch.rollouts.scores for batch in batches])
    valid = np.concatenate([batch.rollouts.valid for batch in batches])
    num_tokens = new_counts["agent_tokens"] + new_counts["environment_tokens"]
    generation_seconds = seconds["rollout"] + seconds["environment"]
    return {
        "success_rate": float((scores >= curriculum.success_threshold).mean()),
        "valid_rate": float(valid.mean()),
        "zero_variance_fraction": float((np.ptp(scores, axis=1) == 0).mean()),
        "proposed_success_rate": _mean(p),
        "near_target_fraction": _mean(np.abs(p - curriculum.alpha) <= NEAR_TARGET + 1e-9),
        "environment_reward": _mean(curriculum_rewards(p, curriculum)),
        "difficulty": _mean(np.array([domain.difficulty(task.spec) for task in tasks])),
        "rejected": count_rejections(candidate.rejection for candidate in candidates),
        "fallback_tasks": sum(len(batch.rows("fallback")) for batch in batches),
        "diversity": spec_diversity(
            [candidate.text for candidate in candidates], [domain.features(task.spec) for task in tasks]
        ),
        "tokens_per_second": round(num_tokens / max(1e-9, generation_seconds)),
    }


def combine_update_metrics(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The metrics of all updates of a proposer in one step: counts are added, others averaged over gradient steps."""
    if len(updates) <= 1:
        return dict(updates[0]) if updates else {}
    num_steps = max(1.0, sum(update.get("gradient_steps", 0.0) for update in updates))
    combined: dict[str, float] = {}
    for name in dict.fromkeys(name for update in updates for name in update):
        if name in SUMMED_METRICS:
            combined[name] = sum(update.get(name, 0.0) for update in updates)
        else:
            total = sum(update["gradient_steps"] * update[name] for update in updates if name in update)
            combined[name] = total / num_steps
    return combined


def eval_metrics(domain: Domain, tasks: Sequence[Task], scores: np.ndarray) -> dict[str, Any]:
    """Mean score on the held-out tasks, overall and by the value of each feature."""
    scores_by: dict[str, dict[str, list[float]]] = {}
    for task, score in zip(tasks, scores, strict=True):
        for feature, value in domain.features(task.spec).items():
            scores_by.setdefault(feature, {}).setdefault(value, []).append(float(score))
    means = {
        feature: {value: round(float(np.mean(value_scores)), 4) for value, value_scores in sorted(values.items())}
        for feature, values in scores_by.items()
    }
    return {"eval_accuracy": float(scores.mean()), "eval_accuracy_by": means}


def spec_diversity(texts: Sequence[str], features: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """How different the specs of a step are.

    If the environment policy collapses, `distinct_fraction` and `entropy` fall and `ngram_overlap` rises.

    Args:
        texts: All generated specs, including rejected ones.
        features: The features of the accepted ones.
    """
    if not texts:
        return {"distinct_fraction": 0.0, "ngram_overlap": 0.0, "entropy": {}}
    return {
        "distinct_fraction": len(set(texts)) / len(texts),
        "ngram_overlap": float(np.mean(ngram_overlap(texts))),
        "entropy": {  # bits
            name: round(_entropy([spec[name] for spec in features if name in spec]), 3)
            for name in sorted({name for spec in features for name in spec})
        },
    }


def _entropy(values: Sequence[str]) -> float:
    probabilities = [count / len(values) for count in Counter(values).values()]
    return -sum(probability * math.log2(probability) for probability in probabilities)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None
