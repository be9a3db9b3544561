"""`noise3` equals `opensimplex` bit for bit, and whole maps from `add_noise` equal it up to MAX_ERROR."""

import numpy as np
import opensimplex
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.worlds.kernels.noise import MAX_ERROR, SIDE, add_noise, noise3, permute


def permutation(seed: int) -> np.ndarray:
    perm, order = np.zeros(256, np.int64), np.zeros(256, np.int64)
    permute(seed, perm, order)
    return perm


COORDINATE = st.one_of(st.floats(-100, 100), st.integers(-64, 64).map(lambda n: n / 15), st.integers(-9, 9).map(float))


@given(seed=st.integers(0, 2**31 - 2), x=COORDINATE, y=COORDINATE, z=COORDINATE)
@settings(max_examples=500)
def test_noise_equals_opensimplex_bit_for_bit(seed, x, y, z):
    assert noise3(permutation(seed), x, y, z) == opensimplex.OpenSimplex(seed).noise3(x, y, z)


def test_noise_equals_opensimplex_over_whole_maps():
    for seed in (0, 7, 12345, 2**31 - 2):
        perm, reference = permutation(seed), opensimplex.OpenSimplex(seed)
        xs = np.arange(SIDE) / 5
        expected = reference.noise3array(xs, xs, np.array([0.0, 3.0, 7.0]))
        for k, z in enumerate((0.0, 3.0, 7.0)):
            actual = [[noise3(perm, x, y, z) for x in xs] for y in xs]
            assert np.array_equal(actual, expected[k])


EVERYWHERE = np.ones((8, 8), np.bool_)


PLANES = [  # steps in both axes, layer, whether the axes are exchanged
    (1 / 15, 1 / 15, 3, False), (1 / 5, 1 / 5, 0, False), (1 / 3, 1 / 3, 8, False), (1 / 7, 1 / 7, 6, False),
    (2 / 3, 1 / 15, 7, False), (2 / 3, 1 / 15, 7, True), (1 / 9, 1 / 9, 4, False), (1 / 6, 1 / 6, 2, False),
]  # fmt: skip


@pytest.mark.parametrize(("u_step", "v_step", "z", "v_first"), PLANES)
def test_noise_map_stays_within_its_error(u_step, v_step, z, v_first):
    worst = 0.0
    for seed in range(6):
        perm, plane = permutation(seed), np.zeros(SIDE * SIDE, np.float32)
        add_noise(perm, plane, 1.0, u_step, v_step, float(z), v_first, 0, SIDE - 1, EVERYWHERE)
        for u in range(SIDE):
            for v in range(SIDE):
                a, b = (v * v_step, u * u_step) if v_first else (u * u_step, v * v_step)
                worst = max(worst, abs(float(plane[u * SIDE + v]) - noise3(perm, a, b, float(z))))
    assert 0 < worst < MAX_ERROR


def test_part_of_a_noise_map_equals_the_whole():
    perm = permutation(5)
    whole, part = np.zeros(SIDE * SIDE, np.float32), np.zeros(SIDE * SIDE, np.float32)
    add_noise(perm, whole, 1.0, 1 / 3, 1 / 3, 8.0, False, 0, SIDE - 1, EVERYWHERE)
    add_noise(perm, part, 1.0, 1 / 3, 1 / 3, 8.0, False, 16, 48, EVERYWHERE)
    middle = np.s_[16:49, 16:49]
    assert np.allclose(whole.reshape(SIDE, SIDE)[middle], part.reshape(SIDE, SIDE)[middle], atol=1e-6)
