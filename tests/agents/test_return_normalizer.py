"""The normalization of returns against direct formulas."""

import numpy as np
import pytest
import torch

from envgen.agents.return_normalizer import ReturnNormalizer

DECAY = 0.9


def update(normalizer: ReturnNormalizer, batches: list[np.ndarray]) -> None:
    for batch in batches:
        returns = torch.from_numpy(batch)
        normalizer.update(returns.double().mean(), returns.double().square().mean())


def test_returns_have_mean_0_and_standard_deviation_1_over_weighted_batches():
    rng = np.random.default_rng(0)
    batches = [rng.normal(3.0 + k, 2.0, 50).astype(np.float32) for k in range(4)]
    normalizer = ReturnNormalizer(DECAY)
    update(normalizer, batches)
    weights = np.repeat([DECAY ** (3 - k) for k in range(4)], 50)
    values = np.concatenate(batches)
    mean = np.average(values, weights=weights)
    std = np.sqrt(np.average((values - mean) ** 2, weights=weights))
    normalized = normalizer.normalize(torch.from_numpy(values)).numpy()
    np.testing.assert_allclose(normalized, (values - mean) / std, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(normalizer.denormalize(torch.from_numpy(normalized)), values, rtol=1e-4)


def test_a_mean_much_larger_than_the_deviation_costs_no_precision():
    rng = np.random.default_rng(0)
    batches = [rng.normal(3000.0, 3.0, 2048).astype(np.float32) for _ in range(300)]
    normalizer = ReturnNormalizer(0.99)
    update(normalizer, batches)
    assert float(normalizer.denormalize(torch.tensor([0.0]))) == pytest.approx(3000, abs=0.2)
    assert float(normalizer.normalize(torch.tensor([3003.0]))) == pytest.approx(1, abs=0.1)
    assert normalizer.normalize(torch.tensor([3003.0])).dtype == torch.float32


def test_one_batch_determines_mean_and_deviation():
    normalizer = ReturnNormalizer(DECAY)
    update(normalizer, [np.array([1.0, 5.0], np.float32)])
    np.testing.assert_allclose(normalizer.normalize(torch.tensor([1.0, 3.0, 5.0])), [-1, 0, 1], atol=1e-5)


@pytest.mark.parametrize("normalizer", [ReturnNormalizer(None), ReturnNormalizer(DECAY)], ids=["off", "no data"])
def test_nothing_changes_without_data_or_decay(normalizer):
    if normalizer.decay is None:
        update(normalizer, [np.array([1.0, 5.0], np.float32)])
    values = torch.tensor([-2.0, 7.0])
    assert torch.equal(normalizer.normalize(values), values)
    assert torch.equal(normalizer.denormalize(values), values)


def test_the_scale_of_constant_returns_is_bounded():
    normalizer = ReturnNormalizer(DECAY)
    update(normalizer, [np.full(4, 2.0, np.float32)])
    std = ReturnNormalizer.MIN_VARIANCE**0.5
    np.testing.assert_allclose(normalizer.normalize(torch.tensor([2.0, 3.0])), [0, 1 / std], atol=1e-4)
