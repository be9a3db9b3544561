"""Turns the text of a spec into a task, or into a named reason why the agent never sees it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from .tasks import Domain, DomainError, Spec, SpecError, Task, validate

Rejection = Literal["malformed", "unsolvable", "held_out", "duplicate"]


@dataclass(frozen=True)
class FilterResult:
    """Either a task or the reason for its rejection."""

    task: Task | None
    rejection: Rejection | None = None


class TaskFilter:
    """Accepts each solvable spec once, and no held-out task."""

    def __init__(self, domain: Domain, held_out: Iterable[Task]):
        self.domain = domain
        self.held_out_keys = {task.spec.key for task in held_out}
        self.accepted_keys: set[str] = set()

    def check(self, text: str) -> FilterResult:
        """The task of a spec, with its answer key and checker validated, or the reason for its rejection."""
        try:
            spec = self.domain.Spec.parse(text)
        except SpecError:
            return FilterResult(None, "malformed")
        key = spec.key
        if key in self.held_out_keys:
            return FilterResult(None, "held_out")
        if key in self.accepted_keys:
            return FilterResult(None, "duplicate")
        try:
            task = self.domain.make_task(spec)
            validate(self.domain, [task])
        except (SpecError, DomainError):
            return FilterResult(None, "unsolvable")
        self.accepted_keys.add(key)
        return FilterResult(task)

    def mark_accepted(self, specs: Iterable[Spec]) -> None:
        """Reject these specs as duplicates from now on."""
        self.accepted_keys |= {spec.key for spec in specs}


def count_rejections(rejections: Iterable[str | None]) -> dict[str, int]:
    """The number of rejections by reason; other values are ignored."""
    counts = Counter(rejections)
    return {reason: counts[reason] for reason in get_args(Rejection)}
