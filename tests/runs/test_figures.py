"""The figure over seeds: an interquartile mean whose interval is the same every time."""

import numpy as np
import pytest

from envgen.runs.figures import iqm, iqm_with_ci


@pytest.mark.parametrize(
    ("values", "mean"),
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
def test_the_interquartile_mean_of_known_values(values, mean):
    assert iqm(values) == pytest.approx(mean)


def test_it_is_the_mean_of_the_middle_half_as_many_copies_show_it():
    for n in range(1, 12):
        values = np.random.default_rng(n).normal(size=n)
        copies = np.sort(np.repeat(values, 4))  # four times as many, of which the middle half is whole
        assert iqm(values) == pytest.approx(copies[n:-n].mean())


def test_a_figure_of_one_seed_has_no_interval_and_of_many_the_same_each_time():
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
