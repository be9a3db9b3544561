"""Short answers in free words, scored softly: questions about a little text that take one to four hops to answer.

    Ann keeps a hen. The boss of Ann is Bob. Bob keeps a cat and a dog. What does the boss of Ann keep?

The text is made from a spec, and so is its answer; the oracle finds it again by reading the text. What no program can
judge exactly is not asked: an answer is some words of a closed vocabulary, in any order.
"""

from collections.abc import Mapping
from random import Random
from typing import Literal, get_args

import numpy as np
from pydantic import Field

from ..tasks import CheckResult, Domain, Spec, Task
from .answers_facts import draw
from .answers_reader import derive
from .answers_score import token_f1, tokens
from .answers_text import NAMES, NUMBERS, TOWNS, VERBS, ask, tell

WORDS, CHARACTERS = 8, 200  # of the longest reply: twice the longest answer, not all that a text speaks of
HOPS, ANSWERS, FEWEST, DISTRACTORS, VARIATIONS = 4, 4, 2, 8, 1000
Ask = Literal["what", "count", "not", "who"]
Style = Literal["plain", "mixed", "turned"]


class AnswersSpec(Spec):
    """A question about a text."""

    ask: Ask
    """What is asked for: what somebody owns, keeps or likes; how many of it; what somebody is said not to; who lives
    in a town."""
    hops: int = Field(ge=1, le=HOPS)
    """How many facts one has to follow, one from the other."""
    answers: int = Field(default=1, ge=1, le=ANSWERS)
    """How many things or people the answer has; asked to count, one answers with this number."""
    distractors: int = Field(default=FEWEST, ge=FEWEST, le=DISTRACTORS)
    """How many sentences of the text lead elsewhere."""
    style: Style = "plain"
    """How facts are said: "The boss of Ann is Bob", turned as in "Bob is the boss of Ann", or mixed."""
    variation: int = Field(default=0, ge=0, lt=VARIATIONS)
    """Which names and facts: another number is another text of the same kind."""


class Answers(Domain):
    name = "answers"
    success_threshold = 0.5  # half of the words right
    Spec = AnswersSpec
    spec_prompt = (
        "A task is a text of short sentences about a few people, and a question that a few words answer. Its form is\n"
        '{"ask":"what","hops":2,"answers":1,"distractors":2,"style":"plain","variation":17}\n'
        "ask: what somebody owns, keeps or likes (what), how many of them (count), what somebody is said not to own "
        "(not), or who lives in a town (who).\n"
        f"hops: 1 to {HOPS}, how many facts have to be followed. What does the boss of the coach of Ann own? has 3.\n"
        f"answers: 1 to {ANSWERS}, how many words answer it, or what number does where one has to count.\n"
        f"distractors: {FEWEST} to {DISTRACTORS}, how many sentences lead elsewhere.\n"
        "style: plain as in The boss of Ann is Bob, turned as in Bob is the boss of Ann, or mixed.\n"
        f"variation: 0 to {VARIATIONS - 1}; another number draws other names and facts."
    )
    instructions = (
        "Read the text and answer the question at its end; only what the text says is so. Write nothing but the words "
        "that are asked for, with spaces between them and in any order, as in: cat hen. Write a number as a word."
    )

    def make_task(self, spec: AnswersSpec) -> Task:
        random = Random(spec.text)  # a text seeds it the same on every machine
        riddle = draw(spec.ask, spec.hops, spec.answers, spec.distractors, random)
        question = ask(spec.ask, riddle.verb, riddle.start, riddle.roles)
        return Task(spec, " ".join([*tell(riddle.world, spec.style, random), question]), riddle.gold)

    def oracle_reply(self, task: Task) -> str:
        return " ".join(derive(task.prompt))

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """Others of what is asked for, first those that the text speaks of; words of another kind; and no answer."""
        kinds = (NAMES, NUMBERS, *(verb.words for verb in VERBS.values()))
        pool = next(words for words in kinds if task.gold[0] in words)
        others = [word for word in pool if word not in task.gold]
        others.sort(key=lambda word: word.lower() not in task.prompt.lower())
        return " ".join(others[: len(task.gold)]), others[-1], " and ".join(TOWNS[:2]), "I do not know.", ""

    def check(self, task: Task, reply: str) -> CheckResult:
        """The token F1 of a reply. A number has no half: where one is asked for, the reply is it or is worth 0."""
        said = tokens(reply[: CHARACTERS + 1])
        if not said:
            return CheckResult(0.0, False, "the reply has no words")
        if len(reply) > CHARACTERS or len(said) > WORDS:
            return CheckResult(0.0, False, f"the reply has more than {WORDS} words or {CHARACTERS} characters")
        score = token_f1(said, tokens(" ".join(task.gold)))
        if task.gold[0] in NUMBERS and score < 1:
            score = 0.0
        return CheckResult(score, True, "" if score == 1 else f"the answer is {' '.join(task.gold)}")

    def sample(self, random: np.random.Generator) -> AnswersSpec:
        asks, styles = get_args(Ask), get_args(Style)
        return AnswersSpec(
            ask=asks[random.integers(len(asks))],
            hops=int(random.integers(1, HOPS + 1)),
            answers=int(random.integers(1, ANSWERS + 1)),
            distractors=int(random.integers(FEWEST, DISTRACTORS + 1)),
            style=styles[random.integers(len(styles))],
            variation=int(random.integers(VARIATIONS)),
        )

    def sample_easy(self, random: np.random.Generator) -> AnswersSpec:
        """One hop, one or two answers, the fewest distractors, plain sentences."""
        spec = self.sample(random)
        easiest = {"hops": 1, "answers": 1 + spec.answers % 2, "distractors": FEWEST, "style": "plain"}
        return spec.model_copy(update=easiest)

    def features(self, spec: AnswersSpec) -> Mapping[str, str]:
        distractors = "few" if spec.distractors < 4 else "some" if spec.distractors < 7 else "many"
        return {
            "ask": spec.ask,
            "hops": str(spec.hops),
            "answers": str(spec.answers),
            "distractors": distractors,
            "style": spec.style,
        }

    def difficulty(self, spec: AnswersSpec) -> float:
        """From 0 to 1: hops count for as much as all else that makes a text long and its answer wide."""
        hops, answers = (spec.hops - 1) / (HOPS - 1), (spec.answers - 1) / (ANSWERS - 1)
        return (2 * hops + answers + (spec.distractors - FEWEST) / (DISTRACTORS - FEWEST)) / 4
