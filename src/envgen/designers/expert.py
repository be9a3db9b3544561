"""`expert`: rules over the world's skill graph, no model and no network.

It works at the frontier: the skills that fail although what they need succeeds. For each there is a lesson, a level of
the world in which what the skill needs is granted. First come those with most to gain: how often a skill fails, times
how many wait for it.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from envgen.settings import Settings
from envgen.worlds.world import Skill

from .designer import Brief, Cycle, Designer, Proposal, ProposedLevel, to_overrides

Percent = Annotated[float, Field(ge=0, le=100)]
EASED = (1.0, 0.4, 0.1, 0.0)  # by how much `known` is lowered, in turn, until there are skills enough


class ExpertSettings(Settings):
    prerequisite_threshold: Percent = 50
    """A skill that succeeds in so many percent of episodes is there to build on."""
    mastery_threshold: Percent = 80
    """A skill that succeeds in so many percent needs no lesson."""


class ExpertDesigner(Designer):
    name = "expert"

    def __init__(self, settings: ExpertSettings | None = None):
        self.settings = settings or ExpertSettings()

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        rates = {name: rate.mean for name, rate in history[-1].success_rates.items()} if history else {}
        levels = [
            ProposedLevel(
                level=to_overrides(brief.skill_levels[skill.name], brief.Level),
                purpose=_why(skill, rates),
                skills=(skill.name,),
            )
            for skill in self.frontier(brief.skills, rates, brief)
        ]  # fmt: skip
        spare = brief.num_levels - len(levels)
        levels += [ProposedLevel(level={}, purpose="the original: there is no other skill to teach")] * spare
        return Proposal(levels=tuple(levels))

    def frontier(self, skills: Sequence[Skill], rates: dict[str, float], brief: Brief) -> list[Skill]:
        """At most `brief.wanted` skills, the one with most to gain first."""
        gain = {s.name: (1 + _waiting(s.name, skills)) * (100 - rates.get(s.name, 0)) for s in skills}
        failing = [
            s for s in skills if s.name in brief.skill_levels and rates.get(s.name, 0) < self.settings.mastery_threshold
        ]
        chosen: list[Skill] = []
        for ease in EASED:
            able = [
                s
                for s in failing
                if all(rates.get(n, 0) >= ease * self.settings.prerequisite_threshold for n in s.prerequisites)
            ]
            able.sort(key=lambda s: (-gain[s.name], s.name))
            chosen += [skill for skill in able if skill not in chosen]
        return chosen[: brief.num_levels]


def _waiting(name: str, skills: Sequence[Skill]) -> int:
    """How many skills wait for this one, directly or not."""
    found = {name}
    while more := {s.name for s in skills if s.name not in found and found & set(s.prerequisites)}:
        found |= more
    return len(found) - 1


def _why(skill: Skill, rates: dict[str, float]) -> str:
    needs = ", ".join(f"{name} {rates.get(name, 0):.1f}%" for name in skill.prerequisites) or "nothing"
    return f"teach {skill.name} ({rates.get(skill.name, 0):.1f}%), which needs {needs}"
