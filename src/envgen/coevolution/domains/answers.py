"""The domain `answers`: questions about a short text that take one to four hops, with short answers scored by token F1.

    Ann keeps a hen. The boss of Ann is Bob. Bob keeps a cat and a dog. What does the boss of Ann keep?

Text and answer are generated from the spec: questions about a few people and the facts that answer them. The facts of a
text are a dict from (relation, person) to values, so no fact can be stated twice or in two ways. A relation is a role,
"town", one of the `VERBS`, or "not" and a verb.

The oracle finds the answer independently: `find_answer` parses the sentences back into facts and follows the hops one
by one. It shares only the vocabulary with the code that writes the text, so an answer on which both agree is right. An
answer consists of words from a closed vocabulary, in any order, so a program can score it exactly.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal, NamedTuple, get_args

import numpy as np
from pydantic import Field

from ..tasks import CheckResult, Domain, Spec, Task
from .random_choice import choose, sample_word, sample_words

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

    Each hop follows one fact: from role to role, and finally to what that person owns, or to their town and whoever
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


MAX_WORDS, MAX_CHARS = 8, 200  # of a reply: twice the longest answer, so that copying the text does not pay
MAX_HOPS = MAX_ANSWERS = 4
MIN_DISTRACTORS, MAX_DISTRACTORS = 2, 8
NUM_VARIATIONS = 1000
ARTICLES = ("a", "an", "the")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Ask = Literal["what", "count", "not", "who"]
Style = Literal["plain", "mixed", "turned"]


class AnswersSpec(Spec):
    """A question about a text."""

    ask: Ask
    """The kind of question: what somebody owns, keeps or likes; how many of them; what somebody is said not to own,
    keep or like; or who lives in a town."""
    hops: int = Field(ge=1, le=MAX_HOPS)
    """The number of facts that lead to the answer, each from the one before."""
    answers: int = Field(default=1, ge=1, le=MAX_ANSWERS)
    """The number of objects or people in the answer. For "count", the answer is this number."""
    distractors: int = Field(default=MIN_DISTRACTORS, ge=MIN_DISTRACTORS, le=MAX_DISTRACTORS)
    """The number of sentences that are not needed."""
    style: Style = "plain"
    """How facts are phrased: plain ("The boss of Ann is Bob"), turned ("Bob is the boss of Ann"), or mixed."""
    variation: int = Field(default=0, ge=0, lt=NUM_VARIATIONS)
    """Selects the names and the facts."""


class AnswersDomain(Domain):
    name = "answers"
    success_threshold = 0.75  # lower ones are reached by listing the words of the asked kind
    Spec = AnswersSpec
    spec_prompt = (
        "A task is a text of short sentences about a few people, and a question that a few words answer. Its form is\n"
        '{"ask":"what","hops":2,"answers":1,"distractors":2,"style":"plain","variation":17}\n'
        "ask: what somebody owns, keeps or likes (what), how many of them (count), what somebody is said not to own "
        "(not), or who lives in a town (who).\n"
        f"hops: 1 to {MAX_HOPS}, the number of facts that lead to the answer. "
        "What does the boss of the coach of Ann own? has 3.\n"
        f"answers: 1 to {MAX_ANSWERS}, the number of words in the answer. For count, the answer is this number.\n"
        f"distractors: {MIN_DISTRACTORS} to {MAX_DISTRACTORS}, the number of sentences that are not needed.\n"
        "style: plain as in The boss of Ann is Bob, turned as in Bob is the boss of Ann, or mixed.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; a different number selects different names and facts."
    )
    instructions = (
        "Read the text and answer the question at its end. Use only what the text says. Write nothing but the words of "
        "the answer, separated by spaces and in any order, as in: cat hen. Write a number as a word."
    )

    def make_task(self, spec: AnswersSpec) -> Task:
        rng = Random(spec.text)  # a string gives the same seed on every machine
        question = sample_question(spec.ask, spec.hops, spec.answers, spec.distractors, rng)
        sentences = write_sentences(question.facts, spec.style, rng)
        sentences.append(write_question(spec.ask, question.verb, question.start, question.roles))
        return Task(spec, " ".join(sentences), question.answer)

    def oracle_reply(self, task: Task) -> str:
        return " ".join(find_answer(task.prompt))

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """Other words of the answer's kind, preferably from the text; words of another kind; and no answer."""
        kinds = (NAMES, NUMBERS, *(verb.objects for verb in VERBS.values()))
        same_kind = next(words for words in kinds if task.answer_key[0] in words)
        others = [word for word in same_kind if word not in task.answer_key]
        others.sort(key=lambda word: word.lower() not in task.prompt.lower())
        return " ".join(others[: len(task.answer_key)]), others[-1], " and ".join(TOWNS[:2]), "I do not know.", ""

    def check(self, task: Task, reply: str) -> CheckResult:
        """The token F1 of a reply. A number cannot be partly right: it scores 1 or 0."""
        words = tokenize(reply[: MAX_CHARS + 1])
        if not words:
            return CheckResult(0.0, False, "the reply has no words")
        if len(reply) > MAX_CHARS or len(words) > MAX_WORDS:
            return CheckResult(0.0, False, f"the reply has more than {MAX_WORDS} words or {MAX_CHARS} characters")
        score = token_f1(words, tokenize(" ".join(task.answer_key)))
        if task.answer_key[0] in NUMBERS and score < 1:
            score = 0.0
        return CheckResult(score, True, "" if score == 1 else f"the answer is {' '.join(task.answer_key)}")

    def sample(self, rng: np.random.Generator) -> AnswersSpec:
        asks, styles = get_args(Ask), get_args(Style)
        return AnswersSpec(
            ask=choose(asks, rng),
            hops=int(rng.integers(1, MAX_HOPS + 1)),
            answers=int(rng.integers(1, MAX_ANSWERS + 1)),
            distractors=int(rng.integers(MIN_DISTRACTORS, MAX_DISTRACTORS + 1)),
            style=choose(styles, rng),
            variation=int(rng.integers(NUM_VARIATIONS)),
        )

    def sample_easy(self, rng: np.random.Generator) -> AnswersSpec:
        """One hop, one or two answers, the fewest distractors, plain sentences."""
        spec = self.sample(rng)
        easiest = {"hops": 1, "answers": 1 + spec.answers % 2, "distractors": MIN_DISTRACTORS, "style": "plain"}
        return spec.model_copy(update=easiest)

    def features(self, spec: AnswersSpec) -> Mapping[str, str]:
        return {
            "ask": spec.ask,
            "hops": str(spec.hops),
            "answers": str(spec.answers),
            "distractors": "few" if spec.distractors < 4 else "some" if spec.distractors < 7 else "many",
            "style": spec.style,
        }

    def difficulty(self, spec: AnswersSpec) -> float:
        """From 0 to 1. The hops weigh as much as the answers and the distractors together."""
        hops, answers = (spec.hops - 1) / (MAX_HOPS - 1), (spec.answers - 1) / (MAX_ANSWERS - 1)
        return (2 * hops + answers + (spec.distractors - MIN_DISTRACTORS) / (MAX_DISTRACTORS - MIN_DISTRACTORS)) / 4


def tokenize(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation and articles."""
    return [word for word in text.lower().translate(_NO_PUNCTUATION).split() if word not in ARTICLES]


def token_f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """The harmonic mean of precision and recall over words, as in SQuAD (Rajpurkar et al. 2016).

    Order does not matter, and repeated words count as often as they occur in both.
    """
    shared = sum((Counter(predicted) & Counter(expected)).values())
    return 2 * shared / (len(predicted) + len(expected)) if shared else 0.0
