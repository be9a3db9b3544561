"""What of a reasoning-gym generator can be turned to make its tasks easier or harder, by its authors' own curriculum.

A curriculum names some parameters of a generator and gives each of them levels from easy to hard. Those that are
numbers are the dials of its specs. Its other parameters (weights, tables, caps on attempts) stay as the package has
them, as do all of the four generators without a curriculum: none of these has a number that makes it harder.
"""

from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

FEW = 12  # whole numbers that are told one by one; more are told by fifths
FIFTHS = ("lowest", "low", "middle", "high", "highest")


class Dial(NamedTuple):
    """A parameter and its levels, from easy to hard; what lies between two levels is allowed too."""

    name: str
    levels: tuple[float, ...]
    told: str

    @property
    def kind(self) -> type:
        return bool if isinstance(self.levels[0], bool) else float if any(x % 1 for x in self.levels) else int

    @property
    def range(self) -> str:
        easy, hard = self.levels[0], self.levels[-1]
        return "true or false" if self.kind is bool else f"from {easy}, which is easy, to {hard}"

    def field(self) -> Any:
        """Its type and bounds, for a form."""
        if self.kind is bool:
            return bool, Field(description=self.told)
        bounds = {"ge": min(self.levels), "le": max(self.levels), "allow_inf_nan": False}
        return self.kind, Field(**bounds, description=f"{self.told}: {self.range}.")

    def draw(self, random: np.random.Generator) -> float:
        """A value, all alike where they are few; else no interval between levels is more likely than another."""
        low, high = min(self.levels), max(self.levels)
        if self.kind is not float and high - low < FEW:
            return self.kind(random.integers(int(low), int(high) + 1))
        places = np.linspace(0, 1, len(self.levels))
        value = float(np.interp(random.random(), places, self.levels))
        return round(value) if self.kind is int else round(value, 6)

    def place(self, value: float) -> float:
        """Where a value is between easy, 0, and hard, 1; each level is as far from the next."""
        levels, places = np.array(self.levels, float), np.linspace(0, 1, len(self.levels))
        rising = levels[-1] > levels[0]
        return float(np.interp(value, levels, places) if rising else np.interp(-value, -levels, places))

    def word(self, value: float) -> str:
        if self.kind is bool:
            return "yes" if value else "no"
        if self.kind is int and max(self.levels) - min(self.levels) < FEW:
            return str(value)
        return FIFTHS[min(int(self.place(value) * len(FIFTHS)), len(FIFTHS) - 1)]


def dials_of(curriculum: Any) -> tuple[tuple[Dial, ...], tuple[tuple[str, str], ...]]:
    """The dials of a curriculum, and which two of them are the ends of a range."""
    dials, ranges = [], []
    for attribute in curriculum.attributes.values():
        ends = getattr(attribute, "lower_field_name", ""), getattr(attribute, "upper_field_name", "")
        names = ends if all(ends) else (attribute.field_name,)
        levels = _levels(attribute.levels)
        if len(levels) < 2:
            continue
        dials += [Dial(name, levels, attribute.description or name) for name in names]
        ranges += [names] if len(names) == 2 else []
    return tuple(dials), tuple(ranges)


def _levels(levels: Any) -> tuple[float, ...]:
    """Different numbers in the direction in which they get hard; none if they are not numbers."""
    if not all(isinstance(level, bool | int | float) for level in levels):
        return ()
    return tuple(sorted(set(levels), reverse=levels[-1] < levels[0]))
