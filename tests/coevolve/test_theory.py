"""Why half: what Proposition 1 of GenEnv says and what it does not, on the smallest example, exactly and by drawing.

A policy chooses one of two arms by a softmax over two numbers; one arm is right, and chosen p of the time. REINFORCE
has the baseline p. The proposition bounds E||g||^2 between two multiples of p (1 - p), given bounds on the norm of the
score. That puts the maximum at one half only where that norm does not depend on p. Here it does, and E||g||^2 is
largest at p = 0.21 and 0.79. What is largest at one half, here too, is the gradient that is there on average.
"""

import math

import numpy as np
import pytest
import torch

from envgen.coevolve.losses import group_advantages

P = np.linspace(0.01, 0.99, 99)


def scores(p):
    """The gradients of the log-probabilities of the right and of the wrong arm, in the two numbers: (2 arms, 2)."""
    logits = torch.tensor([p, 1 - p], dtype=torch.float64).log().requires_grad_()
    logs = torch.log_softmax(logits, 0)
    return torch.stack([torch.autograd.grad(logs[arm], logits, retain_graph=True)[0] for arm in (0, 1)]).numpy()


def square(p, found):
    """E||g||^2 of g = (reward - p) grad log pi, exactly; `found` are the scores."""
    return sum(chance * gain**2 * (s**2).sum() for chance, gain, s in zip((p, 1 - p), (1 - p, -p), found, strict=True))


def mean(p):
    """||E g||, exactly: what is left when noise has averaged out."""
    good, other = scores(p)
    return np.linalg.norm(p * (1 - p) * good + (1 - p) * -p * other)


def drawn(p, count=200_000):
    """Gradients of single choices, (count, 2)."""
    right = np.random.default_rng(0).random(count) < p
    return (right - p)[:, None] * scores(p)[np.where(right, 0, 1)]


@pytest.mark.parametrize("low", [0.05, 0.2, 0.4])
def test_the_squared_gradient_lies_between_two_multiples_of_p_times_one_less_p(low):
    """Proposition 1, the score being bounded from both sides as it is away from certainty."""
    inside = P[np.abs(P - 0.5) <= 0.5 - low + 1e-9]
    norms = np.array([(scores(p) ** 2).sum(1) for p in inside])
    found = np.array([square(p, scores(p)) for p in inside])
    assert norms.min() > 0
    assert (found >= norms.min() * inside * (1 - inside) - 1e-12).all()
    assert (found <= norms.max() * inside * (1 - inside) + 1e-12).all()


def test_it_is_largest_at_one_half_where_the_scores_norm_does_not_depend_on_p():
    """As where p is the task's doing and not the policy's: here, what is right is drawn after either arm."""
    constant = scores(0.5)
    found = np.array([square(p, constant) for p in P])
    np.testing.assert_allclose(found, 0.5 * P * (1 - P), rtol=1e-9)
    assert P[found.argmax()] == pytest.approx(0.5)


def test_it_is_not_largest_at_one_half_where_the_norm_does():
    """Two arms: 2v (1 - 3v) with v = p (1 - p), which is largest at v = 1/6. The bounds hold all the same."""
    found = np.array([square(p, scores(p)) for p in P])
    v = P * (1 - P)
    np.testing.assert_allclose(found, 2 * v * (1 - 3 * v), rtol=1e-9)
    assert P[found.argmax()] in (pytest.approx(0.21), pytest.approx(0.79))
    assert found.max() / square(0.5, scores(0.5)) == pytest.approx(4 / 3, abs=1e-3)


def test_the_gradient_that_is_there_on_average_is_largest_at_one_half():
    found = np.array([mean(p) for p in P])
    np.testing.assert_allclose(found, math.sqrt(2) * P * (1 - P), rtol=1e-9)
    assert P[found.argmax()] == pytest.approx(0.5)


@pytest.mark.parametrize("p", [0.1, 0.21, 0.5, 0.8])
def test_drawing_says_the_same(p):
    gradients = drawn(p)
    squares = (gradients**2).sum(1)
    error = squares.std() / math.sqrt(len(squares)) + 1e-12
    assert abs(squares.mean() - square(p, scores(p))) < 5 * error
    error = np.linalg.norm(gradients.std(0)) / math.sqrt(len(gradients)) + 1e-12
    assert abs(np.linalg.norm(gradients.mean(0)) - mean(p)) < 5 * error


@pytest.mark.parametrize(("p", "expected"), [(0.5, 0.992), (0.3, 0.942), (0.1, 0.570)])
def test_how_often_a_group_of_eight_teaches_grpo_anything(p, expected):
    """1 - p^G - (1 - p)^G, with the figures of facts/genenv.md: flat near one half."""
    assert 1 - p**8 - (1 - p) ** 8 == pytest.approx(expected, abs=5e-4)
    right = torch.rand(20_000, 8, generator=torch.Generator().manual_seed(0)) < p
    advantages = group_advantages(right.float(), True)
    assert (advantages != 0).any(1).float().mean().item() == pytest.approx(expected, abs=0.01)


def grpo(p, group):
    """||E g|| with advantages in deviations of their group, exactly."""
    total = np.zeros(2)
    good, other = scores(p)
    for hits in range(group + 1):
        gains = group_advantages(torch.tensor([[1.0] * hits + [0.0] * (group - hits)]), True)[0].double().numpy()
        chance = math.comb(group, hits) * p**hits * (1 - p) ** (group - hits)
        total += chance * (gains[:hits].sum() * good + gains[hits:].sum() * other) / group
    return np.linalg.norm(total)


def test_what_grpo_learns_falls_more_slowly_away_from_one_half():
    """The proposition is about REINFORCE; the agent is trained by GRPO, whose advantages are in deviations."""
    for p, most in ((0.3, 0.84), (0.1, 0.36)):
        assert mean(p) / mean(0.5) == pytest.approx(most)
        assert most + 0.03 < grpo(p, 8) / grpo(0.5, 8) < 1
    assert grpo(0.1, 64) / grpo(0.5, 64) == pytest.approx(math.sqrt(0.36), abs=0.01)  # of large groups, the root of it
