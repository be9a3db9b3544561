"""Success rates and the alpha-curriculum reward of the environment (GenEnv, sections 2.2 and 2.3)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .settings import AlphaCurriculumSettings

DECAY = 0.9  # of the success statistics after each step
PRIOR_COUNT = 1.0  # weight of the prior in replies; success rates of fewer replies are not reported


def success_rates(scores: np.ndarray, groups: Sequence[int], curriculum: AlphaCurriculumSettings) -> np.ndarray:
    """Equation 2: p of each task (N,) from the scores (N, G) of its replies.

    Tasks with equal `groups` are variations of one spec.
    """
    rates = (scores >= curriculum.success_threshold).mean(1)
    if curriculum.success_over == "task":
        return rates
    group_ids = np.zeros(len(rates), np.int64) if curriculum.success_over == "batch" else np.asarray(groups)
    return np.array([rates[group_ids == group_id].mean() for group_id in group_ids])


def curriculum_rewards(p: np.ndarray, curriculum: AlphaCurriculumSettings) -> np.ndarray:
    """Equation 3: R = exp(-beta (p - alpha)^2)."""
    return np.exp(-curriculum.beta * (p - curriculum.alpha) ** 2)


def near_target(p: np.ndarray, curriculum: AlphaCurriculumSettings) -> np.ndarray:
    """Whether each success rate is close enough to alpha for reward-weighted regression."""
    if curriculum.filter_tolerance is None:
        return np.ones(p.shape, np.bool_)
    return np.abs(p - curriculum.alpha) <= curriculum.filter_tolerance + 1e-9


def rwr_weights(rewards: np.ndarray, curriculum: AlphaCurriculumSettings) -> np.ndarray:
    """exp(lambda R), normalized to mean 1 so that lambda does not change the step size."""
    if not rewards.size:
        return rewards
    raw = np.exp(curriculum.rwr_lambda * (rewards - rewards.max()))  # of differences, which cannot overflow
    return raw / raw.mean()


def acceptance_rate(n: int, p: float, curriculum: AlphaCurriculumSettings) -> float:
    """The probability that a task of true success rate p passes `near_target` when n replies are sampled."""
    observed = np.arange(n + 1) / n
    probabilities = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    return float(np.array(probabilities)[near_target(observed, curriculum)].sum())


def ngram_overlap(texts: Sequence[str], n: int = 3) -> np.ndarray:
    """For each text, the mean over its word n-grams of the fraction of other texts that contain it, (texts,)."""
    ngrams = [_ngrams(text, n) for text in texts]
    counts = Counter(ngram for text_ngrams in ngrams for ngram in text_ngrams)
    others = max(1, len(texts) - 1)
    return np.array([sum((counts[g] - 1) / others for g in own) / max(1, len(own)) for own in ngrams])


def feature_surprisal(features: Sequence[Mapping[str, str]]) -> np.ndarray:
    """For each spec, the mean over its features of -log2 of the fraction of specs with the same value, (specs,)."""
    counts = Counter(item for spec in features for item in spec.items())
    totals = Counter(name for spec in features for name in spec)
    return np.array(
        [
            sum(math.log2(totals[name] / counts[name, value]) for name, value in spec.items()) / max(1, len(spec))
            for spec in features
        ]
    )


def _ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    """The distinct n-grams, sorted: the order of a set, and so a sum over it, differs between processes."""
    words = "".join(c if c.isalnum() or c == "$" else " " for c in text).split()
    return sorted({tuple(words[k : k + n]) for k in range(len(words) - n + 1)})


def to_tenths(rate: float) -> int:
    """A rate as prompts show it, rounded half up."""
    return math.floor(10 * rate + 0.5)


class SuccessStats:
    """Exponentially decayed success rates by feature.

    The prompts of the environment policy contain them, and `predict` estimates the success rate of a spec from them.
    """

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, list[float]]] = {}  # feature: value: [successes, replies], decayed

    def add(self, features: Mapping[str, str], successes: float, replies: int) -> None:
        for feature, value in features.items():
            count = self.counts.setdefault(feature, {}).setdefault(value, [0.0, 0.0])
            count[0] += successes
            count[1] += replies

    def decay(self) -> None:
        for values in self.counts.values():
            for count in values.values():
                count[:] = [DECAY * number for number in count]

    def rates(self) -> dict[str, dict[str, float]]:
        return {
            feature: {
                value: successes / replies
                for value, (successes, replies) in sorted(values.items())
                if replies >= PRIOR_COUNT
            }
            for feature, values in sorted(self.counts.items())
        }

    def to_prompt(self) -> str:
        """Success rates in tenths: `steps 1:9 2:7 3:2, style brief:5 plain:6`."""
        parts = [
            " ".join([feature, *(f"{value}:{to_tenths(rate)}" for value, rate in values.items())])
            for feature, values in self.rates().items()
            if values
        ]
        return ", ".join(parts) or "nothing yet"

    def predict(self, features: Mapping[str, str]) -> float:
        """The expected success rate: the overall rate, shifted by the effect of each feature in log-odds."""
        first = next(iter(self.counts.values()), {})  # every task counts once in each feature
        successes, replies = sum(count[0] for count in first.values()), sum(count[1] for count in first.values())
        overall = _log_odds(successes, replies)
        log_odds = overall
        for feature, value in features.items():
            successes, replies = self.counts.get(feature, {}).get(value, (0.0, 0.0))
            trust = replies / (replies + 4 * PRIOR_COUNT)  # shrink the effect of values with few replies
            log_odds += trust * (_log_odds(successes, replies) - overall)
        return 1 / (1 + math.exp(-log_odds))

    def state(self) -> dict[str, Any]:
        return self.counts

    def load(self, state: Mapping[str, Any]) -> None:
        self.counts = {
            feature: {value: list(count) for value, count in values.items()} for feature, values in state.items()
        }


def _log_odds(successes: float, replies: float) -> float:
    """Log-odds of success with half a success and half a failure added."""
    return math.log((successes + 0.5 * PRIOR_COUNT) / (replies - successes + 0.5 * PRIOR_COUNT))
