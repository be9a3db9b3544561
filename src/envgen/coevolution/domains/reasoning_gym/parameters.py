"""The parameters of a reasoning-gym generator that its authors' curriculum makes easier or harder.

A curriculum gives some parameters of a generator levels from easy to hard. The numeric ones are the fields of a spec.
All other parameters (weights, tables, limits on attempts) keep the package's defaults, and so do those of the four
generators without a curriculum, none of which has a number that makes it harder.
"""

from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

MAX_EXACT_VALUES = 12  # an integer parameter with more values is labeled by fifths of its range
FIFTHS = ("lowest", "low", "middle", "high", "highest")


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
