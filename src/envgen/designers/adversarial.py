"""`adversarial`: new levels each cycle, of which the hardest are taken: those in which a throw-away agent does worst
after training in each, and from the second cycle on those in which the agent itself does (EnvGen, appendix D)."""

from collections.abc import Sequence

from .designer import Brief, Cycle, DesignerWrapper, Proposal
from .easy_to_hard import ranked

DRAWN = 4  # times as many levels are made as are used: 16 for 4


class Adversarial(DesignerWrapper):
    name = "adversarial"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        by = "agent" if history else "throwaway"
        found = ranked(self.source, brief, history, DRAWN * brief.num_levels, by)
        pool = found.candidates[::-1]
        return found.model_copy(update={"levels": pool[: brief.num_levels], "candidates": pool})
