"""The specs of the domain `two_hop`: which two facts a question needs, and what makes them hard to find."""

from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field, model_validator

from ...tasks import Spec
from ..random_choice import choose

NUM_VARIATIONS = 1000
MAX_DISTRACTORS = 8
MAX_DETAILS = 3

Bridge = Literal["director", "author", "founder", "seat", "venue"]
BridgeKind = Literal["person", "city"]
Ask = Literal["birthplace", "home", "birth year", "spouse", "school", "river", "mayor", "country", "founding year"]
BRIDGE_KIND: dict[Bridge, BridgeKind] = {
    "director": "person", "author": "person", "founder": "person", "seat": "city", "venue": "city",
}  # fmt: skip
ASKS_OF: dict[BridgeKind, tuple[Ask, ...]] = {
    "person": ("birthplace", "home", "birth year", "spouse", "school"),
    "city": ("river", "mayor", "country", "founding year"),
}


class TwoHopSpec(Spec):
    """A question and the passages that answer it."""

    bridge: Bridge
    """What leads from the subject of the question to a person (director, author, founder) or a city (seat, venue)."""
    ask: Ask
    """What the question asks about this person (birthplace, home, birth year, spouse, school) or city (river, mayor,
    country, founding year)."""
    facts: Literal["given", "search"]
    """Whether the passages are in the prompt or have to be searched."""
    names: Literal["different", "similar"]
    """Whether the titles and people in distractors share a word with those that the question needs."""
    distractors: Annotated[int, Field(ge=0, le=MAX_DISTRACTORS)]
    """Passages that the question does not need."""
    details: Annotated[int, Field(ge=0, le=MAX_DETAILS)]
    """Other facts about each person or city."""
    style: Literal["plain", "varied"]
    """Whether facts of a kind are always phrased in the same way."""
    variation: Annotated[int, Field(ge=0, lt=NUM_VARIATIONS)]
    """Selects the names and the facts."""

    @model_validator(mode="after")
    def _check_ask(self) -> "TwoHopSpec":
        kind = BRIDGE_KIND[self.bridge]
        if self.ask not in ASKS_OF[kind]:
            raise ValueError(f"{self.bridge} leads to a {kind}, of which ask is one of {', '.join(ASKS_OF[kind])}")
        return self


def sample_spec(rng: np.random.Generator) -> TwoHopSpec:
    bridge = choose(get_args(Bridge), rng)
    return TwoHopSpec.model_validate({
        "bridge": bridge, "ask": choose(ASKS_OF[BRIDGE_KIND[bridge]], rng),
        "facts": choose(("given", "search"), rng), "names": choose(("different", "similar"), rng),
        "distractors": int(rng.integers(MAX_DISTRACTORS + 1)), "details": int(rng.integers(MAX_DETAILS + 1)),
        "style": choose(("plain", "varied"), rng), "variation": int(rng.integers(NUM_VARIATIONS)),
    })  # fmt: skip
