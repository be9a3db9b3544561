"""The specs of the domain `bfcl`: which category, how many calls and functions, and which types of parameters."""

from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from ...tasks import Spec, SpecError
from ..random_choice import choose
from .functions import TYPES, ParameterType

Category = Literal["simple", "multiple", "parallel", "parallel_multiple", "irrelevance", "missing_value", "multi_turn"]
Style = Literal["plain", "reworded", "shuffled", "labels"]
ParameterText = Literal[
    "string", "integer", "float", "boolean", "enum", "array", "object",
    "string?", "integer?", "float?", "boolean?", "enum?", "array?", "object?",
]  # fmt: skip
CATEGORIES: tuple[Category, ...] = get_args(Category)
STYLES: tuple[Style, ...] = get_args(Style)
MAX_CALLS = 3
MAX_PARAMETERS = 4
MAX_ARGUMENTS = 8  # of all calls of a task
MAX_DISTRACTORS = 3
NUM_VARIATIONS = 1000
OPTIONAL_PROBABILITY = 1 / 3  # of a parameter in a random spec
WITH_SEVERAL_CALLS: tuple[Category, ...] = ("parallel", "parallel_multiple", "multi_turn")
DISTRACTORS: dict[Category, tuple[int, int]] = {  # fewest and most
    "simple": (0, 0), "multiple": (1, MAX_DISTRACTORS), "parallel": (0, 0), "parallel_multiple": (0, MAX_DISTRACTORS),
    "irrelevance": (1, MAX_DISTRACTORS), "missing_value": (0, MAX_DISTRACTORS), "multi_turn": (0, MAX_DISTRACTORS),
}  # fmt: skip
CATEGORIES_WITHOUT_CALLS: tuple[Category, ...] = ("irrelevance", "missing_value")


class BfclSpec(Spec):
    LISTS_ARE_SETS = False  # parameters may have the same type, and their order counts

    category: Category
    """One function and one call (simple), several functions (multiple), several calls of one function (parallel) or of
    different ones (parallel_multiple); no function fits (irrelevance) or a required value is missing; or requests that
    come one after another, and calls that use the results of earlier ones (multi_turn)."""
    calls: Annotated[int, Field(ge=1, le=MAX_CALLS)]
    """What is asked for: 2 or 3 calls in parallel, parallel_multiple and multi_turn, otherwise 1."""
    distractors: Annotated[int, Field(ge=0, le=MAX_DISTRACTORS)]
    """Functions that are listed but not needed."""
    parameters: Annotated[tuple[ParameterText, ...], Field(min_length=1, max_length=MAX_PARAMETERS)]
    """The types of the parameters of a function. Those with a question mark are optional and have a default."""
    style: Style
    """How the request is phrased."""
    variation: Annotated[int, Field(ge=0, lt=NUM_VARIATIONS)]
    """Selects the functions and the values."""

    @property
    def types(self) -> list[tuple[ParameterType, bool]]:
        """The types of the parameters, each with whether it is required."""
        return [(text.removesuffix("?"), not text.endswith("?")) for text in self.parameters]  # pyright: ignore


class HeldOutSpec(BfclSpec):
    """The spec of a held-out task. Its variations are not those of a `BfclSpec`, so that no proposer can write it."""

    variation: Annotated[int, Field(ge=NUM_VARIATIONS, lt=2 * NUM_VARIATIONS)]


def check_spec(spec: BfclSpec) -> None:
    """Raise a SpecError that explains which choices contradict each other."""
    category, (min_count, max_count) = spec.category, DISTRACTORS[spec.category]
    has_several = category in WITH_SEVERAL_CALLS
    if (spec.calls > 1) != has_several:
        raise SpecError(f"{category} has {f'2 to {MAX_CALLS} calls' if has_several else '1 call'}, not {spec.calls}")
    if not min_count <= spec.distractors <= max_count:
        allowed = f"{min_count} to {max_count}" if max_count else "no"
        raise SpecError(f"{category} has {allowed} distractors, not {spec.distractors}")
    if spec.calls * len(spec.parameters) > MAX_ARGUMENTS:
        raise SpecError(
            f"{spec.calls} calls with {len(spec.parameters)} parameters are more than {MAX_ARGUMENTS} arguments"
        )
    required = [kind for kind, is_required in spec.types if is_required]
    if not required:
        raise SpecError("at least one parameter must be required")
    if spec.calls > 2 and required == ["boolean"]:
        raise SpecError(f"{spec.calls} calls cannot differ in a single boolean")


def sample_spec(rng: np.random.Generator) -> BfclSpec:
    """Uniform over the categories, and over the other fields that go with the category."""
    category = choose(CATEGORIES, rng)
    return _sample(category, rng, DISTRACTORS[category][1], MAX_PARAMETERS, TYPES)


def sample_easy_spec(rng: np.random.Generator) -> BfclSpec:
    """At most two parameters, of any type but array and object, and at most one distractor.

    Half of the tasks are simple: values are copied from requests, which takes longest to learn.
    """
    category = "simple" if rng.random() < 0.5 else choose(CATEGORIES, rng)
    return _sample(category, rng, min(1, DISTRACTORS[category][1]), 2, TYPES[:-2])


def _sample(
    category: Category, rng: np.random.Generator, max_distractors: int, max_parameters: int,
    types: tuple[ParameterType, ...],
) -> BfclSpec:  # fmt: skip
    while True:
        num_parameters = int(rng.integers(1, max_parameters + 1))
        spec = BfclSpec(
            category=category,
            calls=int(rng.integers(2, MAX_CALLS + 1)) if category in WITH_SEVERAL_CALLS else 1,
            distractors=int(rng.integers(DISTRACTORS[category][0], max_distractors + 1)),
            parameters=tuple(  # pyright: ignore[reportArgumentType]
                choose(types, rng) + ("?" if rng.random() < OPTIONAL_PROBABILITY else "") for _ in range(num_parameters)
            ),
            style=choose(STYLES, rng),
            variation=int(rng.integers(NUM_VARIATIONS)),
        )
        try:
            check_spec(spec)
        except SpecError:
            continue
        return spec
