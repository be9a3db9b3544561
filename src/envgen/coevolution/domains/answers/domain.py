"""The domain `answers`: questions about a short text that take one to four hops, with short answers scored by token F1.

    Ann keeps a hen. The boss of Ann is Bob. Bob keeps a cat and a dog. What does the boss of Ann keep?

Text and answer are generated from the spec; the oracle finds the answer independently, by parsing the text. An answer
consists of words from a closed vocabulary, in any order, so a program can score it exactly.
"""

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal, get_args

import numpy as np
from pydantic import Field

from ...tasks import CheckResult, Domain, Spec, Task
from .questions import NAMES, NUMBERS, TOWNS, VERBS, find_answer, sample_question, write_question, write_sentences

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
    success_threshold = 0.5  # half of the words are right
    Spec = AnswersSpec
    spec_prompt = (
        "A task is a text of short sentences about a few people, and a question that a few words answer. Its form is\n"
        '{"ask":"what","hops":2,"answers":1,"distractors":2,"style":"plain","variation":17}\n'
        "ask: what somebody owns, keeps or likes (what), how many of them (count), what somebody is said not to own "
        "(not), or who lives in a town (who).\n"
        f"hops: 1 to {MAX_HOPS}, how many facts have to be followed. "
        "What does the boss of the coach of Ann own? has 3.\n"
        f"answers: 1 to {MAX_ANSWERS}, how many words answer it, or what number does where one has to count.\n"
        f"distractors: {MIN_DISTRACTORS} to {MAX_DISTRACTORS}, how many sentences lead elsewhere.\n"
        "style: plain as in The boss of Ann is Bob, turned as in Bob is the boss of Ann, or mixed.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; another number draws other names and facts."
    )
    instructions = (
        "Read the text and answer the question at its end; only what the text says is so. Write nothing but the words "
        "that are asked for, with spaces between them and in any order, as in: cat hen. Write a number as a word."
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
        same_kind = next(words for words in kinds if task.gold[0] in words)
        others = [word for word in same_kind if word not in task.gold]
        others.sort(key=lambda word: word.lower() not in task.prompt.lower())
        return " ".join(others[: len(task.gold)]), others[-1], " and ".join(TOWNS[:2]), "I do not know.", ""

    def check(self, task: Task, reply: str) -> CheckResult:
        """The token F1 of a reply. A number cannot be partly right: it scores 1 or 0."""
        words = tokenize(reply[: MAX_CHARS + 1])
        if not words:
            return CheckResult(0.0, False, "the reply has no words")
        if len(reply) > MAX_CHARS or len(words) > MAX_WORDS:
            return CheckResult(0.0, False, f"the reply has more than {MAX_WORDS} words or {MAX_CHARS} characters")
        score = token_f1(words, tokenize(" ".join(task.gold)))
        if task.gold[0] in NUMBERS and score < 1:
            score = 0.0
        return CheckResult(score, True, "" if score == 1 else f"the answer is {' '.join(task.gold)}")

    def sample(self, rng: np.random.Generator) -> AnswersSpec:
        asks, styles = get_args(Ask), get_args(Style)
        return AnswersSpec(
            ask=asks[rng.integers(len(asks))],
            hops=int(rng.integers(1, MAX_HOPS + 1)),
            answers=int(rng.integers(1, MAX_ANSWERS + 1)),
            distractors=int(rng.integers(MIN_DISTRACTORS, MAX_DISTRACTORS + 1)),
            style=styles[rng.integers(len(styles))],
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
