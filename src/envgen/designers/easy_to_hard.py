"""`easy-to-hard`: many levels at once, ranked by how well a throw-away agent does after training in each, the easiest
first (EnvGen, appendix D)."""

import dataclasses
from collections.abc import Sequence

from .designer import Brief, Cycle, Designer, DesignError, DesignerWrapper, Proposal, ScoredBy


class EasyToHard(DesignerWrapper):
    name = "easy-to-hard"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        if history:
            start = (brief.cycle - 1) * brief.num_levels
            return Proposal(levels=history[0].proposal.candidates[start : start + brief.num_levels])
        found = ranked(self.source, brief, history, brief.num_levels * brief.num_cycles, "throwaway")
        return found.model_copy(update={"levels": found.candidates[: brief.num_levels]})


def ranked(source: Designer, brief: Brief, history: Sequence[Cycle], count: int, by: ScoredBy) -> Proposal:
    """What another designer proposes, its `count` levels as the pool, the one with the highest score first."""
    if brief.score_levels is None:
        raise DesignError("this designer ranks levels by playing them, and was lent no function for that")
    proposal = source.design(dataclasses.replace(brief, num_levels=count), history)
    levels = proposal.levels
    scores = brief.score_levels([one.level for one in levels], by)
    order = sorted(range(len(levels)), key=lambda k: (-scores[k], k))
    pool = tuple(
        levels[k].model_copy(update={"purpose": f"{levels[k].purpose}; score in it {scores[k]:.1f}"}) for k in order
    )
    return proposal.model_copy(update={"levels": (), "candidates": pool})
