"""Random choices that domains make tasks from.

Of a `random.Random`, only `random()` is used: its stream is the same in every version of Python.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def choose(options: Sequence[T], rng: Random | np.random.Generator) -> T:
    """One of the options."""
    if isinstance(rng, np.random.Generator):
        return options[int(rng.integers(len(options)))]
    return options[int(rng.random() * len(options))]


def shuffle(items: Sequence[T], rng: Random) -> list[T]:
    """The items in random order."""
    return sorted(items, key=lambda _: rng.random())


def sample_words(words: Sequence[str], count: int, rng: Random) -> tuple[str, ...]:
    """`count` different words."""
    return tuple(shuffle(words, rng)[:count])


def sample_word(words: Sequence[str], rng: Random) -> str:
    return sample_words(words, 1, rng)[0]
