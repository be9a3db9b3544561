"""Made-up knowledge: a work, company or festival leads to a person or a city, about which a question asks.

All facts are made up for one task, so that nobody can know the answer. Each name stands for one thing, and no two
people or cities of a task share a value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from ..random_choice import sample_word, sample_words
from .spec import ASKS_OF, BRIDGE_KIND, Bridge, BridgeKind, TwoHopSpec

ADJECTIVES = (
    "Amber", "Blue", "Bright", "Broken", "Cold", "Crimson", "Distant", "Empty", "Gentle", "Golden", "Green", "Hidden",
    "Hollow", "Last", "Pale", "Quiet", "Red", "Silver", "Wild", "Young",
)  # fmt: skip
NOUNS = (
    "Arrow", "Bell", "Bird", "Candle", "Cloud", "Crown", "Door", "Field", "Flame", "Garden", "Glass", "Hill", "Moon",
    "Night", "River", "Road", "Stone", "Storm", "Tower", "Winter",
)  # fmt: skip
FIRST_NAMES = (
    "Ada", "Ben", "Cleo", "Dara", "Emil", "Faye", "Gus", "Hana", "Ivo", "Juno", "Kai", "Lena", "Milo", "Nora", "Otto",
    "Pia",
)  # fmt: skip
SURNAMES = (
    "Alder", "Brask", "Colm", "Dorn", "Eskel", "Fenn", "Grell", "Holt", "Imre", "Jask", "Korr", "Lund", "Marr", "Noll",
    "Orsk", "Pell", "Quist", "Renn", "Sund", "Tolm",
)  # fmt: skip
CITIES = (
    "Arvo", "Belm", "Cordu", "Dunor", "Elst", "Fenda", "Gorl", "Hulde", "Isko", "Jorra", "Keld", "Lumo", "Morva",
    "Nesk", "Ombra", "Prell", "Quora", "Rasto", "Silva", "Tundu",
)  # fmt: skip
VALUES: dict[str, tuple[str, ...]] = {
    "city": CITIES,
    "river": (
        "Aar",
        "Brin",
        "Cald",
        "Drava",
        "Esk",
        "Fluss",
        "Gann",
        "Hebb",
        "Irt",
        "Jura",
        "Kern",
        "Lek",
        "Mirn",
        "Nidd",
        "Ourse",
        "Plym",
        "Raab",
        "Siret",
        "Tiss",
        "Ume",
    ),
    "country": (
        "Andora",
        "Brevia",
        "Castia",
        "Dalmia",
        "Ervia",
        "Fresia",
        "Galdia",
        "Hestia",
        "Ilyria",
        "Jovia",
        "Kestria",
        "Lavonia",
        "Mardia",
        "Novia",
        "Orlia",
        "Pavonia",
        "Rhenia",
        "Sardia",
        "Tavria",
        "Ustria",
    ),
    "school": tuple(
        f"{tree} College"
        for tree in (
            "Ash",
            "Aspen",
            "Beech",
            "Birch",
            "Cedar",
            "Cherry",
            "Elm",
            "Fir",
            "Hazel",
            "Larch",
            "Laurel",
            "Linden",
            "Maple",
            "Oak",
            "Pine",
            "Poplar",
            "Rowan",
            "Spruce",
            "Willow",
            "Yew",
        )
    ),
    "year": tuple(str(year) for year in range(1901, 1941)),
    "person": tuple(f"{first} {last}" for first in FIRST_NAMES for last in SURNAMES),
}


class Relation(NamedTuple):
    question: str  # with {x}, the person or city
    sentences: tuple[str, str]  # plain, and another wording
    kind: str  # of its value


RELATIONS: dict[str, Relation] = {
    "birthplace": Relation(
        "Where was {x} born?", ("{x} was born in {v}.", "The birthplace of {x} is {v}."), "city"
    ),
    "home": Relation("Where does {x} live?", ("{x} lives in {v}.", "The home of {x} is in {v}."), "city"),
    "birth year": Relation(
        "When was {x} born?", ("{x} was born in {v}.", "The birth year of {x} is {v}."), "year"
    ),
    "spouse": Relation(
        "Who is married to {x}?", ("{x} is married to {v}.", "The spouse of {x} is {v}."), "person"
    ),
    "school": Relation(
        "Which college did {x} go to?", ("{x} went to {v}.", "The college of {x} was {v}."), "school"
    ),
    "river": Relation(
        "Which river flows through {x}?", ("The {v} flows through {x}.", "{x} is on the {v}."), "river"
    ),
    "mayor": Relation(
        "Who is the mayor of {x}?", ("The mayor of {x} is {v}.", "{x} has {v} as its mayor."), "person"
    ),
    "country": Relation("In which country is {x}?", ("{x} is in {v}.", "The country of {x} is {v}."), "country"),
    "founding year": Relation(
        "When was {x} founded?", ("{x} was founded in {v}.", "The founding year of {x} is {v}."), "year"
    ),
}  # fmt: skip
# what a question calls the person or city, and the sentences that name it
BRIDGES: dict[Bridge, tuple[str, tuple[str, str]]] = {
    "director": ("the director of {s}", ("{s} is a film by {x}.", "{x} directed the film {s}.")),
    "author": ("the author of {s}", ("{s} is a book by {x}.", "{x} wrote the book {s}.")),
    "founder": ("the founder of {s}", ("{s} is a company of {x}.", "{x} founded the company {s}.")),
    "seat": ("the seat of {s}", ("{s} is a company in {x}.", "{x} is the seat of the company {s}.")),
    "venue": ("the venue of {s}", ("{s} is a festival in {x}.", "{x} is the venue of the festival {s}.")),
}


@dataclass(frozen=True)
class Knowledge:
    """The passages of a task, and what its question asks."""

    passages: tuple[str, ...]
    question: str
    subject: str  # what the question names
    bridge: str  # the person or city that the subject leads to
    answer: str
    other_values: tuple[str, ...]  # of the bridge, and of other people or cities what the question asks


def make_knowledge(spec: TwoHopSpec, rng: Random) -> Knowledge:
    """The knowledge of a spec. The only method of `rng` used is random()."""
    kind = BRIDGE_KIND[spec.bridge]
    num_subjects = 1 + (spec.distractors + 1) // 2
    subjects = _sample_names(
        [f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS], num_subjects, spec, rng
    )
    bridges = _sample_names(list(VALUES[kind]), num_subjects, spec, rng)
    kinds = dict.fromkeys(RELATIONS[ask].kind for ask in ASKS_OF[kind])
    unused = {name: iter(sample_words([word for word in VALUES[name] if word not in bridges], 40, rng))
              for name in kinds}  # fmt: skip
    facts = [dict(_sample_facts(spec, kind, unused, rng)) for _ in bridges]
    bridge_passages = [
        _write(BRIDGES[spec.bridge][1], spec, rng, s=subject, x=bridge)
        for subject, bridge in zip(subjects, bridges, strict=True)
    ]
    fact_passages = [
        " ".join(_write(RELATIONS[ask].sentences, spec, rng, x=bridge, v=value) for ask, value in values.items())
        for bridge, values in zip(bridges, facts, strict=True)
    ]
    # The first distractor has a fact of the kind that is asked, so only the other passage tells which is right.
    pairs = zip(fact_passages[1:], bridge_passages[1:], strict=True)
    distractors = [passage for pair in pairs for passage in pair][: spec.distractors]
    passages = [bridge_passages[0], fact_passages[0], *distractors]
    phrase = BRIDGES[spec.bridge][0].format(s=subjects[0])
    others = [value for ask, value in facts[0].items() if ask != spec.ask] + [values[spec.ask] for values in facts[1:]]
    return Knowledge(
        sample_words(passages, len(passages), rng), RELATIONS[spec.ask].question.format(x=phrase), subjects[0],
        bridges[0], facts[0][spec.ask], tuple(others),
    )  # fmt: skip


def _sample_names(names: Sequence[str], count: int, spec: TwoHopSpec, rng: Random) -> tuple[str, ...]:
    """Different names. With similar names, those after the first share a word with it, except for cities, whose names
    are single words; otherwise they share none.
    """
    first, *others = sample_words(names, len(names), rng)
    words = set(first.split())
    is_similar = [bool(words & set(name.split())) for name in others]
    similar = [name for name, flag in zip(others, is_similar, strict=True) if flag]
    different = [name for name, flag in zip(others, is_similar, strict=True) if not flag]
    return (first, *[*(similar if spec.names == "similar" else []), *different][: count - 1])


def _sample_facts(
    spec: TwoHopSpec, kind: BridgeKind, unused: Mapping[str, Iterator[str]], rng: Random
) -> Iterator[tuple[str, str]]:
    """What the question asks and `details` other facts about a person or city, in random order."""
    others = sample_words([ask for ask in ASKS_OF[kind] if ask != spec.ask], spec.details, rng)
    for ask in sample_words([spec.ask, *others], 1 + spec.details, rng):
        yield ask, next(unused[RELATIONS[ask].kind])


def _write(sentences: tuple[str, str], spec: TwoHopSpec, rng: Random, **words: str) -> str:
    sentence = sentences[0] if spec.style == "plain" else sample_word(sentences, rng)
    return sentence.format(**words)
