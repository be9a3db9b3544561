"""What a task is worth to who wrote it: equation 3, the filter and the weights, with the figures they come to."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from envgen.coevolve.reward import acceptance, passes, repetition, rewards, success_rates, weights
from envgen.coevolve.settings import Curriculum

UNIT = some.floats(0, 1)


def test_the_reward_is_one_at_alpha_and_falls_as_equation_3_says():
    p = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    for beta in (2.0, 4.0, 10.0):
        expected = [math.exp(-beta * (x - 0.5) ** 2) for x in p]
        np.testing.assert_allclose(rewards(p, Curriculum(beta=beta)), expected, rtol=1e-12)
    assert rewards(p, Curriculum(beta=4.0)) == pytest.approx([0.36788, 0.77880, 1.0, 0.77880, 0.36788], abs=1e-5)
    assert rewards(np.array([0.2, 0.5]), Curriculum(alpha=0.2, beta=4.0)) == pytest.approx([1.0, math.exp(-0.36)])


@given(p=UNIT, alpha=UNIT, beta=some.floats(0.01, 50))
def test_the_reward_is_positive_never_above_one_and_alike_on_both_sides(p, alpha, beta):
    curriculum = Curriculum(alpha=alpha, beta=beta)
    found, mirrored = rewards(np.array([p, 2 * alpha - p]), curriculum)
    assert 0 <= found <= 1
    assert found == pytest.approx(mirrored, rel=1e-9)


SCORES = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.9, 0.0]])


def test_success_is_taken_over_a_task_the_variations_of_one_or_all():
    groups = [0, 0, 1, 1]
    each = [success_rates(SCORES, groups, Curriculum(unit=unit)).tolist() for unit in ("task", "group", "batch")]
    assert each == [[0.5, 1.0, 0.0, 0.25], [0.75, 0.75, 0.125, 0.125], [0.4375] * 4]


def test_success_is_a_score_from_the_threshold_on():
    assert success_rates(SCORES, [0] * 4, Curriculum(success=0.9)).tolist() == [0.5, 1.0, 0.0, 0.5]
    assert success_rates(SCORES, [0] * 4, Curriculum(success=0.5)).tolist() == [0.5, 1.0, 0.0, 0.75]


def test_of_no_tasks_nothing_is_said():
    for unit in ("task", "group", "batch"):
        p = success_rates(np.zeros((0, 4)), [], Curriculum(unit=unit))
        assert p.shape == rewards(p, Curriculum()).shape == weights(p, Curriculum()).shape == (0,)


@pytest.mark.parametrize(("n", "pass_"), [(4, {2}), (8, {4}), (10, {4, 5, 6}), (16, {7, 8, 9})])
def test_the_filter_lets_through_what_is_within_a_tenth_its_edge_included(n, pass_):
    near = passes(np.arange(n + 1) / n, Curriculum())
    assert set(np.flatnonzero(near)) == pass_
    assert passes(np.arange(n + 1) / n, Curriculum(filter=None)).all()


@pytest.mark.parametrize(
    ("n", "p", "expected"), [(4, 0.5, 0.375), (4, 0.138, 0.085), (8, 0.5, 0.273), (8, 0.138, 0.014)]
)
def test_how_often_a_task_passes(n, p, expected):
    """The figures of facts/genenv.md, point 8."""
    assert acceptance(n, p, Curriculum()) == pytest.approx(expected, abs=5e-4)


def test_how_often_a_task_passes_is_what_is_seen():
    seen = np.random.default_rng(0).binomial(8, 0.3, 50_000) / 8
    curriculum = Curriculum(alpha=0.4, filter=0.2)
    assert acceptance(8, 0.3, curriculum) == pytest.approx(passes(seen, curriculum).mean(), abs=0.01)


@given(some.lists(UNIT, min_size=1, max_size=30), some.floats(0.01, 100))
def test_with_lambda_one_no_spec_weighs_e_times_another(p, beta):
    curriculum = Curriculum(beta=beta, filter=None)
    found = weights(rewards(np.array(p), curriculum), curriculum)
    assert found.mean() == pytest.approx(1)
    assert found.max() / found.min() <= math.e + 1e-9


def test_how_flat_the_weights_of_the_paper_are():
    """The figures of facts/genenv.md, point 8: the filter selects, the reward hardly does."""
    curriculum = Curriculum(beta=2.0)
    for ends, most in (((0, 1), 1.48), ((0.4, 0.6), 1.02)):
        found = weights(rewards(np.linspace(*ends, 101), curriculum), curriculum)
        assert found.max() / found.min() == pytest.approx(most, abs=5e-3)
    kept = np.array([2 / 4, 2 / 4])
    assert weights(rewards(kept, curriculum), curriculum).tolist() == [1.0, 1.0]


def test_lambda_says_how_much_more_a_better_spec_weighs():
    values = np.array([0.2, 1.0])
    for size in (0.0, 1.0, 5.0):
        few, much = weights(values, Curriculum(weight=size))
        assert much / few == pytest.approx(math.exp(0.8 * size))


def plain_repetition(texts, n=3):
    """As it is told: of each text, the mean over its n-grams of the share of the others that have it too."""
    found = []
    for k, text in enumerate(texts):
        others = [other for j, other in enumerate(texts) if j != k]
        own = {tuple(text.split()[i : i + n]) for i in range(len(text.split()) - n + 1)}
        shares = [
            sum(gram in {tuple(o.split()[i : i + n]) for i in range(len(o.split()) - n + 1)} for o in others)
            / max(1, len(others))
            for gram in own
        ]
        found.append(sum(shares) / max(1, len(shares)))
    return found


@given(some.lists(some.lists(some.sampled_from("abc"), max_size=7).map(" ".join), max_size=6))
def test_repetition_is_the_share_of_the_others_that_say_the_same(texts):
    assert repetition(texts).tolist() == pytest.approx(plain_repetition(texts))


def test_repetition_is_all_for_copies_and_nothing_for_what_no_one_else_says():
    assert repetition(['{"a":1,"b":2}'] * 3).tolist() == [1.0] * 3
    assert repetition(["a b c d", "e f g h", "a b"]).tolist() == [0.0, 0.0, 0.0]
    assert repetition(["a b c d"]).tolist() == [0.0]
    assert repetition(['{"ask":"$1 or more"}', "ask $1 or less"]).tolist() == [0.5, 0.5]  # marks say nothing
    assert repetition([]).shape == (0,)
