"""The contract of a domain: a closed schema of task specs, and an answer key and checker of its own.

A spec only selects *what* is asked. The domain turns it into a task, knows a reply that scores 1.0 and scores any other
reply. Nobody else writes an answer key, and no reply is ever executed as code. `check_domain` checks that a domain
follows this contract.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, get_args

import numpy as np
from pydantic import ValidationError

from envgen.errors import EnvgenError, describe_exception
from envgen.settings import Settings, format_validation_error

from .settings import LossAggregation

HELD_OUT_SEED = 20_251_222  # of the tasks that are never trained on
NUM_SAMPLES = 6  # specs of each run that are checked before anything else
HOSTILE_REPLIES = ("", " \n", "\x00", "nan", "__import__('os')", "(" * 1000, "\ud800", "x" * 100_000)


class SpecError(ValueError):
    """A text is not a spec, or no task can be made of it; the message says why."""


class DomainError(EnvgenError):
    """A domain breaks its contract, or cannot make the requested tasks."""


class Spec(Settings):
    """The choices that define a task of one domain: enumerated words and bounded numbers."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse JSON as a model may have written it; raises SpecError."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"not valid JSON: {error}") from None
        if not isinstance(data, dict):
            raise SpecError(f"a spec must be a JSON object, not {type(data).__name__}")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise SpecError(format_validation_error(error)) from None

    @property
    def text(self) -> str:
        """The canonical JSON: all fields in order, without whitespace."""
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":"))

    @property
    def key(self) -> str:
        """A hash that is equal exactly for equal specs."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Task:
    """The task of a spec."""

    spec: Spec
    """The spec that the task was made of."""
    prompt: str
    """What the agent reads."""
    answer_key: Any
    """What `Domain.check` compares replies with, in a form of its own."""


@dataclass(frozen=True)
class CheckResult:
    """The score of a reply."""

    score: float
    """From 0 to 1."""
    valid: bool
    """Whether the reply could be evaluated, right or wrong."""
    reason: str = ""
    """Why it did not get the full score."""


class Episode(Protocol):
    """A task of several turns in progress. Equal turns are answered equally."""

    def step(self, turn: str) -> str | None:
        """What the environment answers to a turn of the agent; None if the episode is over."""
        ...


class Domain(ABC):
    """A family of tasks. All methods are pure functions of their arguments: equal specs make equal tasks.

    In a multi-turn domain the prompt is what the agent sees first, `start_episode` answers each of its turns, and a
    reply is the text of all turns, one per line.
    """

    name: ClassVar[str]
    """The name of the domain in run directories, tables and figures."""
    Spec: ClassVar[type[Spec]]
    """The class of its specs."""
    spec_prompt: ClassVar[str]
    """System prompt of the environment policy, which writes specs."""
    instructions: ClassVar[str]
    """System prompt of the agent."""
    success_threshold: ClassVar[float] = 1.0
    """The lowest score that counts as success, unless the curriculum sets another."""
    is_multi_turn: ClassVar[bool] = False
    """Whether a task takes several turns; then `start_episode` plays it."""
    loss_agg: ClassVar[LossAggregation] = "token"
    """How the agent's updates add up the losses of tokens, unless the settings name another way."""

    @abstractmethod
    def make_task(self, spec: Any) -> Task:
        """The task of a spec; raises SpecError if it is contradictory or has no solution."""

    @abstractmethod
    def oracle_reply(self, task: Task) -> str:
        """A correct reply."""

    @abstractmethod
    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """Plausible but incorrect replies."""

    @abstractmethod
    def check(self, task: Task, reply: str) -> CheckResult:
        """Score a reply."""

    def start_episode(self, task: Task) -> Episode:
        """Begin an episode of a task; only multi-turn domains have episodes."""
        raise NotImplementedError(f"{self.name} has no episodes: a task is answered by one reply")

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Any:
        """A random spec from the distribution of the domain's tasks."""

    @abstractmethod
    def sample_easy(self, rng: np.random.Generator) -> Any:
        """A random easy spec, for the pretraining of small models."""

    @abstractmethod
    def features(self, spec: Any) -> Mapping[str, str]:
        """The features by which success rates are reported: {"steps": "3", ...}."""

    @abstractmethod
    def difficulty(self, spec: Any) -> float:
        """The difficulty of a spec by a measure of the domain's own, independent of any agent."""

    def vary(self, spec: Any, rng: np.random.Generator) -> Any:
        """A variation of a spec: some of its fields are sampled again, or the only one."""
        other, names = self.sample(rng), list(type(spec).model_fields)
        if len(names) == 1:
            return other
        for _ in range(1000):
            other = self.sample(rng)
            is_new = rng.random(len(names)) < 0.5
            if is_new.all() or not is_new.any():
                continue
            values = {name: getattr(other if new else spec, name) for name, new in zip(names, is_new, strict=True)}
            try:
                variation = self.Spec.model_validate(values)
                self.make_task(variation)
            except (ValidationError, SpecError):
                continue
            return variation
        return other

    def sample_held_out(self, rng: np.random.Generator) -> Any:
        """A random spec of a held-out task. Training leaves out tasks equal to held-out ones."""
        return self.sample(rng)

    def held_out_tasks(self, count: int) -> tuple[Task, ...]:
        """The held-out tasks: the first `count` distinct ones from a fixed seed."""
        rng, specs = np.random.default_rng(HELD_OUT_SEED), {}
        for _ in range(100 * count):
            spec = self.sample_held_out(rng)
            specs.setdefault(spec.key, spec)
            if len(specs) == count:
                break
        else:
            raise DomainError(
                f"{self.name} has only {len(specs)} distinct specs, fewer than the {count} held-out tasks requested; "
                "lower num_eval_tasks of the plan and num_held_out of the pretraining"
            )
        return tuple(self.make_task(spec) for spec in specs.values())


def validate(domain: Domain, tasks: Iterable[Task]) -> None:
    """Check for each task that the oracle's reply scores 1.0 and known wrong replies score 0; raises DomainError."""
    for task in tasks:
        result = check_reply(domain, task, domain.oracle_reply(task))
        if not result.valid or result.score != 1.0:
            raise DomainError(
                f"{domain.name} scores its own answer {result.score} instead of 1 ({result.reason}) "
                f"on the task {task.spec.text}"
            )
        for reply in domain.wrong_replies(task):
            score = check_reply(domain, task, reply).score
            if score != 0:
                raise DomainError(
                    f"{domain.name} scores the wrong reply {reply!r} {score} instead of 0 on {task.spec.text}"
                )


def check_reply(domain: Domain, task: Task, reply: str) -> CheckResult:
    """The result of `check`; raises DomainError if it is none."""
    result: Any = domain.check(task, reply)
    is_result = isinstance(result, CheckResult) and isinstance(result.valid, bool | np.bool_)
    if not is_result or not 0 <= result.score <= 1:
        raise DomainError(
            f"{domain.name}: check must return a CheckResult with a score from 0 to 1, not {result!r:.100} "
            f"(for the reply {reply!r:.60})"
        )
    return result


@contextmanager
def explaining_errors(domain: Domain) -> Iterator[None]:
    """Context for calling a domain: turns whatever its code raises into a DomainError that names the line."""
    try:
        yield
    except (EnvgenError, SpecError, MemoryError):
        raise
    except Exception as error:
        raise DomainError(f"the domain {type(domain).__name__} fails: {describe_exception(error)}") from error


def check_tasks(domain: Domain, tasks: Iterable[Task]) -> None:
    """Check what a run relies on for these tasks: as `validate`, and that features and difficulty can be stored."""
    for task in tasks:
        validate(domain, [task])
        _check_features(domain, task.spec)


def check_samples(domain: Domain, num_held_out: int) -> None:
    """Check in a moment what a run relies on; `check_domain` checks the whole contract.

    Args:
        num_held_out: The number of held-out tasks that are checked.
    """
    with explaining_errors(domain):
        _check_attributes(domain)
        held_out = domain.held_out_tasks(num_held_out)
        check_tasks(domain, held_out)
        _check_replies(domain, held_out[0])
        for spec in _sample_specs(domain, NUM_SAMPLES, seed=0):
            with suppress(SpecError):  # a run samples another one
                check_tasks(domain, [domain.make_task(spec)])


def check_domain(domain: Domain, num_specs: int = 100, seed: int = 0) -> None:
    """Check a domain on sampled specs.

    Its methods must be pure functions of their arguments, its specs must survive being written and parsed, its checker
    must score the oracle's reply 1 and wrong replies 0 and accept any text, and its features must be strings and its
    difficulty finite.

    Raises:
        DomainError: The domain breaks the contract; the message says where.
    """
    _check_attributes(domain)
    specs = _sample_specs(domain, num_specs, seed)
    if [spec.text for spec in specs] != [spec.text for spec in _sample_specs(domain, num_specs, seed)]:
        raise DomainError(
            f"{domain.name}: sampling twice with the same seed gives different specs; draw only from `rng`"
        )
    feature_names: set[str] = set()
    for spec in specs:
        task = _check_spec(domain, spec)
        _check_replies(domain, task)
        if domain.is_multi_turn:
            _check_episode(domain, task)
        names = _check_features(domain, spec)
        feature_names = feature_names or names
        if names != feature_names:
            raise DomainError(
                f"{domain.name}: specs differ in the names of their features: "
                f"{', '.join(sorted(feature_names ^ names))}"
            )
    domain.held_out_tasks(2)


def _check_attributes(domain: Domain) -> None:
    for attribute in ("name", "spec_prompt", "instructions"):
        if not isinstance(getattr(domain, attribute, None), str):
            raise DomainError(f"{type(domain).__name__}.{attribute} must be a string")
    if not domain.name:
        raise DomainError(f"{type(domain).__name__}.name is empty")
    if domain.name.startswith(".") or set(domain.name) & set("/\\\0"):
        raise DomainError(
            f"{type(domain).__name__}.name must be usable as the name of a folder, not {domain.name!r:.80}"
        )
    if not (isinstance(getattr(domain, "Spec", None), type) and issubclass(domain.Spec, Spec)):
        raise DomainError(f"{domain.name}: Spec must be a subclass of envgen.coevolution.tasks.Spec")
    if not 0 < domain.success_threshold <= 1:
        raise DomainError(f"{domain.name}: success_threshold is {domain.success_threshold}, not in (0, 1]")
    if domain.loss_agg not in get_args(LossAggregation):
        raise DomainError(f"{domain.name}: loss_agg must be token or sequence, not {domain.loss_agg!r}")


def _sample_specs(domain: Domain, count: int, seed: int) -> list[Any]:
    """Specs from all three ways to sample."""
    rng = np.random.default_rng(seed)
    specs: list[Any] = []
    for index in range(count):
        spec = (domain.sample, domain.sample_easy, domain.sample)[index % 3](rng)
        specs.append(domain.vary(spec, rng) if index % 3 == 2 else spec)
    return specs


def _check_spec(domain: Domain, spec: Any) -> Task:
    if not isinstance(spec, domain.Spec):
        raise DomainError(f"{domain.name}: a sampled spec is a {type(spec).__name__}, not a {domain.Spec.__name__}")
    try:
        parsed = domain.Spec.parse(spec.text)
        task, parsed_task = domain.make_task(spec), domain.make_task(parsed)
    except SpecError as error:
        raise DomainError(f"{domain.name}: the sampled spec {spec.text} is refused: {error}") from error
    if parsed != spec:
        raise DomainError(f"{domain.name}: the spec {spec.text} is parsed as {parsed.text}")
    if not isinstance(task.prompt, str) or not task.prompt:
        raise DomainError(f"{domain.name}: the spec {spec.text} has no prompt")
    if (task.prompt, task.answer_key, domain.oracle_reply(task)) != (
        parsed_task.prompt,
        parsed_task.answer_key,
        domain.oracle_reply(parsed_task),
    ):
        raise DomainError(f"{domain.name}: equal specs make different tasks: {spec.text}")
    return task


def _check_replies(domain: Domain, task: Task) -> None:
    replies = (*HOSTILE_REPLIES, task.prompt)
    for reply in replies:
        try:
            result = check_reply(domain, task, reply)
        except DomainError:
            raise
        except Exception as error:
            raise DomainError(
                f"{domain.name}: check fails on the reply {reply!r:.60}: {describe_exception(error)}"
            ) from error
        if not result.valid and result.score:
            raise DomainError(f"{domain.name}: check scores the invalid reply {reply!r:.60} {result.score}, not 0")
    if not domain.wrong_replies(task):
        raise DomainError(f"{domain.name}: wrong_replies is empty for {task.spec.text}, so the checker is not tested")
    validate(domain, [task])


def _check_episode(domain: Domain, task: Task) -> None:
    """The oracle's turns must end the episode, the last of them and no other."""
    episode, turns = domain.start_episode(task), domain.oracle_reply(task).split("\n")
    observations = [episode.step(turn) for turn in turns]
    if observations[-1] is not None or not all(isinstance(text, str) for text in observations[:-1]):
        raise DomainError(
            f"{domain.name}: the episode of {task.spec.text} must end with the last of the oracle's {len(turns)} turns"
        )
    for reply in HOSTILE_REPLIES:
        try:
            domain.start_episode(task).step(reply)
        except Exception as error:
            raise DomainError(
                f"{domain.name}: an episode fails on the turn {reply!r:.60}: {describe_exception(error)}"
            ) from error


def _check_features(domain: Domain, spec: Any) -> set[str]:
    """Check the features and the difficulty of a spec; returns the names of the features."""
    features, difficulty = domain.features(spec), domain.difficulty(spec)
    is_mapping = isinstance(features, Mapping)
    if not is_mapping or not all(isinstance(text, str) for item in features.items() for text in item):
        raise DomainError(f"{domain.name}: features of {spec.text} must map strings to strings, not {features!r:.100}")
    if not math.isfinite(difficulty):
        raise DomainError(f"{domain.name}: the difficulty of {spec.text} is {difficulty}, which is not finite")
    return set(features)
