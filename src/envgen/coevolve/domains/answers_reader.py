"""The answer of a question, found in its text alone: the sentences are read back, and its hops followed one by one.

It shares the vocabulary with whoever wrote the text, and nothing else, so an answer that both know is right.
"""

import re

from .answers_text import NUMBERS, ROLES, VERBS, World

_FORMS = {form: verb for verb, forms in VERBS.items() for form in (verb, forms.third, forms.past)}
_VERB, _ROLE = "|".join(_FORMS), "|".join((*ROLES, "town"))
_SENTENCES = tuple(
    re.compile(form)
    for form in (
        rf"The (?P<role>{_ROLE}) of (?P<person>\w+) is (?P<what>\w+)\.",
        rf"(?P<what>\w+) is the (?P<role>{_ROLE}) of (?P<person>\w+)\.",
        r"(?P<person>\w+) lives (?P<role>in) (?P<what>\w+)\.",
        rf"(?P<person>\w+) (?P<denied>does not )?(?P<verb>{_VERB}) (?P<what>.+)\.",
        rf"(?P<what>.+) (?:is|are) (?P<denied>not )?(?P<verb>{_VERB}) by (?P<person>\w+)\.",
    )
)
_QUESTIONS = {
    "town": re.compile(r"Who lives in (?P<whom>\w+)\?"),
    "who": re.compile(r"Who else lives in the town of (?P<whom>.+)\?"),
    "what": re.compile(rf"What does (?P<whom>.+) (?P<verb>{_VERB})\?"),
    "count": re.compile(rf"How many \w+ does (?P<whom>.+) (?P<verb>{_VERB})\?"),
    "not": re.compile(rf"What is (?P<whom>.+) said not to (?P<verb>{_VERB})\?"),
}


class Unclear(ValueError):
    """A text that says something twice, or not at all, or in words that are not understood."""


def read(text: str) -> tuple[World, str]:
    """What a text says, and what it asks at its end."""
    *sentences, question = re.findall(r"[^.?]+[.?]", text)
    world: World = {}
    for sentence in sentences:
        key, values = _fact(sentence.strip())
        if key in world:
            raise Unclear(f"the text says twice what {key[0]!r} of {key[1]} is")
        world[key] = values
    return world, question.strip()


def _fact(sentence: str) -> tuple[tuple[str, str], tuple[str, ...]]:
    for form in _SENTENCES:
        if match := form.fullmatch(sentence):
            found = match.groupdict()
            if role := found.get("role"):
                return ("town" if role == "in" else role, found["person"]), (found["what"],)
            words = re.findall(r"\w+", found["what"].lower())
            things = tuple(word for word in words if word not in ("a", "and", "or"))
            return ("not " * bool(found["denied"]) + _FORMS[found["verb"]], found["person"]), things
    raise Unclear(f"{sentence!r} is no sentence of this world")


def derive(text: str) -> tuple[str, ...]:
    """The words of the one right answer, or Unclear."""
    world, question = read(text)
    kind, asked = _understood(question)
    if kind == "town":
        return _living(world, asked["whom"])
    whom = _follow(world, asked["whom"])
    if kind == "who":
        town = _told(world, "town", whom)[0]
        return tuple(person for person in _living(world, town) if person != whom)
    told = _told(world, "not " * (kind == "not") + asked["verb"], whom)
    return (NUMBERS[len(told) - 1],) if kind == "count" else told


def _understood(question: str) -> tuple[str, dict[str, str]]:
    for kind, form in _QUESTIONS.items():
        if match := form.fullmatch(question):
            return kind, match.groupdict()
    raise Unclear(f"{question!r} is no question of this world")


def _follow(world: World, phrase: str) -> str:
    """The person that "the boss of the coach of Ann" is."""
    *roles, person = phrase.split(" of ")
    for role in reversed(roles):
        person = _told(world, role.removeprefix("the "), person)[0]
    return person


def _living(world: World, town: str) -> tuple[str, ...]:
    return tuple(person for (relation, person), values in world.items() if (relation, values) == ("town", (town,)))


def _told(world: World, relation: str, person: str) -> tuple[str, ...]:
    if (relation, person) not in world:
        raise Unclear(f"the text does not say what {relation!r} of {person} is")
    return world[relation, person]
