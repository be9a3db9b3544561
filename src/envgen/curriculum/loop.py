"""EnvGen's loop: design levels, train in them, train in the original, measure what still fails, design again.

    out/run/
      cycles/1/levels.json       the levels, their purposes, and the audit of each
      cycles/1/evaluation.json   the agent in the original after the cycle; what it learned in each level
      cycles/1/archive.json      the archive after the cycle, with a designer that chooses the level of every episode
      summary.json               the results of the run, for `envgen compare`

A run directory holds more files (envgen/runs/store.py). To resume an interrupted run, call `train` again with the same
arguments: results that are in a file are not computed again, the agent continues from its checkpoint, and the rest is
recomputed from the same seeds.
"""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from envgen.agents.learner import Learner, SupportsMemory, learner_name
from envgen.agents.settings import PpoSettings
from envgen.designers.designer import (
    AuditResult,
    Brief,
    Cycle,
    Designer,
    LevelChain,
    Proposal,
    TrainingFacts,
    request_proposal,
    request_revision,
)
from envgen.designers.sampler import EpisodeDesigner, LevelSampler
from envgen.processes import explaining_lost_processes
from envgen.runs.phases import cycle_phase_name, final_phase_name, original_index
from envgen.runs.store import PROGRESS, Run, read_progress, reading
from envgen.settings import FrozenModel
from envgen.text import plural
from envgen.worlds.world import Level, World

from .audit import AUDIT_SEEDS, audit_level, original_skills, setting_effects
from .diagnosis import diagnose_for_designer
from .evaluate import Evaluation, LevelScorer, evaluate, evaluate_in_groups, level_outcomes
from .initial_policy import InitialPolicy
from .plan import EVALUATION_SEED, PlanError, PracticeSettings, TrainingPlan, check_training_seed
from .practice import practice_settings
from .sampling import num_sampled_envs
from .trainer import PhaseTrainer, TrainingStats, line_of_entry, make_learner, training_stats, unique

DIAGNOSIS_EPISODES = 128  # after each cycle, for the designers that want them
EXTENDABLE = ("plan.cycles", "plan.final_steps")


class TrainingSummary(FrozenModel):
    """The results of a run."""

    steps: dict[str, int]
    """Environment steps in levels, in the original, and to measure levels ("ranking")."""
    seconds: float
    """Wall time in seconds, without interruptions."""
    training: TrainingStats | None
    """The training episodes of the last phase."""
    final: Evaluation
    """The final policy in the original."""
    llm: dict[str, int | float | None]
    """The calls, tokens and dollars of the language model."""


class Phase(NamedTuple):
    """Training for a number of steps in some levels."""

    name: str
    levels: Sequence[Level | LevelChain]  # empty: the original
    steps: int
    sampled: bool = False  # the designer chooses the level of every episode


class PreparedRun(NamedTuple):
    """A run whose settings have been checked."""

    learner: Learner
    practice: PracticeSettings
    sampler: LevelSampler | None
    request: dict[str, Any]  # for run.json


def train(
    folder: Path | str,
    world: World,
    designer: Designer,
    plan: TrainingPlan | None = None,
    observation: str = "symbols",
    seed: int = 0,
    learner: str | type[Learner] = "ppo",
    learner_settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
    compile: bool = False,
    on_progress: Callable[[dict[str, Any]], None] = lambda line: None,
    on_message: Callable[[str], None] = lambda text: None,
    save_every: float = 30.0,
    extend: bool = False,
    practice: PracticeSettings | Mapping[str, Any] | None = None,
    initial_policy: InitialPolicy | None = None,
) -> TrainingSummary:
    """Train an agent in levels that a designer adapts to it. Call it again with the same arguments to resume.

    Args:
        folder: The run directory.
        learner: A name in `envgen.agents.learner.LEARNERS`, or a class of your own.
        learner_settings: The settings that differ from the defaults for the observation and the world.
        on_progress: Receives each progress line.
        on_message: Receives texts for the user: the levels of each cycle and the score after it.
        save_every: Seconds between checkpoints within a phase.
        extend: The run in `folder` is finished; continue it with a plan that has more `cycles`, more `final_steps` or
            both, and is otherwise the same. The run first adds the cycles, then the steps in the original as a phase of
            its own. A run without `final_steps` gives the result of a new run with the larger plan, unless the designer
            depends on the number of cycles. A run that had some gives another result, because a new run would train
            all `final_steps` in one phase after all cycles.
        practice: Whether a share of the environments practices, and how (practice.py). By default none does.
        initial_policy: The policy whose weights the agent starts with, instead of random ones.
    """
    plan = plan or TrainingPlan()
    agent, practice, sampler, request = prepare(
        world, designer, plan, observation=observation, seed=seed, learner=learner, learner_settings=learner_settings,
        device=device, compile=compile, practice=practice, initial_policy=initial_policy,
    )  # fmt: skip
    processes = agent.process_group
    with (
        explaining_lost_processes(processes.size),
        Run(Path(folder), request, processes.is_main, designer.runtime_options(), EXTENDABLE, extend) as run,
    ):
        processes.barrier()
        designer.begin_run()
        trainer = PhaseTrainer(
            run, world, observation, agent, seed, save_every=save_every, on_progress=on_progress,
            practice=practice, sampler=sampler, original_share=plan.original_share,
        )  # fmt: skip
        if initial_policy is not None and trainer.is_new:
            initial_policy.copy_to(agent)
        return Loop(trainer, designer, plan, on_message).execute()


def prepare(
    world: World,
    designer: Designer,
    plan: TrainingPlan,
    *,
    observation: str,
    seed: int,
    learner: str | type[Learner] = "ppo",
    learner_settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
    compile: bool = False,
    practice: PracticeSettings | Mapping[str, Any] | None = None,
    request_only: bool = False,
    initial_policy: InitialPolicy | None = None,
) -> PreparedRun:
    """Check the arguments of `train`, and return what it starts with.

    Args:
        request_only: Only the request is needed, and the device may be that of another machine.
    """
    check_training_seed(seed)
    agent = make_learner(
        world, observation, learner, learner_settings, seed, device, compile, plan.total_steps, request_only
    )
    if initial_policy is not None:
        initial_policy.check(agent)
    num_envs, num_processes = agent.settings.num_envs, agent.process_group.size
    if num_envs % num_processes:
        raise PlanError(
            f"num_envs is {num_envs}, which {num_processes} processes cannot share evenly; "
            f"use a multiple of {num_processes}"
        )
    practice = practice_settings(world, observation, num_envs // num_processes, practice)
    sampler = None
    if isinstance(designer, EpisodeDesigner):
        check_can_sample(designer, num_processes, practice)
        sampler = designer.make_sampler(world.Level, world.skills, seed)
    else:
        check_plan(plan, num_envs, has_levels=designer.name != "none")
        if practice.share and plan.cycles and plan.mixing == "mixed" and designer.name != "none":
            num_original = num_envs - plan.num_level_envs(num_envs)  # the last ones
            num_in_last_process = min(num_original, num_envs // num_processes)
            if num_in_last_process < 2:
                raise PlanError(
                    f"practice needs at least 2 environments that play the original in a process, but of {num_envs} "
                    f"with the ratio {plan.ratio:g} there are {num_in_last_process}; raise num_envs, lower ratio, or "
                    "set practice.share to 0"
                )
    request = {
        "world": world.name,
        "designer": designer.config(),
        "plan": plan.model_dump(mode="json", exclude={"original_share"} if sampler is None else None),
        "observation": observation,
        "seed": seed,
        "learner": {"name": learner_name(learner), **agent.settings.model_dump(mode="json")},
        **({"practice": practice.model_dump(mode="json")} if practice.share else {}),
        **({"initial_policy": initial_policy.request()} if initial_policy is not None else {}),
    }
    return PreparedRun(agent, practice, sampler, request)


def check_can_sample(designer: Designer, num_processes: int, practice: PracticeSettings) -> None:
    """Raise PlanError where a designer cannot choose the level of every episode."""
    if num_processes > 1:
        raise PlanError(
            f"the designer {designer.name} keeps one archive of levels, so it trains in one process, not "
            f"{num_processes}; start it without torchrun"
        )
    if practice.share:
        raise PlanError(
            f"the designer {designer.name} chooses a level for every episode, and states for practice are only valid "
            f"in the level they come from; set practice.share to 0, not {practice.share}"
        )


def check_plan(plan: TrainingPlan, num_envs: int, has_levels: bool) -> None:
    """Raise PlanError where a plan does not fit a designer that does not choose the level of every episode.

    Args:
        has_levels: Whether the designer proposes the levels of each cycle, rather than none.
    """
    default = TrainingPlan.model_fields["original_share"].default
    if plan.original_share != default:
        raise PlanError(
            f"original_share is for designers that choose the level of every episode; "
            f"for this one, set mixing to mixed and ratio to {1 / max(plan.original_share, 0.01) - 1:.3g}"
        )
    max_levels = plan.num_level_envs(num_envs) if plan.mixing == "mixed" else num_envs
    if has_levels and plan.cycles and plan.levels > max_levels:
        raise PlanError(
            f"levels is {plan.levels}, but only {max_levels} environments can play levels; "
            "raise num_envs or lower levels"
        )


class Loop:
    """The four steps of the EnvGen paper, cycle by cycle."""

    def __init__(
        self, trainer: PhaseTrainer, designer: Designer, plan: TrainingPlan, on_message: Callable[[str], None]
    ):
        self.trainer, self.designer, self.plan, self.on_message = trainer, designer, plan, on_message
        self.run, self.world, self.learner = trainer.run, trainer.world, trainer.learner
        # only if a designer asks
        self.setting_effects = functools.cache(lambda: setting_effects(self.world))
        self.original_skills = functools.cache(lambda: original_skills(self.world))

    def execute(self) -> TrainingSummary:
        history: list[Cycle] = []
        for num_cycles, final_phase in self.segments():
            for cycle in range(len(history) + 1, num_cycles + 1):
                proposal, audits = self.design(cycle, history)  # step 1, and step 4 from the second cycle
                for phase in self.phases(cycle, proposal):  # steps 2 and 3: in the levels, then in the original
                    self.trainer.run_phase(*phase)
                self.record_archive(cycle)
                history.append(self.evaluate_cycle(cycle, proposal, audits))
            if final_phase.steps:
                self.trainer.run_phase(*final_phase)
        data = self.load_or_create("summary", self.summarize)
        with self._reading("summary"):
            return TrainingSummary.model_validate(data)

    def segments(self) -> Iterator[tuple[int, Phase]]:
        """Yield the number of cycles and the final phase: once, and once more for each extension of the run."""
        with self._reading("run"):
            plans = [(old["plan.cycles"], old["plan.final_steps"]) for old in self.run.extended_from]
        steps_before, num_phases = 0, 0
        for num_cycles, final_steps in [*plans, (self.plan.cycles, self.plan.final_steps)]:
            num_phases += final_steps > steps_before
            yield num_cycles, Phase(final_phase_name(num_phases), [], final_steps - steps_before)
            steps_before = final_steps

    def phases(self, cycle: int, proposal: Proposal) -> list[Phase]:
        """Return what a cycle trains in."""
        if self.trainer.sampler is not None:
            return [Phase(cycle_phase_name(cycle, "sampled levels"), [], self.plan.cycle_steps, sampled=True)]
        plan, num_envs = self.plan, self.learner.settings.num_envs
        levels = [proposed.chain or proposed.level for proposed in proposal.levels]
        weights = [proposed.weight for proposed in proposal.levels]
        if plan.mixing == "mixed":  # each environment plays one level or the original
            num_level_envs = plan.num_level_envs(num_envs) if levels else 0
            level_envs = share_envs(levels, weights, num_level_envs)
            original_envs = [self.world.original] * (num_envs - num_level_envs)
            return [Phase(cycle_phase_name(cycle, "mixed"), level_envs + original_envs, plan.cycle_steps)]
        if len(set(weights)) > 1:
            levels = share_envs(levels, weights, num_envs)
        phases = [
            Phase(cycle_phase_name(cycle, "levels"), levels, plan.level_steps),
            Phase(cycle_phase_name(cycle, "original"), [], plan.original_steps),
        ]
        return [phase for phase in phases if phase.steps]

    def training_facts(self) -> TrainingFacts:
        """Return what designers may know about the agent and its training."""
        plan, settings = self.plan, self.learner.settings
        gamma = final_gamma = getattr(settings, "gamma", None)
        if isinstance(settings, PpoSettings):
            final_gamma = settings.annealed("gamma", settings.anneal_steps or 0)
        network = settings.network
        memories: list[str] = [] if network.memory == "none" else [network.memory]
        if network.history:
            memories.append("which events were rewarded")
        if isinstance(self.learner, SupportsMemory) and self.learner.has_memory and not memories:
            memories.append(f"memory of the learner {learner_name(type(self.learner))}")
        mixed, num_envs = plan.mixing == "mixed", settings.num_envs
        level_steps = plan.cycle_steps * plan.num_level_envs(num_envs) // num_envs if mixed else plan.level_steps
        return TrainingFacts(
            level_steps=level_steps, original_steps=plan.cycle_steps - level_steps, final_steps=plan.final_steps,
            num_envs=num_envs, mixed=mixed, observation=self.trainer.observation,
            gamma=gamma, final_gamma=final_gamma, memory=", ".join(memories) or None,
            practice_share=self.trainer.practice.share, is_pretrained="initial_policy" in self.run.request,
        )  # fmt: skip

    def design(self, cycle: int, history: list[Cycle]) -> tuple[Proposal, tuple[AuditResult, ...]]:
        """Return the levels of a cycle and their audits."""

        def create() -> dict[str, Any]:
            world, plan, seed = self.world, self.plan, self.trainer.seed
            scorer = LevelScorer(world, self.trainer.observation, self.learner, plan.ranking_steps, seed, cycle)
            brief = Brief(
                world=world.name, rules=world.rules, skills=world.skills, Level=world.Level,
                skill_levels=world.skill_levels,
                num_levels=plan.levels, cycle=cycle, num_cycles=plan.cycles, seed=seed,
                setting_effects=self.setting_effects, score_levels=scorer.score,
                success_rates=functools.partial(scorer.success_rates, episodes=plan.feedback_episodes),
                training=self.training_facts(), reward_rule=world.reward_rule, original_skills=self.original_skills,
            )  # fmt: skip
            proposal, audits = propose_and_audit(world, self.designer, brief, history, plan.audit_steps)
            return {
                "proposal": proposal.model_dump(mode="json"),
                "audits": [audit.model_dump(mode="json") for audit in audits],
                "ranking_steps": scorer.steps,
            }

        data = self.load_or_create(f"cycles/{cycle}/levels", create)
        with self._reading(f"cycles/{cycle}/levels"):
            proposal = Proposal.from_json(data["proposal"], self.world.Level)
            audits = tuple(AuditResult.model_validate(audit) for audit in data["audits"])
        if self.trainer.sampler is None:
            self.on_message(describe_proposal(cycle, proposal, audits))
        else:
            self.on_message(f"Cycle {cycle}: a level for every episode")
        return proposal, audits

    def record_archive(self, cycle: int) -> None:
        """Write what the sampler has learned about its levels, if there is one."""
        sampler = self.trainer.sampler
        if sampler is not None:
            self.load_or_create(f"cycles/{cycle}/archive", sampler.summary)

    def evaluate_cycle(self, cycle: int, proposal: Proposal, audits: tuple[AuditResult, ...]) -> Cycle:
        """Evaluate the agent in the original, and return what the designer is told about the cycle."""

        def create() -> dict[str, Any]:
            plan, world, skills = self.plan, self.world, [skill.name for skill in self.world.skills]
            seed = EVALUATION_SEED + 1_000_000 * cycle + 1_000 * self.trainer.seed  # not those of the final evaluation
            evaluation, success_rates = evaluate_in_groups(
                self.learner, world, plan.feedback_groups, plan.feedback_episodes, seed, self.trainer.observation
            )
            diagnosis = None
            if self.designer.wants_diagnosis:
                diagnosis = diagnose_for_designer(
                    self.learner, world, DIAGNOSIS_EPISODES, seed, self.trainer.observation
                )
            phase = self.phases(cycle, proposal)[0]
            trained = unique(phase.levels)  # in the order of the progress lines
            with reading(self.run.folder / PROGRESS):
                lines = [line for line in read_progress(self.run.folder) if line["phase"] == phase.name]
                by_level = dict(zip(trained, level_outcomes(lines, skills, len(trained)), strict=True))
            return {
                "cycle": Cycle(
                    number=cycle, steps=self.learner.steps, proposal=proposal, audits=audits,
                    outcomes=tuple(by_level.get(proposed.chain or proposed.level) for proposed in proposal.levels),
                    success_rates=success_rates, reward=evaluation.reward.value, diagnosis=diagnosis,
                ).model_dump(mode="json"),
                "evaluation": evaluation.model_dump(mode="json"),
            }  # fmt: skip

        data = self.load_or_create(f"cycles/{cycle}/evaluation", create)
        with self._reading(f"cycles/{cycle}/evaluation"):
            score = Evaluation.model_validate(data["evaluation"]).score
            result = Cycle.from_json(data["cycle"], self.world.Level)
        self.on_message(f"After cycle {cycle}, in the original: score {score}, reward {result.reward:.2f}")
        return result

    def summarize(self) -> dict[str, Any]:
        """Evaluate the final policy and return the summary of the run."""
        plan, world, num_envs = self.plan, self.world, self.learner.settings.num_envs
        seed = EVALUATION_SEED + self.trainer.seed
        final = evaluate(self.learner, world, None, plan.episodes, seed, self.trainer.observation)
        lines = list(read_progress(self.run.folder))
        cycles = range(1, plan.cycles + 1)
        designs = [self.run.read(f"cycles/{cycle}/levels") for cycle in cycles]
        evaluations = [self.run.read(f"cycles/{cycle}/evaluation") for cycle in cycles]
        num_level_envs, sampler = plan.num_level_envs(num_envs), self.trainer.sampler
        if sampler is not None:
            num_level_envs = num_sampled_envs(num_envs, plan.original_share)
        mixed_steps = plan.cycle_steps * num_level_envs // num_envs
        level_steps = mixed_steps if plan.mixing == "mixed" or sampler is not None else plan.level_steps
        with reading(self.run.folder / PROGRESS):
            training, seconds = self._last_phase_stats(lines, designs), sum(line["seconds"] for line in lines)
        with reading(self.run.folder / "cycles"):
            seconds += sum(result["seconds"] for result in (*designs, *evaluations))
            with_levels = [design for design in designs if design["proposal"]["levels"] or sampler is not None]
            steps_in_levels = level_steps * len(with_levels)
            ranking_steps = sum(design["ranking_steps"] for design in designs)
            ranking_steps += sampler.ranking_steps if sampler is not None else 0
        return TrainingSummary(
            steps={
                "levels": steps_in_levels,
                "original": plan.total_steps - steps_in_levels,
                "ranking": ranking_steps,
            },
            seconds=round(seconds, 1),
            training=training,
            final=final,
            llm=self.designer.usage(),
        ).model_dump(mode="json")

    def _last_phase_stats(self, lines: list[dict[str, Any]], designs: list[dict[str, Any]]) -> TrainingStats | None:
        """Return the statistics of the last phase: of its episodes in the original, where others played levels."""
        if not lines:
            return None
        skills = [skill.name for skill in self.world.skills]
        last_phase = [line for line in lines if line["phase"] == lines[-1]["phase"]]
        k = original_index(lines[-1]["phase"], designs[-1]["proposal"]["levels"] if designs else [])
        if k is None or k >= len(lines[-1]["levels"]):  # with a high ratio, no environment plays the original
            return None
        return training_stats([line_of_entry(line, k) for line in last_phase], skills)

    def _reading(self, name: str) -> AbstractContextManager[None]:
        return reading(self.run.folder / f"{name}.json")

    def load_or_create(self, name: str, create: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the content of `<name>.json`. If it does not exist yet, the main process creates it."""
        if self.learner.process_group.is_main and not self.run.has(name):
            start = time.monotonic()
            data = create()
            seconds = round(data.get("seconds", time.monotonic() - start), 3)
            self.run.write(name, {**data, "seconds": seconds})
        self.learner.process_group.barrier()
        return self.run.read(name)


def share_envs(
    levels: Sequence[Level | LevelChain], weights: Sequence[float], num_envs: int
) -> list[Level | LevelChain]:
    """Return the level of each environment. Every level is played, and their shares are as close to the weights as
    whole environments allow (the method of the largest remainder). Equal weights give `levels[i % len(levels)]`.
    """
    if len(set(weights)) <= 1:
        return [levels[i % len(levels)] for i in range(num_envs)]
    ideal = [num_envs * weight / sum(weights) for weight in weights]
    counts = [max(1, int(share)) for share in ideal]
    while sum(counts) < num_envs:
        counts[max(range(len(levels)), key=lambda k: ideal[k] - counts[k])] += 1
    while sum(counts) > max(num_envs, len(levels)):
        counts[min((k for k, count in enumerate(counts) if count > 1), key=lambda k: ideal[k] - counts[k])] -= 1
    return [level for level, count in zip(levels, counts, strict=True) for _ in range(count)][:num_envs]


# --- steps 1 and 4: the designer's levels, validated and audited


def propose_and_audit(
    world: World, designer: Designer, brief: Brief, history: Sequence[Cycle], audit_steps: int
) -> tuple[Proposal, tuple[AuditResult, ...]]:
    """Return the designer's levels and their audits. If one is bad, the designer may revise its proposal once."""
    proposal = request_proposal(designer, brief, history)
    audits = audit_all(world, proposal, audit_steps)
    if any(audit.verdict == "bad" for audit in audits):
        revised = request_revision(designer, brief, history, proposal, audits)
        if revised is not None:
            proposal = revised
            audits = audit_all(world, proposal, audit_steps)
    return proposal, audits


def audit_all(world: World, proposal: Proposal, steps: int) -> tuple[AuditResult, ...]:
    """Return an audit of each level; none if `steps` is 0."""
    if not steps or not proposal.levels:
        return ()
    original_stats = world.level_stats(None, AUDIT_SEEDS).as_dict()
    return tuple(audit_level(world, proposed, steps, original_stats) for proposed in proposal.levels)


def describe_proposal(cycle: int, proposal: Proposal, audits: Sequence[AuditResult]) -> str:
    """Return the levels of a cycle as text for the user."""
    if not proposal.levels:
        return f"Cycle {cycle}: the original"
    lines = [f"Cycle {cycle}: {plural(len(proposal.levels), 'level')}"]
    for k, proposed in enumerate(proposal.levels):
        verdict = f" [{audits[k].verdict}]" if audits else ""
        lines.append(f"  {k + 1}{verdict} {proposed.purpose or 'no purpose given'}")
        weight = f" (weight {proposed.weight:g})" if proposed.weight != 1 else ""
        lines.append(f"      {proposed.level.to_overrides() or 'the original'}{weight}")
        if proposed.chain is not None:
            lines.append(f"      stage {proposed.chain.start + 1} of {len(proposed.chain.levels)}")
        lines += [f"      {reason}" for reason in (audits[k].reasons if audits else ())]
    return "\n".join([*lines, *(f"  note: {note}" for note in proposal.notes)])
