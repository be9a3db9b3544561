"""Proposition 1 of GenEnv on the smallest example, exactly and by simulation.

A policy chooses one of two arms by a softmax over two logits; one arm is correct and chosen with probability p.
REINFORCE uses the baseline p. The proposition bounds E||g||^2 between two multiples of p (1 - p), given bounds on the
norm of the score. That puts the maximum at one half only if the norm does not depend on p. Here it does, and E||g||^2
is largest at p = 0.21 and 0.79. The norm of the mean gradient is largest at one half, here too.
"""

import math

import numpy as np
import pytest
import torch

from envgen.coevolution.losses import group_advantages

P = np.linspace(0.01, 0.99, 99)


def score_vectors(p):
    """The gradients of the log-probabilities of the correct and the wrong arm, (2 arms, 2 logits)."""
    logits = torch.tensor([p, 1 - p], dtype=torch.float64).log().requires_grad_()
    log_probs = torch.log_softmax(logits, 0)
    return torch.stack([torch.autograd.grad(log_probs[arm], logits, retain_graph=True)[0] for arm in (0, 1)]).numpy()


def expected_square(p, scores):
    """E||g||^2 of g = (reward - p) grad log pi, exactly."""
    terms = zip((p, 1 - p), (1 - p, -p), scores, strict=True)
    return sum(probability * advantage**2 * (score**2).sum() for probability, advantage, score in terms)


def norm_of_mean(p):
    """||E g||, exactly."""
    correct, wrong = score_vectors(p)
    return np.linalg.norm(p * (1 - p) * correct + (1 - p) * -p * wrong)


def sample_gradients(p, count=200_000):
    """Gradients of single samples, (count, 2)."""
    is_correct = np.random.default_rng(0).random(count) < p
    return (is_correct - p)[:, None] * score_vectors(p)[np.where(is_correct, 0, 1)]


@pytest.mark.parametrize("low", [0.05, 0.2, 0.4])
def test_expected_square_is_bounded_by_multiples_of_the_variance(low):
    """Proposition 1, for p away from 0 and 1, where the score is bounded from both sides."""
    inside = P[np.abs(P - 0.5) <= 0.5 - low + 1e-9]
    norms = np.array([(score_vectors(p) ** 2).sum(1) for p in inside])
    squares = np.array([expected_square(p, score_vectors(p)) for p in inside])
    assert norms.min() > 0
    assert (squares >= norms.min() * inside * (1 - inside) - 1e-12).all()
    assert (squares <= norms.max() * inside * (1 - inside) + 1e-12).all()


def test_expected_square_peaks_at_one_half_if_the_norm_does_not_depend_on_p():
    """As if p belonged to the task and not to the policy: the correct arm is sampled after the choice."""
    constant = score_vectors(0.5)
    squares = np.array([expected_square(p, constant) for p in P])
    np.testing.assert_allclose(squares, 0.5 * P * (1 - P), rtol=1e-9)
    assert P[squares.argmax()] == pytest.approx(0.5)


def test_expected_square_does_not_peak_at_one_half_for_a_softmax():
    """For two arms it is 2v (1 - 3v) with v = p (1 - p), which is largest at v = 1/6. The bounds still hold."""
    squares = np.array([expected_square(p, score_vectors(p)) for p in P])
    v = P * (1 - P)
    np.testing.assert_allclose(squares, 2 * v * (1 - 3 * v), rtol=1e-9)
    assert P[squares.argmax()] in (pytest.approx(0.21), pytest.approx(0.79))
    assert squares.max() / expected_square(0.5, score_vectors(0.5)) == pytest.approx(4 / 3, abs=1e-3)


def test_norm_of_the_mean_gradient_peaks_at_one_half():
    norms = np.array([norm_of_mean(p) for p in P])
    np.testing.assert_allclose(norms, math.sqrt(2) * P * (1 - P), rtol=1e-9)
    assert P[norms.argmax()] == pytest.approx(0.5)


@pytest.mark.parametrize("p", [0.1, 0.21, 0.5, 0.8])
def test_simulation_agrees(p):
    gradients = sample_gradients(p)
    squares = (gradients**2).sum(1)
    error = squares.std() / math.sqrt(len(squares)) + 1e-12
    assert abs(squares.mean() - expected_square(p, score_vectors(p))) < 5 * error
    error = np.linalg.norm(gradients.std(0)) / math.sqrt(len(gradients)) + 1e-12
    assert abs(np.linalg.norm(gradients.mean(0)) - norm_of_mean(p)) < 5 * error


@pytest.mark.parametrize(("p", "expected"), [(0.5, 0.992), (0.3, 0.942), (0.1, 0.570)])
def test_fraction_of_groups_of_eight_with_a_gradient(p, expected):
    """1 - p^G - (1 - p)^G, which is nearly constant around one half."""
    assert 1 - p**8 - (1 - p) ** 8 == pytest.approx(expected, abs=5e-4)
    is_correct = torch.rand(20_000, 8, generator=torch.Generator().manual_seed(0)) < p
    advantages = group_advantages(is_correct.float(), True)
    assert (advantages != 0).any(1).float().mean().item() == pytest.approx(expected, abs=0.01)


def norm_of_mean_grpo(p, group_size):
    """||E g|| with advantages scaled by the standard deviation of their group, exactly."""
    total = np.zeros(2)
    correct, wrong = score_vectors(p)
    for successes in range(group_size + 1):
        scores = torch.tensor([[1.0] * successes + [0.0] * (group_size - successes)])
        advantages = group_advantages(scores, True)[0].double().numpy()
        probability = math.comb(group_size, successes) * p**successes * (1 - p) ** (group_size - successes)
        gradient = advantages[:successes].sum() * correct + advantages[successes:].sum() * wrong
        total += probability * gradient / group_size
    return np.linalg.norm(total)


def test_grpo_gradient_decreases_more_slowly_away_from_one_half():
    """The proposition is about REINFORCE; the agent is trained by GRPO, whose advantages are scaled."""
    for p, reinforce_ratio in ((0.3, 0.84), (0.1, 0.36)):
        assert norm_of_mean(p) / norm_of_mean(0.5) == pytest.approx(reinforce_ratio)
        assert reinforce_ratio + 0.03 < norm_of_mean_grpo(p, 8) / norm_of_mean_grpo(0.5, 8) < 1
    ratio = norm_of_mean_grpo(0.1, 64) / norm_of_mean_grpo(0.5, 64)
    assert ratio == pytest.approx(math.sqrt(0.36), abs=0.01)  # the square root for large groups
