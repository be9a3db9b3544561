"""Success rates and the reward of the environment: equation 3, the filter, the weights and the success statistics."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgen.coevolution.metrics import spec_diversity
from envgen.coevolution.reward import (
    DECAY,
    SuccessStats,
    acceptance_rate,
    curriculum_rewards,
    feature_surprisal,
    near_target,
    ngram_overlap,
    rwr_weights,
    success_rates,
    to_tenths,
)
from envgen.coevolution.settings import AlphaCurriculumSettings

FRACTIONS = st.floats(0, 1)
SCORES = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.9, 0.0]])


def test_reward_is_one_at_alpha_and_decreases_by_equation_3():
    p = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    for beta in (2.0, 4.0, 10.0):
        expected = [math.exp(-beta * (x - 0.5) ** 2) for x in p]
        np.testing.assert_allclose(curriculum_rewards(p, AlphaCurriculumSettings(beta=beta)), expected, rtol=1e-12)
    expected = [0.36788, 0.77880, 1.0, 0.77880, 0.36788]
    assert curriculum_rewards(p, AlphaCurriculumSettings(beta=4.0)) == pytest.approx(expected, abs=1e-5)
    rewards = curriculum_rewards(np.array([0.2, 0.5]), AlphaCurriculumSettings(alpha=0.2, beta=4.0))
    assert rewards == pytest.approx([1.0, math.exp(-0.36)])


@given(p=FRACTIONS, alpha=FRACTIONS, beta=st.floats(0.01, 50))
def test_reward_is_in_the_unit_interval_and_symmetric(p, alpha, beta):
    reward, mirrored = curriculum_rewards(np.array([p, 2 * alpha - p]), AlphaCurriculumSettings(alpha=alpha, beta=beta))
    assert 0 <= reward <= 1
    assert reward == pytest.approx(mirrored, rel=1e-9)


def test_success_rate_over_task_group_or_batch():
    groups = [0, 0, 1, 1]
    rates = [
        success_rates(SCORES, groups, AlphaCurriculumSettings(success_over=over)).tolist()
        for over in ("task", "group", "batch")
    ]
    assert rates == [[0.5, 1.0, 0.0, 0.25], [0.75, 0.75, 0.125, 0.125], [0.4375] * 4]


def test_scores_from_the_threshold_on_count_as_success():
    assert success_rates(SCORES, [0] * 4, AlphaCurriculumSettings(success_threshold=0.9)).tolist() == [
        0.5,
        1.0,
        0.0,
        0.5,
    ]
    assert success_rates(SCORES, [0] * 4, AlphaCurriculumSettings(success_threshold=0.5)).tolist() == [
        0.5,
        1.0,
        0.0,
        0.75,
    ]


def test_empty_batches_give_empty_arrays():
    for over in ("task", "group", "batch"):
        p = success_rates(np.zeros((0, 4)), [], AlphaCurriculumSettings(success_over=over))
        rewards, weights = curriculum_rewards(p, AlphaCurriculumSettings()), rwr_weights(p, AlphaCurriculumSettings())
        assert p.shape == rewards.shape == weights.shape == (0,)


@pytest.mark.parametrize(("n", "accepted"), [(4, {2}), (8, {4}), (10, {4, 5, 6}), (16, {7, 8, 9})])
def test_filter_accepts_rates_within_the_tolerance_inclusive(n, accepted):
    is_near = near_target(np.arange(n + 1) / n, AlphaCurriculumSettings())
    assert set(np.flatnonzero(is_near)) == accepted
    assert near_target(np.arange(n + 1) / n, AlphaCurriculumSettings(filter_tolerance=None)).all()


@pytest.mark.parametrize(
    ("n", "p", "expected"), [(4, 0.5, 0.375), (4, 0.138, 0.085), (8, 0.5, 0.273), (8, 0.138, 0.014)]
)
def test_acceptance_rate_has_known_values(n, p, expected):
    assert acceptance_rate(n, p, AlphaCurriculumSettings()) == pytest.approx(expected, abs=5e-4)


def test_acceptance_rate_matches_simulation():
    observed = np.random.default_rng(0).binomial(8, 0.3, 50_000) / 8
    curriculum = AlphaCurriculumSettings(alpha=0.4, filter_tolerance=0.2)
    assert acceptance_rate(8, 0.3, curriculum) == pytest.approx(near_target(observed, curriculum).mean(), abs=0.01)


@given(st.lists(FRACTIONS, min_size=1, max_size=30), st.floats(0.01, 100))
def test_weights_differ_by_at_most_a_factor_of_e_for_lambda_one(p, beta):
    curriculum = AlphaCurriculumSettings(beta=beta, filter_tolerance=None)
    weights = rwr_weights(curriculum_rewards(np.array(p), curriculum), curriculum)
    assert weights.mean() == pytest.approx(1)
    assert weights.max() / weights.min() <= math.e + 1e-9


def test_weights_are_nearly_flat_within_the_filter():
    """The filter selects specs; the reward hardly weighs them."""
    curriculum = AlphaCurriculumSettings(beta=2.0)
    for interval, max_ratio in (((0, 1), 1.48), ((0.4, 0.6), 1.02)):
        weights = rwr_weights(curriculum_rewards(np.linspace(*interval, 101), curriculum), curriculum)
        assert weights.max() / weights.min() == pytest.approx(max_ratio, abs=5e-3)
    accepted = np.array([2 / 4, 2 / 4])
    assert rwr_weights(curriculum_rewards(accepted, curriculum), curriculum).tolist() == [1.0, 1.0]


def test_lambda_scales_the_log_of_the_weights():
    rewards = np.array([0.2, 1.0])
    for rwr_lambda in (0.0, 1.0, 5.0):
        low, high = rwr_weights(rewards, AlphaCurriculumSettings(rwr_lambda=rwr_lambda))
        assert high / low == pytest.approx(math.exp(0.8 * rwr_lambda))


def test_weights_neither_overflow_nor_change():
    rewards = np.array([0.2, 1.0, 0.6])
    expected = np.exp(rewards) / np.exp(rewards).mean()
    assert rwr_weights(rewards, AlphaCurriculumSettings()) == pytest.approx(expected, rel=1e-14)
    for rwr_lambda in (1e4, 1e308):
        assert rwr_weights(rewards, AlphaCurriculumSettings(rwr_lambda=rwr_lambda)).tolist() == [0.0, 3.0, 0.0]
    assert rwr_weights(1e6 * rewards, AlphaCurriculumSettings()).tolist() == [0.0, 3.0, 0.0]
    assert rwr_weights(np.array([]), AlphaCurriculumSettings()).size == 0


def reference_overlap(texts, n=3):
    """By definition: for each text, the mean over its n-grams of the fraction of other texts that contain it."""

    def ngrams(text):
        words = text.split()
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    overlaps = []
    for k, text in enumerate(texts):
        others = [other for j, other in enumerate(texts) if j != k]
        shares = [sum(ngram in ngrams(o) for o in others) / max(1, len(others)) for ngram in ngrams(text)]
        overlaps.append(sum(shares) / max(1, len(shares)))
    return overlaps


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=7).map(" ".join), max_size=6))
def test_ngram_overlap_matches_its_definition(texts):
    assert ngram_overlap(texts).tolist() == pytest.approx(reference_overlap(texts))


def test_ngram_overlap_of_copies_is_one_and_of_distinct_texts_zero():
    assert ngram_overlap(['{"a":1,"b":2}'] * 3).tolist() == [1.0] * 3
    assert ngram_overlap(["a b c d", "e f g h", "a b"]).tolist() == [0.0, 0.0, 0.0]
    assert ngram_overlap(["a b c d"]).tolist() == [0.0]
    assert ngram_overlap(['{"ask":"$1 or more"}', "ask $1 or less"]).tolist() == [0.5, 0.5]  # ignores punctuation
    assert ngram_overlap([]).shape == (0,)


def test_ngram_overlap_is_the_same_for_all_hash_seeds():
    code = (
        "import numpy as np; from envgen.coevolution.reward import ngram_overlap; rng = np.random.default_rng(0); "
        "words = [f'word{k}' for k in range(12)]; "
        "texts = [' '.join(rng.choice(words, 60)) for _ in range(40)]; print(ngram_overlap(texts).tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }  # fmt: skip
    assert len(outputs) == 1


def test_success_rates_are_shown_in_tenths():
    stats = SuccessStats()
    assert stats.to_prompt() == "nothing yet"
    stats.add({"steps": "1", "style": "plain"}, 7, 8)
    stats.add({"steps": "2", "style": "plain"}, 0, 8)
    stats.add({"steps": "1", "style": "brief"}, 8, 8)
    assert stats.to_prompt() == "steps 1:9 2:0, style brief:10 plain:4"
    assert stats.rates()["steps"] == {"1": 15 / 16, "2": 0.0}


@pytest.mark.parametrize(
    ("rate", "tenths"), [(0.0, 0), (0.04, 0), (0.05, 1), (0.25, 3), (0.35, 4), (0.5, 5), (1.0, 10)]
)
def test_rates_are_rounded_half_up(rate, tenths):
    assert to_tenths(rate) == tenths


def test_old_successes_decay_until_they_are_no_longer_shown():
    stats = SuccessStats()
    stats.add({"steps": "1"}, 8, 8)
    for _ in range(10):
        stats.decay()
    stats.add({"steps": "1"}, 0, 8)
    decayed = 8 * DECAY**10
    assert stats.rates()["steps"]["1"] == pytest.approx(decayed / (decayed + 8))
    stats.add({"steps": "2"}, 4, 8)
    for _ in range(20):
        stats.decay()
    assert stats.to_prompt() == "steps 1:3"
    for _ in range(5):
        stats.decay()
    assert stats.to_prompt() == "nothing yet"


def test_prediction_without_data_is_one_half():
    assert SuccessStats().predict({"steps": "1"}) == 0.5


def test_predictions_combine_the_effects_of_features():
    stats = SuccessStats()
    for steps, style, successes in (("1", "plain", 90), ("1", "brief", 70), ("2", "plain", 40), ("2", "brief", 15)):
        stats.add({"steps": steps, "style": style}, successes, 100)
    assert stats.predict({"steps": "1", "style": "plain"}) == pytest.approx(0.9, abs=0.05)
    assert stats.predict({"steps": "2", "style": "brief"}) == pytest.approx(0.15, abs=0.06)
    assert stats.predict({"steps": "9", "style": "other"}) == pytest.approx(215 / 400, abs=0.01)  # the overall rate
    ordered = [stats.predict({"steps": s, "style": t}) for s in "21" for t in ("brief", "plain")]
    assert ordered == sorted(ordered)


def test_predictions_trust_few_replies_less():
    few, many = SuccessStats(), SuccessStats()
    for stats, count in ((few, 1), (many, 100)):
        stats.add({"steps": "1"}, 50, 100)
        stats.add({"steps": "2"}, 0, count)
    assert many.predict({"steps": "2"}) < 0.1 < few.predict({"steps": "2"}) < 0.5


OBSERVATIONS = st.lists(st.tuples(st.sampled_from("123"), st.sampled_from("ab"), st.integers(0, 8)), max_size=20)


@given(OBSERVATIONS, OBSERVATIONS)
def test_success_stats_restore_exactly_through_json(before, after):
    def record(stats, observations):
        for steps, style, successes in observations:
            stats.add({"steps": steps, "style": style}, successes, 8)
            stats.decay()
        return stats

    stats = record(SuccessStats(), before)
    restored = SuccessStats()
    restored.load(json.loads(json.dumps(stats.state())))
    record(stats, after), record(restored, after)
    assert restored.state() == stats.state()
    assert restored.to_prompt() == stats.to_prompt()
    for steps in "123":
        features = {"steps": steps, "style": "a"}
        assert restored.predict(features) == stats.predict(features)
        assert 0 < stats.predict(features) < 1


def test_feature_surprisal_is_large_for_rare_values_and_its_mean_is_the_entropy_of_the_features():
    specs = [{"steps": "1", "style": "plain"}] * 3 + [{"steps": "2", "style": "plain"}]
    surprisal = feature_surprisal(specs)
    assert surprisal.tolist() == pytest.approx([math.log2(4 / 3) / 2] * 3 + [2 / 2])
    entropy = spec_diversity(["{}"] * 4, specs)["entropy"]
    assert surprisal.mean() == pytest.approx(np.mean([entropy["steps"], entropy["style"]]), abs=1e-3)


def test_feature_surprisal_compares_only_specs_that_have_the_feature():
    surprisal = feature_surprisal([{"steps": "1"}, {"steps": "1", "app": "bank"}, {"app": "shop"}, {}])
    assert surprisal.tolist() == [0.0, 0.5, 1.0, 0.0]
    assert feature_surprisal([]).shape == (0,)
