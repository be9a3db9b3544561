"""Who says what is asked next. The environment policy is one of them (environment.py); these need no model.

uniform   every field spread evenly: no curriculum at all
greedy    of many uniform specs those whose fields have lately been solved about as often as alpha says
static    a set that was written once, before training
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .reward import rewards
from .sampling import Samples
from .settings import Curriculum
from .statistics import Statistics
from .task_filter import Gate
from .tasks import Domain, Spec, Task


@dataclass(frozen=True)
class Proposed:
    """A text that was written to be a spec, and what became of it. Variations of one spec are of one `group`."""

    text: str
    group: int
    task: Task | None
    reason: str = ""  # why it is no task


@dataclass(frozen=True)
class Proposals:
    written: tuple[Proposed, ...]
    tokens: int = 0  # generated for them
    asked: tuple[str, ...] = ()  # what each group was written to, where a model wrote
    samples: Samples | None = None

    @property
    def tasks(self) -> list[Proposed]:
        return [one for one in self.written if one.task is not None]


class Proposer(ABC):
    name: ClassVar[str]

    @abstractmethod
    def propose(self, wanted: int, seeds: Sequence[Spec], known: Statistics, gate: Gate) -> Proposals:
        """`wanted` tasks, or fewer; `seeds` are base specs to vary."""

    def learn(self, proposals: Proposals, p: np.ndarray) -> dict[str, float]:
        """From the success rates of its tasks, in their order."""
        return {}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {}, {}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        return


class Uniform(Proposer):
    name = "uniform"

    def __init__(self, domain: Domain, seed: int):
        self.domain, self.random = domain, np.random.default_rng(seed)

    def draw(self) -> Spec:
        return self.domain.sample(self.random)

    def propose(self, wanted: int, seeds: Sequence[Spec], known: Statistics, gate: Gate) -> Proposals:
        return _through(gate, lambda k: self.choose(known), wanted)

    def choose(self, known: Statistics) -> Spec:
        return self.draw()

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {}, {"random": self.random.bit_generator.state}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self.random.bit_generator.state = values["random"]


class Greedy(Uniform):
    name = "greedy"
    DRAWN = 8  # specs for each that is chosen

    def __init__(self, domain: Domain, seed: int, curriculum: Curriculum):
        super().__init__(domain, seed)
        self.curriculum = curriculum

    def choose(self, known: Statistics) -> Spec:
        found = [self.draw() for _ in range(self.DRAWN)]
        guessed = np.array([known.guess(self.domain.features(spec)) for spec in found])
        return found[int(rewards(guessed, self.curriculum).argmax())]


class Static(Proposer):
    """Goes through `texts` again and again, in ever new orders. They passed a gate when they were written."""

    name = "static"

    def __init__(self, domain: Domain, texts: Sequence[str], tokens: int, seed: int):
        self.domain, self.texts, self.random = domain, list(texts), np.random.default_rng(seed)
        self.left: list[int] = []
        self.tokens = tokens  # generated for the set, until they are told

    def propose(self, wanted: int, seeds: Sequence[Spec], known: Statistics, gate: Gate) -> Proposals:
        found = []
        for k in range(wanted):
            if not self.left:
                self.left = self.random.permutation(len(self.texts)).tolist()
            text = self.texts[self.left.pop()]
            found.append(Proposed(text, k, self.domain.make_task(self.domain.Spec.parse(text))))
        tokens, self.tokens = self.tokens, 0
        return Proposals(tuple(found), tokens)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {}, {"random": self.random.bit_generator.state, "left": self.left, "tokens": self.tokens}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self.random.bit_generator.state, self.left = values["random"], list(values["left"])
        self.tokens = values["tokens"]


def _through(gate: Gate, choose: Any, wanted: int) -> Proposals:
    """`wanted` specs that pass; a domain has far more than a run uses, so few draws are lost."""
    found, passed = [], 0
    for k in range(20 * wanted):
        text = choose(k).text
        told = gate.admit(text)
        if isinstance(told, Task):
            found.append(Proposed(text, passed, told))
            passed += 1
            if passed == wanted:
                break
        else:
            found.append(Proposed(text, -1, None, told))
    return Proposals(tuple(found))
