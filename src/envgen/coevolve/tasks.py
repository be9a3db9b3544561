"""What a domain of tasks is: a closed form in which one says what to ask, and an answer key and checker of its own.

Whoever writes a spec chooses *what* is asked. The domain makes the task of it, knows an answer that it scores 1.0, and
scores any reply; nobody else writes an answer key, and no reply is ever evaluated as code.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import ValidationError

from envgen.settings import Settings, explain

TEST_SEED = 20_251_222  # of the tasks that no one trains on


class SpecError(ValueError):
    """A text is no spec, or a spec that no task can be made of; the message says why."""


class DomainError(Exception):
    """A domain contradicts itself, so that no reward of it could be trusted."""


class Spec(Settings):
    """What may be chosen about a task of one domain: closed words and bounded numbers."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """A spec from JSON as a model may have written it, or a SpecError."""
        try:
            told = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"this is not JSON: {error}") from None
        if not isinstance(told, dict):
            raise SpecError(f"a spec is a JSON object, not {type(told).__name__}")
        try:
            return cls.model_validate(told)
        except ValidationError as error:
            raise SpecError(explain(error)) from None

    @property
    def text(self) -> str:
        """Its one form: every field in its order, without spaces that say nothing."""
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":"))

    @property
    def key(self) -> str:
        """The same for equal specs alone."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Task:
    """What a spec asks. `gold` is whatever the domain's checker compares replies with."""

    spec: Spec
    prompt: str
    gold: Any


@dataclass(frozen=True)
class CheckResult:
    """What a reply was worth. `valid`: it could be evaluated, right or wrong."""

    score: float  # from 0 to 1
    valid: bool
    reason: str = ""


class Domain(ABC):
    """A family of tasks. Everything here is a function of its arguments: equal specs make equal tasks."""

    name: ClassVar[str]
    Spec: ClassVar[type[Spec]]
    spec_prompt: ClassVar[str]  # what whoever writes specs is told
    instructions: ClassVar[str]  # what whoever answers is told before the prompt
    success_threshold: ClassVar[float] = 1.0  # from which score on a reply usually counts as success

    @abstractmethod
    def make_task(self, spec: Any) -> Task:
        """The task of a spec, or a SpecError if it has no solution or contradicts itself."""

    @abstractmethod
    def oracle_reply(self, task: Task) -> str:
        """A right reply."""

    @abstractmethod
    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """Replies that look right and are not."""

    @abstractmethod
    def check(self, task: Task, reply: str) -> CheckResult:
        """Score a reply."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Any:
        """A spec drawn with every field spread evenly over what it may be."""

    @abstractmethod
    def sample_easy(self, rng: np.random.Generator) -> Any:
        """A spec of those that small models are taught with before they learn by themselves."""

    @abstractmethod
    def features(self, spec: Any) -> Mapping[str, str]:
        """A spec by the few words that success is told by: {"steps": "3", ...}."""

    @abstractmethod
    def difficulty(self, spec: Any) -> float:
        """How much a spec asks for, by a measure of the domain's own: not by who solved it."""

    def vary(self, spec: Any, rng: np.random.Generator) -> Any:
        """A spec that is partly this one: some of its fields are drawn anew."""
        other = self.sample(rng)
        for _ in range(1000):
            other = self.sample(rng)
            names = list(type(spec).model_fields)
            fresh = rng.random(len(names)) < 0.5
            if fresh.all() or not fresh.any():
                continue
            told = {name: getattr(other if new else spec, name) for name, new in zip(names, fresh, strict=True)}
            try:
                found = self.Spec.model_validate(told)
                self.make_task(found)
            except (ValidationError, SpecError):
                continue
            return found
        return other

    def held_out_tasks(self, count: int) -> tuple[Task, ...]:
        """The held-out tasks: the first `count` different ones of a fixed seed."""
        random, found = np.random.default_rng(TEST_SEED), {}
        for _ in range(100 * count):
            spec = self.sample(random)
            found.setdefault(spec.key, spec)
            if len(found) == count:
                break
        else:
            raise DomainError(f"{self.name} has only {len(found)} different specs, not the {count} of its test")
        return tuple(self.make_task(spec) for spec in found.values())


def validate(domain: Domain, tasks: Iterable[Task]) -> None:
    """Prove on each task that the checker gives 1.0 to the oracle's reply and 0 to known wrong ones.

    Raises a DomainError otherwise.
    """
    for task in tasks:
        right = domain.check(task, domain.oracle_reply(task))
        if not right.valid or right.score != 1.0:
            raise DomainError(
                f"{domain.name} scores its own answer {right.score} ({right.reason}) on the task {task.spec.text}"
            )
        for reply in domain.wrong_replies(task):
            score = domain.check(task, reply).score
            if score != 0:
                raise DomainError(f"{domain.name} scores the wrong {reply!r} {score} on the task {task.spec.text}")
