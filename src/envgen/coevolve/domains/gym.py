"""Any generator of reasoning-gym as a domain: `Gym("leg_counting")`. It takes the extra `envgen[gym]`.

Its curriculum's numbers are the form of a spec, its items the tasks, its answers the oracle, its scorer the checker.
Scorers give parts of a point for wrong replies (0.01 for any, 0.05 for what can be parsed, more for what comes close),
each by a rule of its own. Here a reply is right or it is not: it is worth 1 if the scorer says 1 exactly, else 0.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import Field, create_model

from envgen.settings import nearest

from ..tasks import CheckResult, Domain, DomainError, Spec, SpecError, Task
from .gym_dials import dials_of
from .gym_package import Endless, EvaluatesReplies, apart, package, score

VARIATIONS = 1000
PROMPT, ANSWER = 8_000, 2_000  # characters; the highest levels of some generators would fill a book
TRIES = 100  # draws before one says that there are no tasks; of the rarest, one draw in four gives one
_SETS = "it goes through sets of words, whose order another process has otherwise, so that its items differ there"
# What proving answers does not find out, as measured with 0.1.25:
UNFIT = {
    "codeio": "all its datasets share one list, so an item depends on which of them was made last",
    "coin_flip": "it takes any beginning of an answer for the answer, so that 0 nearly always scores 1",
    "isomorphic_strings": _SETS,
    "knight_swap": _SETS,
    "number_sequence": "it squares numbers again and again, which no limit on calls ends",
    "ransom_note": _SETS,
    "word_ladder": _SETS,
}
# No answer is one of these, and some scorers are fooled by them: each comparison with NaN is false, a fraction of
# 1e999999999 has a billion digits.
_NO_NUMBER = re.compile(r"\b(nan|inf|infinity)\b|(?<!\w)[\d.]+e[+-]?\d{4}", re.IGNORECASE)


@dataclass(frozen=True)
class Gold:
    """The generator's answer, and the item that its scorer reads."""

    answer: str
    entry: Mapping[str, Any] = field(compare=False, repr=False)


class Gym(Domain):
    instructions = "Solve the task. Write nothing but the answer, in the form that the task asks for."

    def __init__(self, generator: str):
        factory = package()
        if generator not in factory.DATASETS:
            raise ValueError(f"reasoning-gym's generator {nearest(generator, sorted(factory.DATASETS))}")
        if generator in UNFIT:
            raise DomainError(f"reasoning-gym's {generator} cannot be a domain: {UNFIT[generator]}")
        self.generator = generator
        self._kind, self._config = factory.DATASETS[generator]
        curriculum = factory.CURRICULA[generator]() if generator in factory.CURRICULA else None
        self.dials, self._ranges = dials_of(curriculum) if curriculum else ((), ())
        forms: dict[str, Any] = {dial.name: dial.field() for dial in self.dials}
        told = f"Which item of the generator: there are {VARIATIONS} for the same numbers."
        forms["variation"] = int, Field(default=0, ge=0, lt=VARIATIONS, description=told)
        self._form: Any = create_model(f"{self._kind.__name__.removesuffix('Dataset')}Spec", __base__=Spec, **forms)
        self._lowest = self._at_lowest(curriculum)
        # What are class variables of other domains:
        vars(self).update(name=f"gym:{generator}", Spec=self._form, brief=self._brief())
        self._dataset = lru_cache(maxsize=64)(self._build)
        self._entry = lru_cache(maxsize=64)(self._make)

    def make_task(self, spec: Any) -> Task:
        entry = self._entry(self._numbers(spec), spec.variation)
        return Task(spec, entry["question"], Gold(entry["answer"], entry))

    def oracle_reply(self, task: Task) -> str:
        return task.gold.answer

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """Replies that answer nothing, which only a broken scorer takes; and of those that look like the answer the
        ones that are not taken, as another answer than the generator's may be right too.
        """
        right = task.gold.answer
        next_digit = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), right)
        none = ("", "I do not know.", "nan", task.prompt)
        alike = dict.fromkeys((right[:-1], right + right[-1], right[::-1], next_digit))
        return *none, *(one for one in alike if one and self.check(task, one).score < 1)

    def check(self, task: Task, reply: str) -> CheckResult:
        gold, said = task.gold, reply.strip()
        if not said:
            return CheckResult(0.0, False, "the reply is empty")
        if len(said) > 4 * len(gold.answer) + 200:
            return CheckResult(0.0, False, f"the reply has {len(said):,} characters, the answer {len(gold.answer):,}")
        if said != gold.answer and (strange := _NO_NUMBER.search(said)):
            return CheckResult(0.0, False, f"{strange[0]!r} is no number")
        try:
            worth = score(self._dataset(self._numbers(task.spec)), gold.entry, said)
        except (Exception, Endless) as error:  # noqa: BLE001  the scorers of a hundred authors raise what they like
            return CheckResult(0.0, False, f"the scorer cannot read it: {error!r:.100}")
        return CheckResult(float(worth == 1), True, "" if worth == 1 else f"the answer is {gold.answer!r:.200}")

    def sample(self, random: np.random.Generator) -> Any:
        """Evenly over the levels of each number, among the specs that give a task."""
        return self._found(random, self._drawn)

    def sample_easy(self, random: np.random.Generator) -> Any:
        """With every number at the lowest level of the curriculum."""
        return self._found(random, lambda _: self._lowest)

    def vary(self, spec: Any, random: np.random.Generator) -> Any:
        """A spec without numbers has nothing that could be kept."""
        return super().vary(spec, random) if self.dials else self.sample(random)

    def features(self, spec: Any) -> Mapping[str, str]:
        return {dial.name: dial.word(getattr(spec, dial.name)) for dial in self.dials}

    def difficulty(self, spec: Any) -> float:
        """Where its numbers are on the average between the lowest level, 0, and the highest, 1."""
        return float(np.mean([dial.place(getattr(spec, dial.name)) for dial in self.dials] or [0.0]))

    def _found(self, random: np.random.Generator, draw: Callable[[np.random.Generator], Mapping[str, float]]) -> Any:
        why = None
        for _ in range(TRIES):
            spec = self._form(**draw(random), variation=int(random.integers(VARIATIONS)))
            try:
                self._entry(self._numbers(spec), spec.variation)
            except SpecError as error:
                why = error
            else:
                return spec
        raise DomainError(f"none of {TRIES} specs of {self.name} gives a task; the last: {why}") from why

    def _drawn(self, random: np.random.Generator) -> Mapping[str, float]:
        numbers = {dial.name: dial.draw(random) for dial in self.dials}
        for low, high in self._ranges:
            if numbers[low] > numbers[high]:
                numbers[low], numbers[high] = numbers[high], numbers[low]
        return numbers

    def _brief(self) -> str:
        lines = [
            f"A task is an item of reasoning-gym's generator {self.generator}. Its form is",
            self._form(**self._lowest, variation=17).text,
            *(f"{dial.name}: {dial.range}; {dial.told}" for dial in self.dials),
            f"variation: 0 to {VARIATIONS - 1}; another number draws another item.",
        ]
        return "\n".join(lines + ["What is called min is never more than what is called max."] * bool(self._ranges))

    def _at_lowest(self, curriculum: Any) -> Mapping[str, float]:
        if curriculum is None:
            return {}
        curriculum.set_global_level(0)
        config = curriculum.generate_configuration()
        return {dial.name: getattr(config, dial.name) for dial in self.dials}

    def _numbers(self, spec: Any) -> tuple[float, ...]:
        return tuple(getattr(spec, dial.name) for dial in self.dials)

    def _build(self, numbers: tuple[float, ...]) -> Any:
        """The dataset of these numbers, whose item k is drawn with the seed k."""
        told = {dial.name: number for dial, number in zip(self.dials, numbers, strict=True)}
        with apart(0):
            return self._kind(self._config(**told, seed=0, size=VARIATIONS))

    def _make(self, numbers: tuple[float, ...], variation: int) -> Mapping[str, Any]:
        """An item whose answer its own scorer has accepted."""
        try:
            dataset = self._dataset(numbers)
            with apart(variation):
                entry = dataset[variation]
        except Endless:
            raise SpecError(f"{self.generator} would take too long to make a task of these numbers") from None
        except Exception as error:  # noqa: BLE001  the generators of a hundred authors raise what they like
            raise SpecError(f"{self.generator} makes no task of these numbers: {error!s:.200}") from None
        if not isinstance(entry["answer"], str):
            raise DomainError(f"{self.generator} tells no answer of its own, so none can be proved right")
        for what, longest in (("question", PROMPT), ("answer", ANSWER)):
            if not 0 < len(entry[what]) <= longest:
                raise SpecError(f"the {what} would have {len(entry[what]):,} characters; there may be {longest:,}")
        try:
            worth = score(dataset, entry, entry["answer"])
        except EvaluatesReplies as error:
            raise DomainError(f"{self.generator} cannot be a domain: {error}") from None
        except (Exception, Endless) as error:  # noqa: BLE001  as above
            worth = repr(error)
        if worth != 1:
            raise SpecError(f"{self.generator} scores its own answer {entry['answer']!r:.60} {worth}")
        return entry
