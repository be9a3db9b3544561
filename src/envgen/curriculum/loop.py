"""EnvGen's loop: design levels, train in them, train in the original, see what fails, design again.

    out/run/
      cycles/1/levels.json       the levels, why, and what the audit says of each
      cycles/1/evaluation.json   the agent in the original after the cycle; what it learned in each level
      summary.json               the whole, for `envgen compare`

beside what every run directory holds. A run that was interrupted is called again with the same arguments: what is in a
file is not done again, the agent goes on from its checkpoint, and all else comes out of the same numbers as before.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envgen.designers.designer import AuditResult, Brief, Cycle, Designer, Proposal
from envgen.runs.store import Run, read_progress
from envgen.worlds.world import World

from . import facts, feedback
from .drafting import as_text, propose_and_audit
from .evaluate import Evaluation, evaluate
from .plan import EVALUATION_SEED, TrainingPlan
from .ranking import LevelScorer
from .trainer import PhaseTrainer, make_learner, unique
from .window import TrainingStats, training_stats


class Summary(BaseModel):
    """What a whole run came to."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    steps: dict[str, int]  # in levels, in the original, and those of throw-away agents
    seconds: float
    training: TrainingStats | None  # the episodes of the last phase of training, as published
    final: Evaluation  # of the policy that came out
    llm: dict[str, int | float | None]


def train(
    folder: Path | str,
    world: World,
    designer: Designer,
    plan: TrainingPlan | None = None,
    observation: str = "symbols",
    seed: int = 0,
    ppo: dict[str, Any] | None = None,
    device: str = "cpu",
    compile: bool = False,
    on_progress: Callable[[dict[str, Any]], None] = lambda line: None,
    on_message: Callable[[str], None] = lambda text: None,
    save_every: float = 30.0,
) -> Summary:
    """Train in the run directory `folder`; called again with the same arguments, it resumes.

    `show` hears each line of progress, `say` what there is to tell in between.
    """
    plan = plan or TrainingPlan()
    agent = make_learner(world, observation, ppo or {}, seed, device, compile)
    count = agent.settings.num_envs
    room = plan.num_level_envs(count) if plan.mixing == "mixed" else count
    if plan.cycles and plan.levels > room:
        raise ValueError(f"{plan.levels} levels do not fit into {room} environments (num_envs of --ppo)")
    request = {
        "world": world.name,
        "designer": designer.config(),
        "plan": plan.model_dump(mode="json"),
        "observation": observation,
        "seed": seed,
        "ppo": agent.settings.model_dump(mode="json"),
    }
    with Run(Path(folder), request, agent.process_group.is_main, designer.runtime_options()) as run:
        course = PhaseTrainer(run, world, observation, agent, seed, save_every, on_progress)
        return Loop(course, designer, plan, on_message).run()


class Loop:
    def __init__(self, course: PhaseTrainer, designer: Designer, plan: TrainingPlan, say: Callable[[str], None]):
        self.course, self.designer, self.plan, self.say = course, designer, plan, say
        self.run_dir, self.world, self.agent = course.run_dir, course.world, course.agent
        self.facts = functools.cache(lambda: facts.setting_effects(self.world))  # counted when a designer first asks

    def run(self) -> Summary:
        plan, history = self.plan, []
        for cycle in range(1, plan.cycles + 1):
            proposal, verdicts = self.design(cycle, history)  # steps 1 and 4 of the paper's figure
            for name, levels, steps in self.phases(cycle, proposal):  # steps 2 and 3
                self.course.run_phase(name, levels, steps)
            history.append(self.look_back(cycle, proposal, verdicts))
        if plan.final_steps:
            self.course.run_phase("final", [], plan.final_steps)
        return Summary.model_validate(self.once("summary", self.conclude))

    def phases(self, cycle: int, proposal: Proposal) -> list[tuple[str, list[dict[str, Any]], int]]:
        """What is trained in a cycle: a name, the levels and the steps of each phase."""
        plan, levels = self.plan, [one.level for one in proposal.levels]
        if plan.mixing == "mixed":  # levels and original side by side, each environment with its own
            count = self.agent.settings.num_envs
            designed = plan.num_level_envs(count) if levels else 0
            both = [levels[i % len(levels)] for i in range(designed)] + [{}] * (count - designed)
            return [(f"cycle {cycle}: mixed", both, plan.cycle_steps)]
        both = [
            (f"cycle {cycle}: levels", levels, plan.level_steps),
            (f"cycle {cycle}: original", [], plan.original_steps),
        ]
        return [phase for phase in both if phase[2]]

    def design(self, cycle: int, history: list[Cycle]) -> tuple[Proposal, tuple[AuditResult, ...]]:
        def make() -> dict[str, Any]:
            world, plan, course = self.world, self.plan, self.course
            ranking = LevelScorer(world, course.observation, self.agent, plan.ranking_steps, course.seed, cycle)
            brief = Brief(
                world=world.name, rules=world.rules, skills=world.skills, Level=world.Level,
                skill_levels=world.skill_levels,
                num_levels=plan.levels, cycle=cycle, num_cycles=plan.cycles, seed=course.seed,
                setting_effects=self.facts, score_levels=ranking.score,
            )  # fmt: skip
            proposal, verdicts = propose_and_audit(world, self.designer, brief, history, plan.audit_steps)
            return {
                "proposal": proposal.model_dump(mode="json"),
                "verdicts": [verdict.model_dump(mode="json") for verdict in verdicts],
                "ranking_steps": ranking.steps,
            }

        told = self.once(f"cycles/{cycle}/levels", make)
        proposal = Proposal.model_validate(told["proposal"])
        verdicts = tuple(AuditResult.model_validate(verdict) for verdict in told["verdicts"])
        self.say(as_text(cycle, proposal, verdicts))
        return proposal, verdicts

    def look_back(self, cycle: int, proposal: Proposal, verdicts: tuple[AuditResult, ...]) -> Cycle:
        """What the cycle showed, on paper for the designer."""

        def make() -> dict[str, Any]:
            plan, course, world = self.plan, self.course, self.world
            seed = EVALUATION_SEED + 1_000_000 * cycle + 1_000 * course.seed  # apart from those of the end
            found, rates = feedback.evaluate_over_seeds(
                self.agent, world, plan.feedback_seeds, plan.feedback_episodes, seed, course.observation
            )
            name, trained, _ = self.phases(cycle, proposal)[0]
            order = unique([world.Level.parse(level) for level in trained])  # as the lines of progress count them
            lines = [line for line in read_progress(self.run_dir.folder) if line["phase"] == name]
            by_level = feedback.level_outcomes(lines, [skill.name for skill in world.skills], len(order))
            ours = [world.Level.parse(one.level) for one in proposal.levels]
            return {
                "cycle": Cycle(
                    number=cycle, steps=self.agent.steps, proposal=proposal, audits=verdicts,
                    outcomes=tuple(by_level[order.index(level)] if level in order else None for level in ours),
                    success_rates=rates, reward=found.reward.value,
                ).model_dump(mode="json"),
                "evaluation": found.model_dump(mode="json"),
            }  # fmt: skip

        told = self.once(f"cycles/{cycle}/evaluation", make)
        score = Evaluation.model_validate(told["evaluation"]).score
        self.say(f"After cycle {cycle}, in the original: score {score}, reward {told['cycle']['reward']:.2f}")
        return Cycle.model_validate(told["cycle"])

    def conclude(self) -> dict[str, Any]:
        plan, course, world = self.plan, self.course, self.world
        final = evaluate(self.agent, world, None, plan.episodes, EVALUATION_SEED + course.seed, course.observation)
        lines = list(read_progress(self.run_dir.folder))
        last = [line for line in lines if line["phase"] == lines[-1]["phase"]]
        files = [
            self.run_dir.read(f"cycles/{k + 1}/{name}") for k in range(plan.cycles) for name in ("levels", "evaluation")
        ]
        count = self.agent.settings.num_envs
        each = plan.cycle_steps * plan.num_level_envs(count) // count if plan.mixing == "mixed" else plan.level_steps
        in_levels = sum(each for file in files[::2] if file["proposal"]["levels"])
        return Summary(
            steps={
                "levels": in_levels,
                "original": plan.total_steps - in_levels,
                "ranking": sum(file["ranking_steps"] for file in files[::2]),
            },
            seconds=round(sum(line["seconds"] for line in lines) + sum(file["seconds"] for file in files), 1),
            training=training_stats(last, [skill.name for skill in world.skills]),
            final=final,
            llm=self.designer.usage(),
        ).model_dump(mode="json")

    def once(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `<name>.json` holds, made first if it is not there; of several processes one makes it."""
        if self.agent.process_group.is_main and not self.run_dir.has(name):
            began = time.monotonic()
            made = make()
            self.run_dir.write(name, {**made, "seconds": round(made.get("seconds", time.monotonic() - began), 3)})
        self.agent.process_group.barrier()
        return self.run_dir.read(name)
