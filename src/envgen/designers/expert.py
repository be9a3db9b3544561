"""`expert`: rules over the world's skill graph. No language model and no network.

It works at the frontier: the skills that fail although their prerequisites succeed. For each of them it uses the level
of the world that grants the prerequisites. The skills with the highest priority come first: the failure rate of the
skill, times one plus the number of skills that depend on it.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from envgen.settings import Settings
from envgen.worlds.world import Skill

from .designer import Brief, Cycle, Designer, Proposal, ProposedLevel

Percent = Annotated[float, Field(ge=0, le=100)]
RELAXATIONS = (1.0, 0.4, 0.1, 0.0)  # factors on prerequisite_threshold, tried in turn until there are enough skills


class ExpertSettings(Settings):
    prerequisite_threshold: Percent = 50
    """The minimum success rate of a prerequisite, in percent, before the skills that depend on it are trained."""
    mastery_threshold: Percent = 80
    """The success rate, in percent, at which a skill is mastered and gets no more levels."""


class ExpertDesigner(Designer):
    """Rules: train the skills that fail although their prerequisites succeed."""

    name = "expert"
    settings_type = ExpertSettings
    settings: ExpertSettings

    def __init__(self, settings: ExpertSettings | None = None):
        self.settings = settings or ExpertSettings()

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        rates = {name: rate.mean for name, rate in history[-1].success_rates.items()} if history else {}
        levels = [
            ProposedLevel(
                level=brief.Level.parse(brief.skill_levels[skill.name]),
                purpose=_purpose(skill, rates),
                skills=(skill.name,),
            )
            for skill in self.frontier(brief, rates)
        ]
        original = ProposedLevel(level=brief.Level(), purpose="the original: no other skill needs a level")
        levels += [original] * (brief.num_levels - len(levels))
        return Proposal(levels=tuple(levels))

    def frontier(self, brief: Brief, rates: dict[str, float]) -> list[Skill]:
        """At most `brief.num_levels` skills: by the threshold that their prerequisites meet, then by priority."""
        skills = brief.skills
        priorities = {s.name: (1 + num_descendants(s.name, skills)) * (100 - rates.get(s.name, 0)) for s in skills}
        failing = [
            s for s in skills if s.name in brief.skill_levels and rates.get(s.name, 0) < self.settings.mastery_threshold
        ]
        selected: list[Skill] = []
        for factor in RELAXATIONS:
            threshold = factor * self.settings.prerequisite_threshold
            ready = [s for s in failing if all(rates.get(name, 0) >= threshold for name in s.prerequisites)]
            ready.sort(key=lambda s: (-priorities[s.name], s.name))
            selected += [skill for skill in ready if skill not in selected]
        return selected[: brief.num_levels]


def num_descendants(name: str, skills: Sequence[Skill]) -> int:
    """The number of skills that depend on this one, directly or indirectly."""
    reached = {name}
    while new := {s.name for s in skills if s.name not in reached and reached & set(s.prerequisites)}:
        reached |= new
    return len(reached) - 1


def _purpose(skill: Skill, rates: dict[str, float]) -> str:
    prerequisites = ", ".join(f"{name} {rates.get(name, 0):.1f}%" for name in skill.prerequisites) or "nothing"
    return f"teach {skill.name} ({rates.get(skill.name, 0):.1f}%), which needs {prerequisites}"
