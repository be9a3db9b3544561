"""The stream of random numbers is numpy's `RandomState`, whatever is drawn and in whatever order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envgen.worlds.kernels import mt19937

DRAWS = st.lists(
    st.one_of(
        st.just(("uniform",)),
        st.tuples(st.just("randint"), st.integers(-5, 5), st.integers(1, 2**31 - 1)),
        st.tuples(st.just("skip"), st.integers(0, 2000)),
        st.tuples(st.just("fill"), st.integers(0, 1500)),
    ),
    max_size=25,
)


def seeded(value: int) -> np.ndarray:
    mt = np.zeros(mt19937.SIZE, np.uint32)
    mt19937.seed(mt, value)
    return mt


@given(seed=st.integers(0, 2**31 - 1), draws=DRAWS)
def test_random_numbers_equal_numpys(seed, draws):
    mt, reference = seeded(seed), np.random.RandomState(seed)
    for draw in draws:
        if draw[0] == "uniform":
            assert mt19937.uniform(mt) == reference.uniform()
        elif draw[0] == "randint":
            low, high = draw[1], draw[1] + draw[2]
            assert mt19937.randint(mt, low, high) == reference.randint(low, high)
        elif draw[0] == "skip":
            mt19937.skip(mt, draw[1])
            for _ in range(draw[1]):
                reference.randint(0, 2**32, dtype=np.uint32)
        else:
            out = np.zeros(draw[1])
            mt19937.fill_uniform(mt, out)
            assert np.array_equal(out, reference.uniform(size=draw[1]))
    state = reference.get_state()
    assert np.array_equal(mt[:-1], state[1])
    assert mt[-1] == state[2]


def test_range_of_one_uses_no_random_word():
    mt = seeded(1)
    before = mt.copy()
    assert mt19937.randint(mt, 3, 4) == 3
    assert np.array_equal(mt, before)


@given(seed=st.integers(0, 2**80), episode=st.integers(1, 2**31))
def test_episode_seed_equals_pythons_tuple_hash(seed, episode):
    assert mt19937.episode_seed(hash(seed), episode) == hash((seed, episode)) % (2**31 - 1)
