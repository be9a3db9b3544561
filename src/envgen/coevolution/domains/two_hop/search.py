"""A search engine over passages in memory: BM25 (Robertson and Zaragoza 2009)."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

K1, B = 1.5, 0.75
MAX_QUERY_CHARS = 1000
MAX_PASSAGE_CHARS = 2000  # of a passage that is shown
WORD = re.compile(r"[^\W_]+")


class PassageSearch:
    """Passages, each with a title and a text, ranked by BM25 over the words of both."""

    def __init__(self, passages: Sequence[tuple[str, str]], checksum: str = ""):
        self.passages, self.checksum = list(passages), checksum
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)  # word: passages and counts
        lengths = []
        for k, (title, text) in enumerate(self.passages):
            counts = Counter(_words(f"{title} {text}"))
            lengths.append(counts.total())
            for word, count in counts.items():
                self._postings[word].append((k, count))
        mean_length = sum(lengths) / max(1, len(lengths)) or 1.0
        self._norms = [K1 * (1 - B + B * length / mean_length) for length in lengths]

    def search(self, query: str, count: int) -> list[int]:
        """The numbers of the best passages that contain a word of the query, the best first."""
        scores: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(_words(query[:MAX_QUERY_CHARS])):
            postings = self._postings.get(word, ())
            idf = math.log(1 + (len(self.passages) - len(postings) + 0.5) / (len(postings) + 0.5))
            for k, frequency in postings:
                scores[k] += idf * frequency * (K1 + 1) / (frequency + self._norms[k])
        return sorted(scores, key=lambda k: (-scores[k], k))[:count]

    def describe(self, query: str, count: int) -> str:
        """The best passages as text for a language model."""
        passages = [self.passages[k] for k in self.search(query, count)]
        if not passages:
            return "No passage contains any of these words."
        return "\n\n".join(
            f"{number}. {title}\n{text[:MAX_PASSAGE_CHARS]}".strip() for number, (title, text) in enumerate(passages, 1)
        )


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())
