"""What a spec's little world holds: the facts that its question follows, and others that lead elsewhere."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from .answers_text import NAMES, NUMBERS, ROLES, TOWNS, VERBS, World, some

MOST = 4  # words of a fact. Three times as many, as a verb has, are enough for what is asked, denied and said besides
CLOSE = 4  # people of whom one is drawn: a text of few people mentions each of them often


class Riddle(NamedTuple):
    """Facts, a question about them in its parts, and the words that answer it."""

    world: World
    verb: str
    start: str
    roles: tuple[str, ...]
    gold: tuple[str, ...]


def draw(kind: str, hops: int, answers: int, distractors: int, random: Random) -> Riddle:
    """A riddle with one answer. Nobody is met twice on the way, so that each hop has a fact of its own.

    A hop follows one fact: role after role, then what the last person owns; or where that person lives, and who else.
    """
    people, verb = some(NAMES, len(NAMES), random), one(list(VERBS), random)
    town, *elsewhere = some(TOWNS, 3, random)
    roles = tuple(one(ROLES, random) for _ in range(hops - (2 if kind == "who" else 1)))
    start, whom, others = people[0], people[len(roles)], people[len(roles) + 1 :]
    world: World = {(role, people[k]): (people[k + 1],) for k, role in enumerate(roles)}
    if kind == "who":
        asked, gold, start = "town", others[:answers], start if hops > 1 else town
        world |= {("town", person): (town,) for person in ((whom, *gold) if hops > 1 else gold)}
    else:
        asked = "not " * (kind == "not") + verb
        world[asked, whom] = gold = some(VERBS[verb].words, answers, random)
    # As much is said of others, first of those on the way, and they have the same roles: only the hops lead there.
    relations = [asked] * (answers if kind == "who" else 1) + [*roles[:1]]
    for k in range(distractors):
        relation = relations[k] if k < len(relations) else _relation(kind, verb, random)
        person = one([other for other in people if (relation, other) not in world][:CLOSE], random)
        if relation in ROLES:
            mutual = [other for other in people if world.get((relation, other)) == (person,)]
            values = some([other for other in people if other != person and other not in mutual][:CLOSE], 1, random)
        elif relation == "town":
            values = some(elsewhere, 1, random)
        else:
            count = answers if k == 0 and kind != "count" else 1 + int(MOST * random.random())
            values = some(_words(relation, person, world, gold), count, random)
        world[relation, person] = values
    return Riddle(world, verb, start, roles, (NUMBERS[answers - 1],) if kind == "count" else gold)


def one(words: Sequence[str], random: Random) -> str:
    return some(words, 1, random)[0]


def _relation(kind: str, verb: str, random: Random) -> str:
    """One of those that the text may speak of besides. Who is asked where people live is told of no more of them."""
    role = one(ROLES, random)
    return one((role, role if kind == "who" else "town", verb, f"not {verb}", one(list(VERBS), random)), random)


def _words(relation: str, person: str, world: World, gold: tuple[str, ...]) -> list[str]:
    """What may be said of a person: nothing that is asked for, and nothing that contradicts what is said already."""
    verb = relation.removeprefix("not ")
    opposite = world.get((f"not {verb}" if verb == relation else verb, person), ())
    return [word for word in VERBS[verb].words if word not in gold and word not in opposite]
