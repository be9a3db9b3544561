"""The domains `reasoning_gym:<generator>`: any generator of reasoning-gym, with the extra `envgen[reasoning-gym]`.

A generator's items are the tasks, its answers are the oracle's replies and its scorer is the checker. Scorers give
partial credit for wrong replies (0.01 for any reply, 0.05 for one that can be parsed, more for a close one), each by
its own rule. Here a reply scores 1 if the scorer returns exactly 1, and 0 otherwise.

The fields of a spec are the numeric and boolean parameters that the generator's own curriculum varies, each with levels
from easy to hard. All other parameters (weights, tables, limits on attempts) keep the package's defaults. Four
generators have no curriculum; all of their parameters keep the defaults, because none makes the tasks harder.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, create_model

from envgen.settings import format_choice_error

from ...tasks import CheckResult, Domain, DomainError, Spec, SpecError, Task
from .package import CallBudgetExceeded, UnsafeScorerError, isolated_rng, load_factory, score

MAX_EXACT_VALUES = 12  # an integer parameter with more values is labeled by fifths of the way through its levels
FIFTHS = ("lowest", "low", "middle", "high", "highest")
NUM_VARIATIONS = 1000  # of each choice of parameters
NUM_VARIATIONS_ALONE = 100_000  # of a generator without parameters, whose specs differ in nothing else
MAX_ATTEMPTS = 100  # to sample a spec that gives a task; for the worst generators, one in four does

_SETS = "it iterates over sets of words, whose order differs between processes, so its items are not reproducible"
# Defects of version 0.1.25 that checking answers does not reveal:
UNSUITABLE = {
    "codeio": "all its datasets share one list, so an item depends on which dataset was created last",
    "coin_flip": "its scorer accepts any prefix of an answer, so 0 nearly always scores 1",
    "isomorphic_strings": _SETS,
    "knight_swap": _SETS,
    "number_sequence": "it squares numbers repeatedly, which no limit on calls stops",
    "ransom_note": _SETS,
    "word_ladder": _SETS,
}

# No answer contains these, and they fool some scorers: every comparison with NaN is false, and 1e999999999 as a
# fraction has a billion digits.
_NOT_A_NUMBER = re.compile(r"\b(nan|inf|infinity)\b|(?<!\w)[\d.]+e[+-]?\d{4}", re.IGNORECASE)


class Parameter(NamedTuple):
    """A parameter and its levels, from easy to hard. Values between two levels are allowed too."""

    name: str
    levels: tuple[float, ...]
    description: str

    @property
    def value_type(self) -> type:
        if isinstance(self.levels[0], bool):
            return bool
        return float if any(level % 1 for level in self.levels) else int

    @property
    def range_text(self) -> str:
        easiest, hardest = self.levels[0], self.levels[-1]
        return "true or false" if self.value_type is bool else f"from {easiest}, which is easy, to {hardest}"

    def to_field(self) -> Any:
        """The type and the pydantic field for a spec."""
        if self.value_type is bool:
            return bool, Field(description=self.description)
        bounds = {"ge": min(self.levels), "le": max(self.levels), "allow_inf_nan": False}
        return self.value_type, Field(**bounds, description=f"{self.description}: {self.range_text}.")

    def sample(self, rng: np.random.Generator) -> float:
        """A random value: uniform if there are few values, otherwise each interval between levels equally often."""
        low, high = min(self.levels), max(self.levels)
        if self.value_type is not float and high - low < MAX_EXACT_VALUES:
            return self.value_type(rng.integers(int(low), int(high) + 1))
        positions = np.linspace(0, 1, len(self.levels))
        value = float(np.interp(rng.random(), positions, self.levels))
        return round(value) if self.value_type is int else round(value, 6)

    def normalized(self, value: float) -> float:
        """The position of a value from the easiest level, 0, to the hardest, 1. Levels are equally spaced."""
        levels, positions = np.array(self.levels, float), np.linspace(0, 1, len(self.levels))
        increasing = levels[-1] > levels[0]
        return float(np.interp(value, levels, positions) if increasing else np.interp(-value, -levels, positions))

    def label(self, value: float) -> str:
        """A value as one of a few words."""
        if self.value_type is bool:
            return "yes" if value else "no"
        if self.value_type is int and max(self.levels) - min(self.levels) < MAX_EXACT_VALUES:
            return str(value)
        return FIFTHS[min(int(self.normalized(value) * len(FIFTHS)), len(FIFTHS) - 1)]


def curriculum_parameters(curriculum: Any) -> tuple[tuple[Parameter, ...], tuple[tuple[str, str], ...]]:
    """The parameters of a curriculum, and the (min, max) pairs among their names."""
    parameters, ranges = [], []
    for attribute in curriculum.attributes.values():
        bounds = getattr(attribute, "lower_field_name", ""), getattr(attribute, "upper_field_name", "")
        names = bounds if all(bounds) else (attribute.field_name,)
        levels = _sort_levels(attribute.levels)
        if len(levels) < 2:
            continue
        parameters += [Parameter(name, levels, attribute.description or name) for name in names]
        ranges += [names] if len(names) == 2 else []
    return tuple(parameters), tuple(ranges)


def _sort_levels(levels: Any) -> tuple[float, ...]:
    """The distinct levels from easy to hard, or none if they are not numbers."""
    if not all(isinstance(level, bool | int | float) for level in levels):
        return ()
    return tuple(sorted(set(levels), reverse=levels[-1] < levels[0]))


MAX_QUESTION_CHARS, MAX_ANSWER_CHARS = 8_000, 2_000  # at the highest levels, some generators exceed them by far


@dataclass(frozen=True)
class ReasoningGymAnswerKey:
    """The generator's answer, and the item that its scorer reads."""

    answer: str
    entry: Mapping[str, Any] = field(compare=False, repr=False)


class ReasoningGymDomain(Domain):
    """The tasks of one generator, such as `ReasoningGymDomain("leg_counting")`."""

    instructions = "Solve the task. Write nothing but the answer, in the form that the task asks for."

    def __init__(self, generator: str):
        factory = load_factory()
        if generator not in factory.DATASETS:
            raise ValueError(f"the reasoning-gym generator {format_choice_error(generator, sorted(factory.DATASETS))}")
        if generator in UNSUITABLE:
            raise DomainError(f"the reasoning-gym generator {generator} cannot be a domain: {UNSUITABLE[generator]}")
        self.generator = generator
        self._dataset_class, self._config_class = factory.DATASETS[generator]
        curriculum = factory.CURRICULA[generator]() if generator in factory.CURRICULA else None
        self.parameters, self._ranges = curriculum_parameters(curriculum) if curriculum else ((), ())
        fields: dict[str, Any] = {parameter.name: parameter.to_field() for parameter in self.parameters}
        self.num_variations = NUM_VARIATIONS if self.parameters else NUM_VARIATIONS_ALONE
        description = f"Selects one of {self.num_variations} items with the same parameters."
        fields["variation"] = int, Field(default=0, ge=0, lt=self.num_variations, description=description)
        spec_name = f"{self._dataset_class.__name__.removesuffix('Dataset')}Spec"
        self._spec_class: Any = create_model(spec_name, __base__=Spec, **fields)
        self._easiest = self._easiest_values(curriculum)
        # These are class variables in other domains:
        vars(self).update(
            name=f"reasoning_gym:{generator}", Spec=self._spec_class, spec_prompt=self._write_spec_prompt()
        )
        self._dataset = lru_cache(maxsize=64)(self._make_dataset)
        self._entry = lru_cache(maxsize=64)(self._make_entry)

    def make_task(self, spec: Any) -> Task:
        entry = self._entry(self._values(spec), spec.variation)
        return Task(spec, entry["question"], ReasoningGymAnswerKey(entry["answer"], entry))

    def oracle_reply(self, task: Task) -> str:
        return task.answer_key.answer

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """Replies that answer nothing, and variants of the answer.

        Variants that the scorer accepts are left out, as an answer other than the generator's may be right too.
        """
        answer = task.answer_key.answer
        last_digit_changed = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), answer)
        non_answers = ("", "I do not know.", "nan", task.prompt)
        variants = dict.fromkeys((answer[:-1], answer + answer[-1], answer[::-1], last_digit_changed))
        return *non_answers, *(reply for reply in variants if reply and self.check(task, reply).score < 1)

    def check(self, task: Task, reply: str) -> CheckResult:
        answer_key, text = task.answer_key, reply.strip()
        if not text:
            return CheckResult(0.0, False, "the reply is empty")
        if len(text) > 4 * len(answer_key.answer) + 200:
            return CheckResult(
                0.0, False, f"the reply has {len(text):,} characters, the answer {len(answer_key.answer):,}"
            )
        if text != answer_key.answer and (match := _NOT_A_NUMBER.search(text)):
            return CheckResult(0.0, False, f"{match[0]!r} is not a number")
        try:
            result = score(self._dataset(self._values(task.spec)), answer_key.entry, text)
        except (Exception, CallBudgetExceeded) as error:  # noqa: BLE001  third-party scorers may raise anything
            return CheckResult(0.0, False, f"the scorer cannot read the reply: {error!r:.100}")
        return CheckResult(float(result == 1), True, "" if result == 1 else f"the answer is {answer_key.answer!r:.200}")

    def sample(self, rng: np.random.Generator) -> Any:
        """Each parameter sampled between its easiest and hardest level; only specs that give a task."""
        return self._sample_valid(rng, self._sample_values)

    def sample_easy(self, rng: np.random.Generator) -> Any:
        """Every parameter has the lowest level of the curriculum."""
        return self._sample_valid(rng, lambda _: self._easiest)

    def vary(self, spec: Any, rng: np.random.Generator) -> Any:
        """Samples a new spec if there are no parameters to keep."""
        return super().vary(spec, rng) if self.parameters else self.sample(rng)

    def features(self, spec: Any) -> Mapping[str, str]:
        return {parameter.name: parameter.label(getattr(spec, parameter.name)) for parameter in self.parameters}

    def difficulty(self, spec: Any) -> float:
        """The mean position of the parameters between the lowest level, 0, and the highest, 1."""
        positions = [parameter.normalized(getattr(spec, parameter.name)) for parameter in self.parameters]
        return float(np.mean(positions or [0.0]))

    def _sample_valid(
        self, rng: np.random.Generator, sample_values: Callable[[np.random.Generator], Mapping[str, float]]
    ) -> Any:
        """A spec that gives a task."""
        last_error = None
        for _ in range(MAX_ATTEMPTS):
            spec = self._spec_class(**sample_values(rng), variation=int(rng.integers(self.num_variations)))
            try:
                self._entry(self._values(spec), spec.variation)
            except SpecError as error:
                last_error = error
            else:
                return spec
        raise DomainError(
            f"none of {MAX_ATTEMPTS} sampled specs of {self.name} gives a task; the last error: {last_error}"
        ) from last_error

    def _sample_values(self, rng: np.random.Generator) -> Mapping[str, float]:
        values = {parameter.name: parameter.sample(rng) for parameter in self.parameters}
        for low, high in self._ranges:
            if values[low] > values[high]:
                values[low], values[high] = values[high], values[low]
        return values

    def _write_spec_prompt(self) -> str:
        lines = [
            f"A task is an item of reasoning-gym's generator {self.generator}. Its form is",
            self._spec_class(**self._easiest, variation=17).text,
            *(f"{parameter.name}: {parameter.range_text}; {parameter.description}" for parameter in self.parameters),
            f"variation: 0 to {self.num_variations - 1}; a different number selects a different item.",
        ]
        return "\n".join(lines + ["What is called min is never more than what is called max."] * bool(self._ranges))

    def _easiest_values(self, curriculum: Any) -> Mapping[str, float]:
        if curriculum is None:
            return {}
        curriculum.set_global_level(0)
        config = curriculum.generate_configuration()
        return {parameter.name: getattr(config, parameter.name) for parameter in self.parameters}

    def _values(self, spec: Any) -> tuple[float, ...]:
        return tuple(getattr(spec, parameter.name) for parameter in self.parameters)

    def _make_dataset(self, values: tuple[float, ...]) -> Any:
        """The dataset for some parameter values. Its item k is generated with seed k."""
        config = {parameter.name: value for parameter, value in zip(self.parameters, values, strict=True)}
        with isolated_rng(0):
            return self._dataset_class(self._config_class(**config, seed=0, size=self.num_variations))

    def _make_entry(self, values: tuple[float, ...], variation: int) -> Mapping[str, Any]:
        """An item whose own scorer accepts its answer."""
        try:
            dataset = self._dataset(values)
            with isolated_rng(variation):
                entry = dataset[variation]
        except CallBudgetExceeded:
            raise SpecError(f"{self.generator} takes too long to generate a task with these parameters") from None
        except Exception as error:  # noqa: BLE001  third-party generators may raise anything
            raise SpecError(f"{self.generator} cannot generate a task with these parameters: {error!s:.200}") from None
        if not isinstance(entry["answer"], str):
            raise DomainError(f"{self.generator} gives no answer of its own, so its scorer cannot be checked")
        for key, limit in (("question", MAX_QUESTION_CHARS), ("answer", MAX_ANSWER_CHARS)):
            if not 0 < len(entry[key]) <= limit:
                raise SpecError(f"the {key} has {len(entry[key]):,} characters; it must have 1 to {limit:,}")
        try:
            result = score(dataset, entry, entry["answer"])
        except UnsafeScorerError as error:
            raise DomainError(f"{self.generator} cannot be a domain: {error}") from None
        except (Exception, CallBudgetExceeded) as error:  # noqa: BLE001  third-party scorers may raise anything
            result = repr(error)
        if result != 1:
            raise SpecError(f"{self.generator} scores its own answer {entry['answer']!r:.60} {result}")
        return entry
