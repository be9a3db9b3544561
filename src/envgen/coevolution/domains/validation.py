"""`check_domain` proves that a domain keeps the contract of `envgen.coevolution.tasks.Domain`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tasks import CheckResult, Domain, DomainError, Spec, SpecError, Task, validate

HOSTILE_REPLIES = ("", " \n", "\x00", "nan", "__import__('os')", "(" * 1000, "\ud800", "x" * 100_000)


def check_domain(domain: Domain, num_specs: int = 100, seed: int = 0) -> None:
    """Check a domain on sampled specs.

    It must be a pure function of its arguments, its specs must survive being written and parsed, its checker must
    score the oracle's reply 1 and wrong replies 0 and accept any text, and its features and difficulty must be usable.

    Raises:
        DomainError: The domain breaks the contract; the message says where.
    """
    _check_attributes(domain)
    specs = _sample_specs(domain, num_specs, seed)
    if [spec.text for spec in specs] != [spec.text for spec in _sample_specs(domain, num_specs, seed)]:
        raise DomainError(f"{domain.name}: equal generators sample different specs; draw from `rng` alone")
    feature_names: set[str] = set()
    for spec in specs:
        _check_replies(domain, _check_spec(domain, spec))
        feature_names = feature_names or set(domain.features(spec))
        _check_features(domain, spec, feature_names)
    domain.held_out_tasks(2)


def _check_attributes(domain: Domain) -> None:
    for attribute in ("name", "spec_prompt", "instructions"):
        if not isinstance(getattr(domain, attribute, None), str):
            raise DomainError(f"{type(domain).__name__}.{attribute} must be a string")
    if not domain.name:
        raise DomainError(f"{type(domain).__name__}.name is empty")
    if not (isinstance(getattr(domain, "Spec", None), type) and issubclass(domain.Spec, Spec)):
        raise DomainError(f"{domain.name}: Spec must be a subclass of envgen.coevolution.tasks.Spec")
    if not 0 < domain.success_threshold <= 1:
        raise DomainError(f"{domain.name}: success_threshold is {domain.success_threshold}, not in (0, 1]")


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
        task, again = domain.make_task(spec), domain.make_task(parsed)
    except SpecError as error:
        raise DomainError(f"{domain.name}: the sampled spec {spec.text} is refused: {error}") from error
    if parsed != spec:
        raise DomainError(f"{domain.name}: the spec {spec.text} is parsed as {parsed.text}")
    if not isinstance(task.prompt, str) or not task.prompt:
        raise DomainError(f"{domain.name}: the spec {spec.text} has no prompt")
    if (task.prompt, task.gold, domain.oracle_reply(task)) != (again.prompt, again.gold, domain.oracle_reply(again)):
        raise DomainError(f"{domain.name}: equal specs make different tasks: {spec.text}")
    return task


def _check_replies(domain: Domain, task: Task) -> None:
    replies = (*HOSTILE_REPLIES, task.prompt)
    for reply in replies:
        try:
            result = domain.check(task, reply)
        except Exception as error:
            raise DomainError(f"{domain.name}: check fails on the reply {reply!r:.60}: {error!r:.200}") from error
        if not isinstance(result, CheckResult) or not 0 <= result.score <= 1:
            raise DomainError(
                f"{domain.name}: check must return a CheckResult with a score from 0 to 1, not {result!r:.100} "
                f"(for the reply {reply!r:.60})"
            )
        if not result.valid and result.score:
            raise DomainError(f"{domain.name}: check scores the invalid reply {reply!r:.60} {result.score}, not 0")
    if not domain.wrong_replies(task):
        raise DomainError(f"{domain.name}: wrong_replies is empty for {task.spec.text}, so the checker is not tested")
    validate(domain, [task])


def _check_features(domain: Domain, spec: Any, names: set[str]) -> None:
    features, difficulty = domain.features(spec), domain.difficulty(spec)
    is_mapping = isinstance(features, Mapping)
    if not is_mapping or not all(isinstance(text, str) for item in features.items() for text in item):
        raise DomainError(f"{domain.name}: features of {spec.text} must map strings to strings, not {features!r:.100}")
    if set(features) != names:
        raise DomainError(
            f"{domain.name}: specs differ in the names of their features: {', '.join(sorted(names ^ set(features)))}"
        )
    if not math.isfinite(difficulty):
        raise DomainError(f"{domain.name}: the difficulty of {spec.text} is {difficulty}, which is not finite")
