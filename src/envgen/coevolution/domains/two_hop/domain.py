"""The domain `two_hop`: questions that need two facts, over made-up knowledge, in the manner of Bamboogle.

The passages with the facts are in the prompt, or the agent searches them: a turn `search: WORDS` is answered by the
best passages, and `answer: WORDS` ends the episode. A reply is the turns of an episode, one per line; it scores 1.0 if
the answer has the words of the right one and no others. The searches and answers are read by the code of the benchmark
Bamboogle, and the search engine is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

import numpy as np

from ...episodes import normalize_turn
from ...tasks import CheckResult, Domain, SpecError, Task
from .knowledge import Knowledge, make_knowledge
from .replies import find_answer, find_query, normalize
from .search import PassageSearch
from .spec import ASKS_OF, MAX_DETAILS, MAX_DISTRACTORS, NUM_VARIATIONS, TwoHopSpec, sample_spec

MAX_SEARCHES = 4
NUM_PASSAGES = 2  # that a search shows
MAX_ANSWER_WORDS = 8
CACHED_TASKS = 4096


@dataclass(frozen=True)
class TwoHopAnswerKey:
    """The knowledge, the turns of the oracle, and the search engine."""

    knowledge: Knowledge
    turns: tuple[str, ...]
    search: PassageSearch = field(compare=False, repr=False)


class TwoHopEpisode:
    """A question in progress."""

    def __init__(self, search: PassageSearch):
        self.search, self.num_searches, self.done = search, 0, False

    def step(self, turn: str) -> str | None:
        query = find_query(normalize_turn(turn))
        self.done |= query is None or self.num_searches == MAX_SEARCHES
        if self.done or query is None:
            return None
        self.num_searches += 1
        return search_passages(self.search, query)


def search_passages(search: PassageSearch, query: str) -> str:
    """The best passages in one line."""
    return " ".join(search.passages[k][1] for k in search.search(query, NUM_PASSAGES)) or "nothing found"


class TwoHopDomain(Domain):
    name = "two_hop"
    Spec = TwoHopSpec
    is_multi_turn = True
    instructions = (
        "Answer the question from the given passages, or search them if none are given: write\n"
        "search: WORDS\n"
        f"and nothing else, and you are shown the {NUM_PASSAGES} best passages. You can do so {MAX_SEARCHES} times. "
        "When you know the answer, write it in as few words as possible:\n"
        "answer: WORDS\n"
        "Write one line per turn. All names are made up, so you cannot know the answer without the passages."
    )
    spec_prompt = (
        "A task is a question that needs two facts. Its form is\n"
        '{"bridge":"director","ask":"birthplace","facts":"search","names":"similar","distractors":4,"details":1,'
        '"style":"plain","variation":17}\n'
        "bridge: what leads to a person (director, author, founder) or a city (seat, venue).\n"
        f"ask: what is asked about this person ({', '.join(ASKS_OF['person'])})\n"
        f"or city ({', '.join(ASKS_OF['city'])}).\n"
        "facts: given in the prompt, or search.\n"
        "names: different or similar.\n"
        f"distractors: 0 to {MAX_DISTRACTORS}, the passages that are not needed.\n"
        f"details: 0 to {MAX_DETAILS}, other facts about each person or city.\n"
        "style: plain or varied, the wording of the passages.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; a different number selects different names and facts."
    )

    def make_task(self, spec: TwoHopSpec) -> Task:
        key = _cached_answer_key(spec.text)
        passages = key.knowledge.passages if spec.facts == "given" else ()
        return Task(spec, "\n".join([*passages, f"question: {key.knowledge.question}"]), key)

    def start_episode(self, task: Task) -> TwoHopEpisode:
        return TwoHopEpisode(task.answer_key.search)

    def oracle_reply(self, task: Task) -> str:
        return "\n".join(task.answer_key.turns)

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """Answers of one hop, other values, the answer among others, and no answer within the searches."""
        knowledge: Knowledge = task.answer_key.knowledge
        *searches, right = task.answer_key.turns
        others = (knowledge.subject, knowledge.bridge, *knowledge.other_values)
        wrong = [f"answer: {other}" for other in (*others, f"{knowledge.bridge} {knowledge.answer}", "I do not know")]
        too_many = [f"search: {knowledge.subject}"] * (MAX_SEARCHES + 1)
        turns = [[], searches, [*too_many, right], ["answer: -", right]]
        return (task.prompt, *("\n".join([*searches, each]) for each in wrong), *map("\n".join, turns))

    def check(self, task: Task, reply: str) -> CheckResult:
        """Only the turns of an episode count: those up to the first one that is not a search."""
        turns = [normalize_turn(turn) for turn in reply.split("\n", MAX_SEARCHES + 1)[: MAX_SEARCHES + 1]]
        num_searches = next((k for k, turn in enumerate(turns) if find_query(turn) is None), len(turns))
        if num_searches == len(turns):
            return CheckResult(0.0, False, f"there is no answer after {num_searches} searches")
        words = normalize(find_answer(turns[num_searches]))
        if not 0 < len(words) <= MAX_ANSWER_WORDS:
            return CheckResult(0.0, False, f"the answer has {len(words)} words, not 1 to {MAX_ANSWER_WORDS}")
        answer = task.answer_key.knowledge.answer
        is_right = words == normalize(answer)
        return CheckResult(float(is_right), True, "" if is_right else f"the answer is {answer}")

    def sample(self, rng: np.random.Generator) -> TwoHopSpec:
        return _sample_solvable(rng, easy=False)

    def sample_easy(self, rng: np.random.Generator) -> TwoHopSpec:
        """At most two distractors and one detail, different names, plain sentences."""
        return _sample_solvable(rng, easy=True)

    def features(self, spec: TwoHopSpec) -> Mapping[str, str]:
        return {
            "bridge": spec.bridge,
            "ask": spec.ask,
            "facts": spec.facts,
            "names": spec.names,
            "distractors": ("none", "few", "some", "many", "many")[-(-spec.distractors // 2)],
            "details": str(spec.details),
            "style": spec.style,
        }

    def difficulty(self, spec: TwoHopSpec) -> float:
        """Each of search, similar names and varied style counts 1; all distractors and all details at most 1 each."""
        hard = (spec.facts == "search") + (spec.names == "similar") + (spec.style == "varied")
        return hard + spec.distractors / MAX_DISTRACTORS + spec.details / MAX_DETAILS


def _sample_solvable(rng: np.random.Generator, easy: bool) -> TwoHopSpec:
    while True:
        spec = sample_spec(rng)
        if easy:
            changes = {"distractors": spec.distractors % 3, "details": spec.details % 2}
            spec = spec.model_copy(update={**changes, "names": "different", "style": "plain"})
        try:
            _cached_answer_key(spec.text)
        except SpecError:
            continue
        return spec


@lru_cache(CACHED_TASKS)
def _cached_answer_key(text: str) -> TwoHopAnswerKey:
    spec = TwoHopSpec.parse(text)
    knowledge = make_knowledge(spec, Random(text))  # a string gives the same seed on every machine
    search, turns = PassageSearch([("", passage) for passage in knowledge.passages]), []
    if spec.facts == "search":
        for query, expected in ((knowledge.subject, knowledge.bridge), (knowledge.bridge, knowledge.answer)):
            turns.append(f"search: {query}")
            if expected not in search_passages(search, query):
                raise SpecError(f"a search for {query} does not find {expected}")
    return TwoHopAnswerKey(knowledge, (*turns, f"answer: {knowledge.answer}"), search)
