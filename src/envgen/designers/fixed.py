"""`fixed`: one proposal for ever, another designer's first or levels given by hand (EnvGen, table 2, "fixed")."""

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from .designer import (
    AuditResult,
    Brief,
    Cycle,
    Designer,
    DesignError,
    DesignerWrapper,
    LevelOverrides,
    Proposal,
    ProposedLevel,
    to_overrides,
)


class Fixed(DesignerWrapper):
    name, source_key = "fixed", "first"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        if history:
            return Proposal(levels=history[0].proposal.levels)
        return self.source.design(brief, history)

    def revise(self, brief: Brief, history: Sequence[Cycle], proposal: Proposal, verdicts: Sequence[AuditResult]):
        return None if history else self.source.revise(brief, history, proposal, verdicts)


class Given(Designer):
    """Levels that a person wrote, in turn until there are enough."""

    name = "given"

    def __init__(self, levels: Sequence[LevelOverrides]):
        self.levels = list(levels)

    def config(self) -> dict[str, Any]:
        return {"name": self.name, "levels": self.levels}

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        if len(self.levels) > brief.num_levels:
            raise DesignError(
                f"{len(self.levels)} levels were given, and a cycle trains in {brief.num_levels}; "
                f"let the plan have levels={len(self.levels)}, or give fewer"
            )
        levels = [to_overrides(level, brief.Level) for level in islice(cycle(self.levels), brief.num_levels)]
        return Proposal(levels=tuple(ProposedLevel(level=level, purpose="given") for level in levels))
