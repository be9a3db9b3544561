"""`none`: no designer at all. The agent trains in the original for as many steps as with one."""

from collections.abc import Sequence

from .designer import Brief, Cycle, Designer, Proposal


class NoDesigner(Designer):
    name = "none"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        return Proposal()
