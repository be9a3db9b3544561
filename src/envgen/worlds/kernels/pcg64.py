"""The generator of `numpy.random.default_rng`, PCG64, and its bounded integers, bit for bit.

A generator is one row of SIZE uint64: the halves of its 128-bit state and of its increment, and the 32 bits that a
64-bit draw left over. All functions take that row, so that every environment has its own stream. Only what the worlds
need is implemented.
"""

import numpy as np

from envgen.jit import jit

STATE_HIGH, STATE_LOW, INC_HIGH, INC_LOW, LEFTOVER = range(5)
SIZE = 5
HAS_LEFTOVER = np.uint64(1 << 32)  # set in row[LEFTOVER] if its low 32 bits are still to be returned
MAX_LEFTOVER = 2**33 - 1
MULTIPLIER_HIGH, MULTIPLIER_LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
LOW_BITS, HALF, ZERO, ONE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(0), np.uint64(1)


def seed(rng: np.ndarray, value: int) -> None:
    """`np.random.default_rng(value)`, which Gymnasium's environments are seeded with."""
    words = np.random.PCG64(np.random.SeedSequence(value)).state["state"]
    mask = 2**64 - 1
    rng[:4] = [words["state"] >> 64, words["state"] & mask, words["inc"] >> 64, words["inc"] & mask]
    rng[LEFTOVER] = 0


@jit
def _multiply(a, b):
    """The high and the low half of a 128-bit product."""
    a0, a1, b0, b1 = a & LOW_BITS, a >> HALF, b & LOW_BITS, b >> HALF
    low, middle, other = a0 * b0, a1 * b0, a0 * b1
    carry = (low >> HALF) + (middle & LOW_BITS) + (other & LOW_BITS)
    return a1 * b1 + (middle >> HALF) + (other >> HALF) + (carry >> HALF), a * b


@jit
def _next64(rng):
    high, low = rng[STATE_HIGH], rng[STATE_LOW]
    product_high, product_low = _multiply(low, MULTIPLIER_LOW)
    product_high += high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH
    new_low = product_low + rng[INC_LOW]
    new_high = product_high + rng[INC_HIGH] + (ONE if new_low < product_low else ZERO)
    rng[STATE_HIGH], rng[STATE_LOW] = new_high, new_low
    rotation, value = new_high >> np.uint64(58), new_high ^ new_low
    return (value >> rotation) | (value << ((np.uint64(64) - rotation) & np.uint64(63)))


@jit
def _next32(rng):
    leftover = rng[LEFTOVER]
    if leftover & HAS_LEFTOVER:
        rng[LEFTOVER] = ZERO
        return leftover & LOW_BITS
    value = _next64(rng)
    rng[LEFTOVER] = HAS_LEFTOVER | (value >> HALF)
    return value & LOW_BITS


@jit
def integers(rng, low, high):
    """`Generator.integers(low, high)` for ranges below 2**32: Lemire's method. A range of 1 draws nothing."""
    span = np.uint64(np.int64(high) - np.int64(low))
    if span <= ONE:
        return np.int64(low)
    product = _next32(rng) * span
    if (product & LOW_BITS) < span:
        threshold = (np.uint64(1 << 32) - span) % span
        while (product & LOW_BITS) < threshold:
            product = _next32(rng) * span
    return np.int64(low) + np.int64(product >> HALF)


@jit
def shuffle(rng, items, size):
    """`Generator.shuffle` of the first `size` entries: each is swapped with one before it, drawn with a bit mask."""
    for i in range(size - 1, 0, -1):
        mask = i
        for shift in (1, 2, 4, 8, 16):
            mask |= mask >> shift
        while True:
            j = np.int64(_next32(rng)) & mask
            if j <= i:
                break
        items[i], items[j] = items[j], items[i]
