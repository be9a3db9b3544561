"""A custom designer: each cycle, propose levels for the skills with the lowest success rates.

    python examples/custom_designer.py

On the command line: `envgen train crafter --designer custom_designer:WeakestSkills` (with this folder on PYTHONPATH).
"""

import tempfile
from collections.abc import Sequence

import envgen
from envgen.designers.designer import Brief, Cycle, Proposal, ProposedLevel

SMALL_PLAN = {"cycles": 2, "levels": 2, "cycle_steps": 1024, "final_steps": 512, "episodes": 4, "audit_steps": 20,
              "feedback_groups": 2, "feedback_episodes": 2}  # fmt: skip


class WeakestSkills(envgen.Designer):
    name = "weakest-skills"

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        """The levels of the next cycle. They depend on the arguments alone, so that a run can be resumed exactly."""
        rates = {skill: rate.mean for skill, rate in history[-1].success_rates.items()} if history else {}
        skills = sorted(brief.skill_levels, key=lambda skill: rates.get(skill, 0.0))[: brief.num_levels]
        return Proposal(
            levels=tuple(
                ProposedLevel(
                    level=brief.Level.parse(brief.skill_levels[skill]),
                    purpose=f"teach {skill} ({rates.get(skill, 0.0):.0f}% so far)",
                    skills=(skill,),
                )
                for skill in skills
            )
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:  # leave `folder` out to keep the run in out/
        run = envgen.train("crafter", WeakestSkills(), preset="quick", plan=SMALL_PLAN, folder=f"{folder}/run")
        print(run.report())
