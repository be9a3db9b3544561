"""The Mersenne Twister as numpy's legacy `RandomState` seeds and draws from it, bit for bit.

A generator is one row of 625 uint32: the 624 words of MT19937 and, last, how many of them are used up. All functions
take that row, so that every environment has its own stream. Only what the worlds need is implemented: no normal
distribution, no shuffling, no 64-bit integers.
"""

import numpy as np

from envgen.jit import jit

WORDS = 624
SIZE = WORDS + 1  # of a generator
SHIFT = 397
MATRIX = np.uint32(0x9908B0DF)
UPPER = np.uint32(0x80000000)
LOWER = np.uint32(0x7FFFFFFF)
ONE = np.uint32(1)


@jit
def seed(mt, value):
    """`RandomState(value)` for 0 <= value < 2**32: Knuth's initialization."""
    word = np.uint32(value)
    for i in range(WORDS):
        mt[i] = word
        word = np.uint32(np.uint32(1812433253) * (word ^ (word >> np.uint32(30))) + np.uint32(i + 1))
    mt[WORDS] = WORDS


@jit
def _mix(word, following_word):
    y = (word & UPPER) | (following_word & LOWER)
    return (y >> ONE) ^ (MATRIX * (y & ONE))


@jit
def _twist(mt):
    """The next block of 624 words, in runs of at most 227 independent words, which LLVM vectorizes."""
    gap = WORDS - SHIFT  # 227
    for i in range(gap):
        mt[i] = mt[i + SHIFT] ^ _mix(mt[i], mt[i + 1])
    for i in range(gap, 2 * gap):
        mt[i] = mt[i - gap] ^ _mix(mt[i], mt[i + 1])
    for i in range(2 * gap, WORDS - 1):
        mt[i] = mt[i - gap] ^ _mix(mt[i], mt[i + 1])
    mt[WORDS - 1] = mt[SHIFT - 1] ^ _mix(mt[WORDS - 1], mt[0])


@jit
def _temper(y):
    y ^= y >> np.uint32(11)
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    return y ^ (y >> np.uint32(18))


@jit
def _double(a, b):
    high, low = np.int32(a >> np.uint32(5)), np.int32(b >> np.uint32(6))
    return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)


@jit
def next_word(mt):
    """The next 32 random bits."""
    used = np.int64(mt[WORDS])
    if used >= WORDS:
        _twist(mt)
        used = 0
    mt[WORDS] = np.uint32(used + 1)
    return _temper(mt[used])


@jit
def uniform(mt):
    """`RandomState.uniform()`: a double in [0, 1) from two words."""
    used = np.int64(mt[WORDS])
    if used >= WORDS - 1:  # at most one word is left, which is rare
        return _double(next_word(mt), next_word(mt))
    mt[WORDS] = np.uint32(used + 2)
    return _double(_temper(mt[used]), _temper(mt[used + 1]))


@jit
def randint(mt, low, high):
    """`RandomState.randint(low, high)` for ranges below 2**32: masked words until one fits; a range of 1 draws none."""
    span = np.int64(high) - 1 - np.int64(low)
    if span == 0:
        return np.int64(low)
    mask = span
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> shift
    while True:
        value = np.int64(next_word(mt)) & mask
        if value <= span:
            return low + value


@jit
def skip(mt, words):
    """Draw and discard `words` words; whole blocks are skipped without tempering."""
    used = np.int64(mt[WORDS]) + words
    while used > WORDS:
        _twist(mt)
        used -= WORDS
    mt[WORDS] = np.uint32(used)


@jit
def fill_uniform(mt, out):
    """`out[k] = uniform()` for each k in order; `out` is a one-dimensional array of doubles."""
    done = 0
    while done < out.size:
        used = np.int64(mt[WORDS])
        pairs = min((WORDS - used) // 2, out.size - done)
        if pairs <= 0:  # at most one word is left: the number spans two blocks
            out[done] = uniform(mt)
            done += 1
            continue
        for k in range(pairs):
            out[done + k] = _double(_temper(mt[used + 2 * k]), _temper(mt[used + 2 * k + 1]))
        mt[WORDS] = np.uint32(used + 2 * pairs)
        done += pairs


@jit
def episode_seed(seed_hash, episode):
    """Python's `hash((seed, episode)) % (2**31 - 1)`, given `hash(seed)`: how Crafter seeds its n-th episode.

    CPython hashes tuples with a variant of xxHash (Objects/tupleobject.c); an int below 2**61 - 1 is its own hash.
    """
    p1, p2, p5 = np.uint64(11400714785074694791), np.uint64(14029467366897019727), np.uint64(2870177450012600261)
    acc = p5
    for lane in (np.uint64(seed_hash), np.uint64(episode)):
        acc += lane * p2
        acc = (acc << np.uint64(31)) | (acc >> np.uint64(33))
        acc *= p1
    acc += np.uint64(2) ^ (p5 ^ np.uint64(3527539))
    signed = np.int64(acc)
    if signed == -1:  # CPython reserves -1 for errors
        signed = np.int64(1546275796)
    return signed % np.int64(2**31 - 1)
