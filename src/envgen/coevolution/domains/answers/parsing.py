"""Answers a question from its text alone: parses the sentences back into facts and follows the hops one by one.

It shares only the vocabulary with `questions.py`, so an answer on which both agree is right.
"""

import re

from .questions import NUMBERS, ROLES, VERBS, Facts

_INFINITIVES = {
    form: infinitive for infinitive, verb in VERBS.items() for form in (infinitive, verb.third_person, verb.past)
}
_VERB, _ROLE = "|".join(_INFINITIVES), "|".join((*ROLES, "town"))
_SENTENCES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"The (?P<role>{_ROLE}) of (?P<person>\w+) is (?P<value>\w+)\.",
        rf"(?P<value>\w+) is the (?P<role>{_ROLE}) of (?P<person>\w+)\.",
        r"(?P<person>\w+) lives (?P<role>in) (?P<value>\w+)\.",
        rf"(?P<person>\w+) (?P<negation>does not )?(?P<verb>{_VERB}) (?P<value>.+)\.",
        rf"(?P<value>.+) (?:is|are) (?P<negation>not )?(?P<verb>{_VERB}) by (?P<person>\w+)\.",
    )
)
_QUESTIONS = {
    "town": re.compile(r"Who lives in (?P<whom>\w+)\?"),
    "who": re.compile(r"Who else lives in the town of (?P<whom>.+)\?"),
    "what": re.compile(rf"What does (?P<whom>.+) (?P<verb>{_VERB})\?"),
    "count": re.compile(rf"How many \w+ does (?P<whom>.+) (?P<verb>{_VERB})\?"),
    "not": re.compile(rf"What is (?P<whom>.+) said not to (?P<verb>{_VERB})\?"),
}


class ParseError(ValueError):
    """A text states a fact twice, lacks one that the question needs, or contains an unknown sentence."""


def parse_text(text: str) -> tuple[Facts, str]:
    """The facts of a text and the question at its end."""
    *sentences, question = re.findall(r"[^.?]+[.?]", text)
    facts: Facts = {}
    for sentence in sentences:
        key, values = _parse_sentence(sentence.strip())
        if key in facts:
            raise ParseError(f"the text states the {key[0]!r} of {key[1]} twice")
        facts[key] = values
    return facts, question.strip()


def _parse_sentence(sentence: str) -> tuple[tuple[str, str], tuple[str, ...]]:
    for pattern in _SENTENCES:
        if match := pattern.fullmatch(sentence):
            groups = match.groupdict()
            if role := groups.get("role"):
                return ("town" if role == "in" else role, groups["person"]), (groups["value"],)
            words = re.findall(r"\w+", groups["value"].lower())
            values = tuple(word for word in words if word not in ("a", "and", "or"))
            return ("not " * bool(groups["negation"]) + _INFINITIVES[groups["verb"]], groups["person"]), values
    raise ParseError(f"unknown sentence: {sentence!r}")


def find_answer(text: str) -> tuple[str, ...]:
    """The words of the only right answer.

    Raises:
        ParseError: The text does not determine an answer.
    """
    facts, question = parse_text(text)
    ask, groups = _parse_question(question)
    if ask == "town":
        return _find_residents(facts, groups["whom"])
    person = _follow_roles(facts, groups["whom"])
    if ask == "who":
        town = _look_up(facts, "town", person)[0]
        return tuple(resident for resident in _find_residents(facts, town) if resident != person)
    values = _look_up(facts, "not " * (ask == "not") + groups["verb"], person)
    return (NUMBERS[len(values) - 1],) if ask == "count" else values


def _parse_question(question: str) -> tuple[str, dict[str, str]]:
    for ask, pattern in _QUESTIONS.items():
        if match := pattern.fullmatch(question):
            return ask, match.groupdict()
    raise ParseError(f"unknown question: {question!r}")


def _follow_roles(facts: Facts, phrase: str) -> str:
    """The person that a phrase such as "the boss of the coach of Ann" refers to."""
    *roles, person = phrase.split(" of ")
    for role in reversed(roles):
        person = _look_up(facts, role.removeprefix("the "), person)[0]
    return person


def _find_residents(facts: Facts, town: str) -> tuple[str, ...]:
    return tuple(person for (relation, person), values in facts.items() if (relation, values) == ("town", (town,)))


def _look_up(facts: Facts, relation: str, person: str) -> tuple[str, ...]:
    if (relation, person) not in facts:
        raise ParseError(f"the text does not state the {relation!r} of {person}")
    return facts[relation, person]
