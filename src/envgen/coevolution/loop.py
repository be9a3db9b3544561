"""The co-evolution loop: propose tasks, roll out and update the agent, reward and update the environment, evaluate.

The agent is a language model that answers tasks and learns from the scores by GRPO. Each step:
    1. the proposer writes specs; the task filter turns them into tasks, and uniform specs replace missing ones
    2. the agent answers these, replayed and base tasks, `num_generations` times each, and learns from the scores
    3. the proposer learns from the success rates of its own tasks
    4. new tasks and traces are stored; every `eval_every` steps the agent is evaluated on held-out tasks

Called again with the same arguments, a run resumes, bit for bit on CPU.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from envgen.interrupts import GracefulInterrupt
from envgen.processes import explaining_lost_processes, hangs_after_loss
from envgen.runs.checkpoint import loading
from envgen.runs.kinds import TOKEN_COUNTS
from envgen.runs.store import Run, read_progress

from .episodes import episode_starter
from .losses import group_advantages
from .metrics import combine_update_metrics, eval_metrics, step_metrics
from .policy import LanguageModelPolicy, TrainBatch
from .proposers import Candidate, ProposalBatch, Proposer, UniformProposer
from .reward import SuccessStats, curriculum_rewards, success_rates
from .sampling import Completions, concat_completions
from .settings import AgentSettings, AlphaCurriculumSettings, CoevolutionPlan
from .task_stores import TaskFilter, TaskStores
from .tasks import Domain, Spec, Task, check_reply, explaining_errors

COUNTS = (
    "step",
    "rollouts",
    "tasks_proposed",
    *(name for names in TOKEN_COUNTS.values() for name in names),
)
MAX_BATCHES_PER_STEP = 4  # when groups without variance are replaced
ProgressLine = dict[str, Any]
Source = Literal["proposer", "fallback", "replay", "base"]


@dataclass(frozen=True)
class RolloutBatch:
    """G completions of each of N tasks, scored."""

    tasks: list[Task]
    prompts: list[list[int]]  # N
    completions: Completions  # (N x G, T)
    texts: list[str]  # N x G
    scores: np.ndarray  # (N, G)
    valid: np.ndarray  # (N, G): could be evaluated, right or wrong

    @property
    def has_zero_variance(self) -> np.ndarray:
        """Whether all completions of a task have the same score, (N,)."""
        return np.ptp(self.scores, axis=1) == 0


class AgentPolicy:
    """The agent: a language model that answers the tasks of a domain and learns by GRPO."""

    def __init__(self, domain: Domain, policy: LanguageModelPolicy, settings: AgentSettings):
        self.domain, self.policy, self.settings = domain, policy, settings

    def sample_and_score(self, tasks: list[Task]) -> RolloutBatch:
        num_generations = self.settings.num_generations
        prompts = [self.encode_prompt(task) for task in tasks]
        completions, texts = self._generate(tasks, prompts, num_generations)
        with explaining_errors(self.domain):
            results = [check_reply(self.domain, tasks[k // num_generations], text) for k, text in enumerate(texts)]
        shape = len(tasks), num_generations
        scores = np.array([result.score for result in results], np.float64).reshape(shape)  # of bools, too
        valid = np.array([result.valid for result in results]).reshape(shape)
        return RolloutBatch(tasks, prompts, completions, texts, scores, valid)

    def _generate(
        self, tasks: Sequence[Task], prompts: list[list[int]], num_generations: int, greedy: bool = False
    ) -> tuple[Completions, list[str]]:
        policy = self.policy
        if self.domain.is_multi_turn:
            start_episode = episode_starter(self.domain, policy.lm, tasks)
            return policy.play_episodes(prompts, start_episode, num_generations, greedy)
        completions = policy.generate_greedy(prompts) if greedy else policy.generate(prompts, num_generations)
        return completions, completions.decode(policy.lm)

    def encode_prompt(self, task: Task) -> list[int]:
        return self.policy.lm.encode_prompt(self.domain.instructions, task.prompt)

    def update(self, batches: Sequence[RolloutBatch]) -> dict[str, float]:
        """One GRPO update on all groups. Groups without variance count in the mean if they are kept.

        Without a KL penalty their gradient is zero, so they are left out of the forward pass.
        """
        s = self.settings
        completions = concat_completions([batch.completions for batch in batches])
        scores = torch.from_numpy(np.concatenate([batch.scores for batch in batches]).astype(np.float32))
        advantages = group_advantages(scores, s.scale_rewards)  # (N, G)
        prompts = [prompt for batch in batches for prompt in batch.prompts]
        has_gradient = np.ones(len(prompts), np.bool_)
        if s.zero_variance_groups != "keep" or not s.kl_coef:
            has_gradient = ~np.concatenate([batch.has_zero_variance for batch in batches])
        if not has_gradient.any():
            return {"gradient_steps": 0.0}
        rows = torch.from_numpy(np.repeat(has_gradient, s.num_generations)).to(completions.mask.device)
        if s.zero_variance_groups == "keep":  # the mean over all groups, computed from those with a gradient
            weights = torch.ones(len(rows), device=rows.device)
            if s.loss_agg == "token":
                weights = completions.loss_mask.sum(1).float()
            advantages = advantages * (weights[rows].sum() / weights.sum()).cpu()
        batch = TrainBatch(
            [prompt for prompt, keep in zip(prompts, has_gradient, strict=True) if keep],
            s.num_generations,
            completions.select(rows),
            advantages[torch.from_numpy(has_gradient)].reshape(-1),
        )
        return self.policy.update(batch, "ppo_clip")

    def evaluate(self, tasks: Sequence[Task], batch_size: int) -> np.ndarray:
        """The scores of greedy completions, (tasks,), of which `batch_size` are generated together."""
        texts: list[str] = []
        for start in range(0, len(tasks), batch_size):
            batch = tasks[start : start + batch_size]
            texts += self._generate(batch, [self.encode_prompt(task) for task in batch], 1, greedy=True)[1]
        with explaining_errors(self.domain):
            scores = [check_reply(self.domain, task, text).score for task, text in zip(tasks, texts, strict=True)]
        return np.array(scores, np.float64)


@dataclass(frozen=True)
class StepTask:
    """A task of a step and where it comes from. Tasks of the proposer carry their candidate."""

    task: Task
    source: Source
    candidate: Candidate | None = None


@dataclass(frozen=True)
class StepBatch:
    """Tasks that were rolled out together. Row k of `rollouts` belongs to `tasks[k]`."""

    proposals: ProposalBatch
    tasks: list[StepTask]
    rollouts: RolloutBatch
    success_rates: Mapping[int, float]  # p of the proposer's tasks by the index of their candidate

    def rows(self, *sources: Source) -> list[int]:
        """The rows of the tasks from these sources."""
        return [row for row, task in enumerate(self.tasks) if task.source in sources]


class Coevolution:
    """The co-evolution loop of one run, with its state."""

    def __init__(
        self, run: Run, domain: Domain, agent: AgentPolicy, proposer: Proposer, *, stores: TaskStores,
        task_filter: TaskFilter, base_specs: Sequence[Spec], eval_tasks: Sequence[Task],
        curriculum: AlphaCurriculumSettings, plan: CoevolutionPlan, seed: int,
        on_progress: Callable[[ProgressLine], None] = lambda line: None, save_every: float = 60.0,
    ):  # fmt: skip
        self.run, self.domain, self.agent, self.proposer = run, domain, agent, proposer
        self.stores, self.task_filter = stores, task_filter
        self.base_specs, self.eval_tasks = base_specs, eval_tasks
        self.curriculum, self.plan = curriculum, plan
        self.on_progress, self.save_every = on_progress, save_every
        self.success_stats = SuccessStats()
        self.fallback_proposer = UniformProposer(domain, seed + 1, "fallback")  # fills in for missing specs
        self.rng = np.random.default_rng([seed, 2])
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self.seconds: dict[str, float] = {}  # of the current step, by phase

    def execute(self) -> list[ProgressLine]:
        """Run to the end of the plan; returns all lines of progress.jsonl."""
        self._resume()
        num_processes = self.agent.policy.accelerator.num_processes
        with (
            GracefulInterrupt(handle_sigterm=not hangs_after_loss()) as interrupt,
            explaining_lost_processes(num_processes, lambda: interrupt.by_ctrl_c),
        ):
            self._train(interrupt)
        return list(read_progress(self.run.folder))

    def _train(self, interrupt: GracefulInterrupt) -> None:
        broadcast = self.agent.policy.broadcast_bool
        last_save = time.monotonic()
        if not self.counts["step"]:
            line = {**self.counts, **self._evaluate(), **self._phase_seconds()}
            self._log(line)
            self.on_progress(line)
        while self.counts["rollouts"] < self.plan.rollouts:
            line = self.step()
            is_last = self.counts["rollouts"] >= self.plan.rollouts
            if is_last or self.counts["step"] % self.plan.eval_every == 0:
                line |= self._evaluate()
            line |= self._phase_seconds()
            self._log(line)
            is_shown = False
            try:
                self.on_progress(line)
                is_shown = True
            finally:  # also if the reader of the output, such as `tee`, has ended, so that printing fails
                is_interrupted = broadcast(interrupt.requested)
                is_due = not is_shown or time.monotonic() - last_save >= self.save_every
                if is_last or is_interrupted or broadcast(is_due):
                    self._save()
                    last_save = time.monotonic()
                if is_interrupted and not is_last:
                    raise KeyboardInterrupt

    def step(self) -> ProgressLine:
        """One update of the agent and the proposer, from several batches if groups without variance are refilled."""
        self.seconds = {"environment": 0.0, "rollout": 0.0, "update": 0.0}
        counts_before = dict(self.counts)
        batches, num_useful = [], 0
        for _ in range(MAX_BATCHES_PER_STEP if self.agent.settings.zero_variance_groups == "refill" else 1):
            batches.append(self._collect(self.plan.tasks_per_step - num_useful))
            num_useful += int((~batches[-1].rollouts.has_zero_variance).sum())
            if num_useful >= self.plan.tasks_per_step:
                break
        with self._timed("update"):
            agent_metrics = self.agent.update([batch.rollouts for batch in batches])
        self.counts["agent_update_tokens"] += int(agent_metrics.get("num_tokens", 0))
        self.counts["step"] += 1
        updates = [metrics for batch in batches if (metrics := self._update_stores_and_environment(batch))]
        self.success_stats.decay()
        new_counts = {name: self.counts[name] - counts_before[name] for name in self.counts}
        metrics = step_metrics(self.domain, batches, self.curriculum, new_counts, self.seconds)
        return {**self.counts, **metrics, "agent": agent_metrics, "environment": combine_update_metrics(updates)}

    def _collect(self, count: int) -> StepBatch:
        """Propose and roll out `count` tasks."""
        num_fresh = round(self.plan.fresh_fraction * count)
        num_replayed = min(round(self.plan.replay_fraction * count), count - num_fresh)
        with self._timed("environment"):
            proposals = self._propose(self.proposer, num_fresh)
        tasks = _step_tasks(proposals, "proposer")
        tasks += _step_tasks(self._propose(self.fallback_proposer, num_fresh - len(tasks)), "fallback")
        replayed = [self.domain.Spec.parse(text) for text in self.stores.agent_traces.sample(num_replayed, self.rng)]
        # the share of base tasks, and more where the domain has no further new tasks
        num_base = count - len(tasks) - len(replayed)
        base = [self.base_specs[k] for k in self.rng.integers(len(self.base_specs), size=num_base)]
        tasks += [StepTask(self.domain.make_task(spec), "replay") for spec in replayed]
        tasks += [StepTask(self.domain.make_task(spec), "base") for spec in base]
        with self._timed("rollout"):
            rollouts = self.agent.sample_and_score([step_task.task for step_task in tasks])
        self.counts["rollouts"] += rollouts.scores.size
        self.counts["tasks_proposed"] += len(proposals.accepted)
        self.counts["agent_tokens"] += rollouts.completions.num_tokens
        self.counts["agent_prompt_tokens"] += sum(map(len, rollouts.prompts))
        self.counts["environment_tokens"] += proposals.num_tokens
        self.counts["environment_prompt_tokens"] += proposals.num_prompt_tokens
        return StepBatch(proposals, tasks, rollouts, self._proposer_success_rates(tasks, rollouts))

    def _propose(self, proposer: Proposer, count: int) -> ProposalBatch:
        if not count:
            return ProposalBatch(())
        return proposer.propose(count, self.base_specs, self.success_stats, self.task_filter)

    def _proposer_success_rates(self, tasks: Sequence[StepTask], rollouts: RolloutBatch) -> dict[int, float]:
        proposed = [(row, task.candidate) for row, task in enumerate(tasks) if task.candidate is not None]
        scores = rollouts.scores[[row for row, _ in proposed]]
        p = success_rates(scores, [candidate.group for _, candidate in proposed], self.curriculum)
        return {candidate.index: float(rate) for (_, candidate), rate in zip(proposed, p, strict=True)}

    def _update_stores_and_environment(self, batch: StepBatch) -> dict[str, float]:
        """Record what a batch showed, and train the proposer on it."""
        rollouts, num_generations = batch.rollouts, self.agent.settings.num_generations
        successes = (rollouts.scores >= self.curriculum.success_threshold).sum(1)
        for task, count in zip(rollouts.tasks, successes, strict=True):
            self.success_stats.add(self.domain.features(task.spec), float(count), num_generations)
        self.stores.agent_traces.add(
            (
                {
                    "spec": rollouts.tasks[k // num_generations].spec.text,
                    "completion": text,
                    "score": float(rollouts.scores.flat[k]),
                }
                for k, text in enumerate(rollouts.texts)
                if rollouts.valid.flat[k]
            ),
            key=lambda trace: f"{trace['spec']}\n{trace['completion']}",
        )
        p = np.array(list(batch.success_rates.values()))
        rewards = dict(zip(batch.success_rates, curriculum_rewards(p, self.curriculum), strict=True))
        records = []
        for row in batch.rows("proposer", "fallback"):
            step_task = batch.tasks[row]
            source, rate, reward = step_task.source, float(successes[row] / num_generations), 0.0
            if (candidate := step_task.candidate) is not None:
                source = candidate.proposer
                rate, reward = batch.success_rates[candidate.index], float(rewards[candidate.index])
            records.append(
                {
                    "spec": step_task.task.spec.text, "step": self.counts["step"], "source": source,
                    "success_rate": round(rate, 4), "reward": round(reward, 4),
                }
            )  # fmt: skip
        self.stores.tasks.add(records, key=lambda record: record["spec"])
        if not batch.success_rates:
            return {}
        with self._timed("update"):
            metrics = self.proposer.update(batch.proposals, batch.success_rates)
        self.counts["environment_update_tokens"] += int(metrics.get("num_tokens", 0))
        return metrics

    def _evaluate(self) -> ProgressLine:
        with self._timed("evaluation"):
            scores = self.agent.evaluate(
                self.eval_tasks, self.plan.tasks_per_step * self.agent.settings.num_generations
            )
            return eval_metrics(self.domain, self.eval_tasks, scores)

    def _phase_seconds(self) -> ProgressLine:
        return {"seconds": {phase: round(seconds, 3) for phase, seconds in self.seconds.items()}}

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start

    def _log(self, line: ProgressLine) -> None:
        if self.run.is_main:
            self.run.log(line)

    # ------------------------------------------------------------------------------------------------ checkpoints

    def _save(self) -> None:
        agent_arrays, agent_values = self.agent.policy.state()
        proposer_arrays, proposer_values = self.proposer.state()
        if not self.run.is_main:
            return
        values = {
            "agent": agent_values,
            "proposer": proposer_values,
            "counts": self.counts,
            "success_stats": self.success_stats.state(),
            "fallback_proposer": self.fallback_proposer.state()[1],
            "rng": self.rng.bit_generator.state,
            "stores": self.stores.flush(),
            "store_checksums": self.stores.checksums(),
        }
        self.run.save({"agent": agent_arrays, "proposer": proposer_arrays}, values)

    def _resume(self) -> None:
        checkpoint = self.run.resume()
        if checkpoint is None:
            self.stores.restore({}, {})
            return
        arrays, values = checkpoint.arrays, checkpoint.values
        with loading(self.run.folder, checkpoint):
            self.stores.restore(values["stores"], values.get("store_checksums", {}))
            self.agent.policy.load(arrays["agent"], values["agent"])
            self.proposer.load(arrays["proposer"], values["proposer"])
            self.fallback_proposer.load({}, values["fallback_proposer"])
            self.success_stats.load(values["success_stats"])
            self.rng.bit_generator.state = values["rng"]
            # older runs did not count the tokens of prompts and updates
            self.counts = {name: int(values["counts"].get(name, 0)) for name in COUNTS}
            self.task_filter.mark_accepted(self.domain.Spec.parse(text) for text in self.stores.tasks.items)


def _step_tasks(proposals: ProposalBatch, source: Source) -> list[StepTask]:
    return [
        StepTask(candidate.task, source, candidate if source == "proposer" else None)
        for candidate in proposals.candidates
        if candidate.task is not None
    ]
