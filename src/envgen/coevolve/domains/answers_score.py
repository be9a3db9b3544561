"""How much of an answer some words are, from 0 to 1: the token F1 that SQuAD made usual (Rajpurkar et al. 2016)."""

import string
from collections import Counter
from collections.abc import Sequence

ARTICLES = ("a", "an", "the")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def tokens(text: str) -> list[str]:
    """Its words in lower case, without punctuation and articles."""
    return [word for word in text.lower().translate(_NO_PUNCTUATION).split() if word not in ARTICLES]


def token_f1(said: Sequence[str], right: Sequence[str]) -> float:
    """The harmonic mean of how much of what was said is right, and how much of what is right was said.

    Order is free and every word counts as often as it stands there. 1.0 for the same words, 0.0 for none of them.
    """
    shared = sum((Counter(said) & Counter(right)).values())
    return 2 * shared / (len(said) + len(right)) if shared else 0.0
