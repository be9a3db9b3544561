"""Questions about a few people and the facts that answer them: who is whose boss, who lives where, who owns what.

The facts of a text are a dict from (relation, person) to values, so no fact can be stated twice or in two ways. A
relation is a role, "town", one of the `VERBS`, or "not" and a verb.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivan", "Jane", "Kofi", "Lena")
TOWNS = ("Cairo", "Delhi", "Lima", "Oslo", "Paris", "Quito", "Rome", "Tokyo")
ROLES = ("boss", "coach", "doctor", "teacher")  # none is symmetric, as "neighbor" would be
NUMBERS = ("one", "two", "three", "four")
THINGS = ("ball", "bell", "book", "coin", "cup", "drum", "hat", "kite", "lamp", "ring", "rope", "sock")
PETS = ("cat", "cow", "dog", "duck", "frog", "goat", "hen", "horse", "mouse", "pig", "sheep", "snake")
COLORS = ("black", "blue", "brown", "green", "grey", "orange", "pink", "purple", "red", "silver", "white", "yellow")

MAX_VALUES = 4  # per fact; each verb has three times as many, enough for the answer, its negation and distractors
NUM_CANDIDATES = 4  # people to choose from; a text about few people mentions each of them often


class Verb(NamedTuple):
    """A verb that relates a person to some objects."""

    third_person: str
    past: str
    noun: str  # what "how many" asks for
    article: str
    objects: tuple[str, ...]


VERBS = {
    "own": Verb("owns", "owned", "things", "a ", THINGS),
    "keep": Verb("keeps", "kept", "pets", "a ", PETS),
    "like": Verb("likes", "liked", "colours", "", COLORS),  # British in the texts: changing it changes every task
}

Facts = dict[tuple[str, str], tuple[str, ...]]


class Question(NamedTuple):
    """The facts of a text, a question about them and its answer."""

    facts: Facts
    verb: str
    start: str  # the person or town that the question starts from
    roles: tuple[str, ...]  # followed from there, one by one
    answer: tuple[str, ...]


def sample_question(ask: str, hops: int, num_answers: int, num_distractors: int, rng: Random) -> Question:
    """A question with a unique answer.

    Each hop follows one fact: from role to role, and at last to what that person owns, or to their town and whoever
    else lives there. Nobody occurs twice on this path, so each hop needs a fact of its own.
    """
    people, verb = sample_words(NAMES, len(NAMES), rng), sample_word(list(VERBS), rng)
    town, *other_towns = sample_words(TOWNS, 3, rng)
    roles = tuple(sample_word(ROLES, rng) for _ in range(hops - (2 if ask == "who" else 1)))
    start, last, others = people[0], people[len(roles)], people[len(roles) + 1 :]
    facts: Facts = {(role, people[k]): (people[k + 1],) for k, role in enumerate(roles)}
    if ask == "who":
        target, answer, start = "town", others[:num_answers], start if hops > 1 else town
        facts |= {("town", person): (town,) for person in ((last, *answer) if hops > 1 else answer)}
    else:
        target = "not " * (ask == "not") + verb
        facts[target, last] = answer = sample_words(VERBS[verb].objects, num_answers, rng)
    # The first distractors have the relations of the question itself, so only the hops lead to the right person.
    relations = [target] * (num_answers if ask == "who" else 1) + [*roles[:1]]
    for k in range(num_distractors):
        relation = relations[k] if k < len(relations) else _sample_relation(ask, verb, rng)
        person = sample_word([other for other in people if (relation, other) not in facts][:NUM_CANDIDATES], rng)
        if relation in ROLES:
            mutual = [other for other in people if facts.get((relation, other)) == (person,)]
            candidates = [other for other in people if other != person and other not in mutual]
            values = sample_words(candidates[:NUM_CANDIDATES], 1, rng)
        elif relation == "town":
            values = sample_words(other_towns, 1, rng)
        else:
            count = num_answers if k == 0 and ask != "count" else 1 + int(MAX_VALUES * rng.random())
            values = sample_words(_allowed_objects(relation, person, facts, answer), count, rng)
        facts[relation, person] = values
    return Question(facts, verb, start, roles, (NUMBERS[num_answers - 1],) if ask == "count" else answer)


def _sample_relation(ask: str, verb: str, rng: Random) -> str:
    """The relation of a distractor. A question about a town's people gets no more facts about towns."""
    role = sample_word(ROLES, rng)
    options = (role, role if ask == "who" else "town", verb, f"not {verb}", sample_word(list(VERBS), rng))
    return sample_word(options, rng)


def _allowed_objects(relation: str, person: str, facts: Facts, answer: tuple[str, ...]) -> list[str]:
    """The objects of a distractor: none that is part of the answer or contradicts another fact about the person."""
    verb = relation.removeprefix("not ")
    opposite = facts.get((f"not {verb}" if verb == relation else verb, person), ())
    return [word for word in VERBS[verb].objects if word not in answer and word not in opposite]


def sample_words(words: Sequence[str], count: int, rng: Random) -> tuple[str, ...]:
    """`count` different words. Only random() of `rng` is used: its stream is the same in every version of Python."""
    return tuple(sorted(words, key=lambda _: rng.random())[:count])


def sample_word(words: Sequence[str], rng: Random) -> str:
    return sample_words(words, 1, rng)[0]


def write_sentences(facts: Facts, style: str, rng: Random) -> list[str]:
    """One sentence per fact, in random order."""
    probability = {"plain": 0.0, "mixed": 0.5, "turned": 1.0}[style]
    sentences = [_write_sentence(*key, values, rng.random() < probability) for key, values in facts.items()]
    return [*sample_words(sentences, len(sentences), rng)]


def _write_sentence(relation: str, person: str, values: tuple[str, ...], turned: bool) -> str:
    value = values[0]
    if relation in ROLES:
        return f"{value} is the {relation} of {person}." if turned else f"The {relation} of {person} is {value}."
    if relation == "town":
        return f"The town of {person} is {value}." if turned else f"{person} lives in {value}."
    infinitive = relation.removeprefix("not ")
    verb, negated = VERBS[infinitive], infinitive != relation
    if turned:
        auxiliary = "is" if len(values) == 1 else "are"
        subject = _enumerate_objects(values, verb, "and").capitalize()
        return f"{subject} {auxiliary} {'not ' * negated}{verb.past} by {person}."
    if negated:
        return f"{person} does not {infinitive} {_enumerate_objects(values, verb, 'or')}."
    return f"{person} {verb.third_person} {_enumerate_objects(values, verb, 'and')}."


def _enumerate_objects(values: tuple[str, ...], verb: Verb, conjunction: str) -> str:
    *first, last = [verb.article + value for value in values]
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def write_question(ask: str, verb: str, start: str, roles: tuple[str, ...]) -> str:
    """The question that starts from a person (or a town, for "who" with one hop) and follows the roles one by one."""
    phrase = "".join(f"the {role} of " for role in reversed(roles)) + start
    if ask == "who":
        return f"Who lives in {start}?" if start in TOWNS else f"Who else lives in the town of {phrase}?"
    return {
        "what": f"What does {phrase} {verb}?",
        "count": f"How many {VERBS[verb].noun} does {phrase} {verb}?",
        "not": f"What is {phrase} said not to {verb}?",
    }[ask]
