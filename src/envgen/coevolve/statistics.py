"""How often tasks of each kind succeeded lately, by their fields: what an environment is told, and a guess from it."""

import math
from collections.abc import Mapping
from typing import Any

FADE = 0.9  # of what was known, after each step
PRIOR = 1.0  # replies' worth of not knowing
Fields = Mapping[str, str]


class Statistics:
    def __init__(self) -> None:
        self.known: dict[str, dict[str, list[float]]] = {}  # field: value: [successes, replies], faded

    def add(self, fields: Fields, successes: float, replies: int) -> None:
        for field, value in fields.items():
            held = self.known.setdefault(field, {}).setdefault(value, [0.0, 0.0])
            held[0] += successes
            held[1] += replies

    def fade(self) -> None:
        for values in self.known.values():
            for held in values.values():
                held[:] = [FADE * number for number in held]

    def rates(self) -> dict[str, dict[str, float]]:
        return {
            field: {value: hits / replies for value, (hits, replies) in sorted(values.items()) if replies >= PRIOR}
            for field, values in sorted(self.known.items())
        }

    def told(self) -> str:
        """In tenths, field by field: `steps 1:9 2:7 3:2, style brief:5 plain:6`."""
        parts = [
            " ".join([field, *(f"{value}:{math.floor(10 * rate + 0.5)}" for value, rate in values.items())])
            for field, values in self.rates().items()
            if values
        ]
        return ", ".join(parts) or "nothing yet"

    def guess(self, fields: Fields) -> float:
        """The success rate to expect: that of all, moved by what each field's value moves it, in log-odds."""
        first = next(iter(self.known.values()), {})
        total = _odds(sum(hits for hits, _ in first.values()), sum(replies for _, replies in first.values()))
        moved = total
        for field, value in fields.items():
            hits, replies = self.known.get(field, {}).get(value, (0.0, 0.0))
            share = replies / (replies + 4 * PRIOR)  # little is believed of few
            moved += share * (_odds(hits, replies) - total)
        return 1 / (1 + math.exp(-moved))

    def state(self) -> dict[str, Any]:
        return self.known

    def load(self, state: dict[str, Any]) -> None:
        self.known = {field: {value: list(held) for value, held in values.items()} for field, values in state.items()}


def _odds(hits: float, replies: float) -> float:
    """Log-odds of successes, with half a success and half a failure more than were seen."""
    return math.log((hits + 0.5 * PRIOR) / (replies - hits + 0.5 * PRIOR))
