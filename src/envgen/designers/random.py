"""`random`: domain randomisation, the control that says whether a designer's choices are worth anything.

Each setting stays the original's with probability `keep`, else takes any of its values with equal chances. Were all
drawn (`keep` 0), a Crafter player would begin with half of everything, and nothing would be left to learn.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from envgen.settings import Settings

from .designer import Brief, Cycle, Designer, Proposal, ProposedLevel, to_overrides
from .space import choices, level_of


class RandomSettings(Settings):
    keep: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The chance of each setting to stay as in the original."""


class Random(Designer):
    name = "random"

    def __init__(self, settings: RandomSettings | None = None):
        self.settings = settings or RandomSettings()

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        chance = np.random.default_rng([brief.seed, brief.cycle])
        space = choices(brief.Level)
        levels = []
        for _ in range(brief.num_levels):
            changed = {name: values[chance.integers(len(values))]
                       for name, values in space.items() if chance.random() >= self.settings.keep}  # fmt: skip
            levels.append(ProposedLevel(level=to_overrides(level_of(changed), brief.Level), purpose="drawn at random"))
        return Proposal(levels=tuple(levels))
