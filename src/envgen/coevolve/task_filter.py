"""What becomes of a text that is to be a spec: a task, or a named reason why the agent never sees it."""

from collections import Counter
from collections.abc import Iterable

from .tasks import Domain, DomainError, SpecError, Task, validate

REASONS = ("malformed", "unsolvable", "held out", "duplicate")


class Gate:
    """Lets each spec pass once, and none of the held-out tasks."""

    def __init__(self, domain: Domain, held_out: Iterable[Task]):
        self.domain, self.held_out = domain, {task.spec.key for task in held_out}
        self.passed: set[str] = set()

    def admit(self, text: str) -> Task | str:
        """The task, proven solvable, or one of REASONS."""
        try:
            spec = self.domain.Spec.parse(text)
        except SpecError:
            return "malformed"
        key = spec.key
        if key in self.held_out:
            return "held out"
        if key in self.passed:
            return "duplicate"
        try:
            task = self.domain.make_task(spec)
            validate(self.domain, [task])
        except (SpecError, DomainError):
            return "unsolvable"
        self.passed.add(key)
        return task


def counted(reasons: Iterable[str]) -> dict[str, int]:
    """How often each of REASONS was given."""
    found = Counter(reasons)
    return {reason: found[reason] for reason in REASONS}
