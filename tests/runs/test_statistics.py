"""The interquartile mean over seeds and its bootstrap interval, and the intervals of success rates."""

import numpy as np
import pytest

from envgen.runs.statistics import iqm, iqm_with_ci, wilson_interval


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], 7),
        ([2, 10], 6),
        ([0, 6, 60], 14),  # 0/6 + 4 * 6/6 + 60/6
        ([0, 1, 3, 100], 2),
        ([100, 0, 3, 1], 2),
        ([0, 10, 20, 30, 1000], 20),  # 0.75 of a fifth, a fifth, 0.75 of a fifth
        ([-50, 0, 1, 2, 3, 4, 5, 900], 2.5),
    ],
)
def test_iqm_of_known_values(values, expected):
    assert iqm(values) == pytest.approx(expected)


def test_iqm_is_the_mean_of_the_middle_half():
    for n in range(1, 12):
        values = np.random.default_rng(n).normal(size=n)
        copies = np.sort(np.repeat(values, 4))  # four times as many values, whose middle half is a whole number
        assert iqm(values) == pytest.approx(copies[n:-n].mean())


def test_one_seed_has_no_interval_and_several_a_repeatable_one():
    assert iqm_with_ci([3.0]) == iqm_with_ci([3.0])
    assert (iqm_with_ci([3.0]).low, str(iqm_with_ci([3.0]))) == (None, "3.0")
    many = iqm_with_ci([1.0, 2.0, 3.0, 4.0])
    assert many == iqm_with_ci([1.0, 2.0, 3.0, 4.0])
    assert many.low is not None
    assert many.high is not None
    assert 1 <= many.low < many.value == 2.5 < many.high <= 4
    assert many.n == 4
    with pytest.raises(ValueError, match="at least 1 value"):
        iqm([])


def test_wilson_intervals():
    assert wilson_interval(0, 10) == pytest.approx((0, 0.2775328))
    assert wilson_interval(5, 10) == pytest.approx((0.2365931, 0.7634069))
    assert wilson_interval(10, 10) == pytest.approx((0.7224672, 1))
