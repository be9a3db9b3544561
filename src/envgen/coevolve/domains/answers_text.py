"""A small world told in sentences: who is whose boss, who lives where, who owns, keeps or likes what.

A world maps (relation, person) to what is told of them, so nothing can be told twice or in two ways. A relation is a
role, "town", one of the `VERBS` or "not" and a verb.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivan", "Jane", "Kofi", "Lena")
TOWNS = ("Cairo", "Delhi", "Lima", "Oslo", "Paris", "Quito", "Rome", "Tokyo")
ROLES = ("boss", "coach", "doctor", "teacher")  # none goes both ways, as "neighbour" would
NUMBERS = ("one", "two", "three", "four")


class Verb(NamedTuple):
    """What one says of a person and some things, and the forms that it takes."""

    third: str
    past: str
    noun: str
    article: str
    words: tuple[str, ...]


THINGS = ("ball", "bell", "book", "coin", "cup", "drum", "hat", "kite", "lamp", "ring", "rope", "sock")
PETS = ("cat", "cow", "dog", "duck", "frog", "goat", "hen", "horse", "mouse", "pig", "sheep", "snake")
COLOURS = ("black", "blue", "brown", "green", "grey", "orange", "pink", "purple", "red", "silver", "white", "yellow")
VERBS = {
    "own": Verb("owns", "owned", "things", "a ", THINGS),
    "keep": Verb("keeps", "kept", "pets", "a ", PETS),
    "like": Verb("likes", "liked", "colours", "", COLOURS),
}

World = dict[tuple[str, str], tuple[str, ...]]


def tell(world: World, style: str, random: Random) -> list[str]:
    """Each fact in a sentence, in any order."""
    turned = {"plain": 0.0, "mixed": 0.5, "turned": 1.0}[style]
    sentences = [_sentence(*key, values, random.random() < turned) for key, values in world.items()]
    return [*some(sentences, len(sentences), random)]


def some(words: Sequence[str], count: int, random: Random) -> tuple[str, ...]:
    """`count` different ones. Of `random` only random() is used: it alone is the same in every Python."""
    return tuple(sorted(words, key=lambda _: random.random())[:count])


def _sentence(relation: str, person: str, values: tuple[str, ...], turned: bool) -> str:
    one = values[0]
    if relation in ROLES:
        return f"{one} is the {relation} of {person}." if turned else f"The {relation} of {person} is {one}."
    if relation == "town":
        return f"The town of {person} is {one}." if turned else f"{person} lives in {one}."
    told = relation.removeprefix("not ")
    verb, denied = VERBS[told], told != relation
    if turned:
        are = "is" if len(values) == 1 else "are"
        return f"{_listed(values, verb, 'and').capitalize()} {are} {'not ' * denied}{verb.past} by {person}."
    if denied:
        return f"{person} does not {told} {_listed(values, verb, 'or')}."
    return f"{person} {verb.third} {_listed(values, verb, 'and')}."


def _listed(values: tuple[str, ...], verb: Verb, last: str) -> str:
    *first, end = [verb.article + value for value in values]
    return f"{', '.join(first)} {last} {end}" if first else end


def ask(kind: str, verb: str, start: str, roles: tuple[str, ...]) -> str:
    """A question that begins with a person, or "who" alone with a town, and follows the roles one by one."""
    whom = "".join(f"the {role} of " for role in reversed(roles)) + start
    if kind == "who":
        return f"Who lives in {start}?" if start in TOWNS else f"Who else lives in the town of {whom}?"
    return {
        "what": f"What does {whom} {verb}?",
        "count": f"How many {VERBS[verb].noun} does {whom} {verb}?",
        "not": f"What is {whom} said not to {verb}?",
    }[kind]
