"""`easy-to-hard`: many levels at once, ranked by how well a throw-away agent does after training in each, the easiest
first (EnvGen, appendix D)."""

import dataclasses
from collections.abc import Sequence

from .designer import Around, Brief, Cycle, Designer, DesignError, Proposal, Rater


class EasyToHard(Around):
    name = "easy-to-hard"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        if history:
            start = (brief.cycle - 1) * brief.wanted
            return Proposal(levels=history[0].proposal.pool[start : start + brief.wanted])
        found = ranked(self.source, brief, history, brief.wanted * brief.cycles, "throwaway")
        return found.model_copy(update={"levels": found.pool[: brief.wanted]})


def ranked(source: Designer, brief: Brief, history: Sequence[Cycle], count: int, by: Rater) -> Proposal:
    """What another designer proposes, its `count` levels as the pool, the one with the highest score first."""
    if brief.rate is None:
        raise DesignError("this designer ranks levels by playing them, and was lent no function for that")
    proposal = source.design(dataclasses.replace(brief, wanted=count), history)
    levels = proposal.levels
    scores = brief.rate([one.level for one in levels], by)
    order = sorted(range(len(levels)), key=lambda k: (-scores[k], k))
    pool = tuple(
        levels[k].model_copy(update={"purpose": f"{levels[k].purpose}; score in it {scores[k]:.1f}"}) for k in order
    )
    return proposal.model_copy(update={"levels": (), "pool": pool})
