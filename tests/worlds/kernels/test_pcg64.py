"""PCG64 equals numpy's generator, draw by draw."""

import numpy as np
import pytest

from envgen.worlds.kernels import pcg64


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**70])
def test_integers_and_shuffles_equal_numpys(seed):
    rng, expected = np.zeros(pcg64.SIZE, np.uint64), np.random.default_rng(seed)
    pcg64.seed(rng, seed)
    for k in range(2000):
        span = (1, 2, 3, 5, 100, 2**31, 2**32 - 1, 3_000_000_000)[k % 8]
        assert pcg64.integers(rng, k - 7, k - 7 + span) == expected.integers(k - 7, k - 7 + span)
        if k % 40 == 0:
            size = 1 + k // 40 % 12
            items, numbers = np.arange(size), list(range(size))
            pcg64.shuffle(rng, items, size)
            expected.shuffle(numbers)
            assert items.tolist() == numbers
    state = expected.bit_generator.state
    leftover = int(rng[pcg64.LEFTOVER])
    assert int(rng[0]) << 64 | int(rng[1]) == state["state"]["state"]
    assert (leftover >> 32, leftover & 0xFFFFFFFF) == (state["has_uint32"], state["uinteger"] * state["has_uint32"])
