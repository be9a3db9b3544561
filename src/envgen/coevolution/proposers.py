"""The contract of proposers, which decide which tasks the agent gets next, and the proposers that need no model.

    uniform        random specs from the domain's own distribution: no curriculum
    greedy         of several uniform specs, the one with the highest predicted reward
    learnability   of several uniform specs, one with probability proportional to its predicted p (1 - p)

The proposers that use the environment policy are in environment.py, the list of all in registry.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from envgen.runs.store import Run

from .policy import LanguageModelPolicy
from .reward import SuccessStats
from .sampling import Completions
from .settings import AlphaCurriculumSettings, CoevolutionPlan, EnvironmentSettings
from .task_stores import NotNeeded, Rejection, TaskFilter, TaskStores
from .tasks import Domain, Spec, Task

NUM_SAMPLES = 8  # uniform specs to choose one from
SAMPLES_PER_TASK = 20  # attempts before `sample_valid` returns fewer tasks than requested


@dataclass(frozen=True)
class Candidate:
    """A text proposed as a spec, its proposer, and the task it became or the reason for its rejection."""

    text: str
    proposer: str  # name of the proposer
    index: int  # position in its batch, and row in the batch's completions if a model wrote it
    group: int  # variations of one spec share a group
    task: Task | None
    rejection: Rejection | NotNeeded | None = None


@dataclass(frozen=True)
class ProposalBatch:
    candidates: tuple[Candidate, ...]
    num_tokens: int = 0  # generated for them
    num_prompt_tokens: int = 0  # of the prompts that they were generated from, each counted once
    prompts: tuple[str, ...] = ()  # of each group, if a model wrote them
    completions: Completions | None = None

    @property
    def accepted(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.task is not None]


@dataclass(frozen=True)
class ProposerContext:
    """Everything a proposer may be built from."""

    domain: Domain
    curriculum: AlphaCurriculumSettings
    environment_settings: EnvironmentSettings
    plan: CoevolutionPlan
    seed: int
    run: Run
    stores: TaskStores
    task_filter: TaskFilter
    base_specs: Sequence[Spec]
    build_policy: Callable[[EnvironmentSettings, int], LanguageModelPolicy]  # of the environment model, with a seed


class Proposer(ABC):
    """Proposes tasks for the agent and may learn from how often they are solved."""

    name: str

    @classmethod
    @abstractmethod
    def from_context(cls, context: ProposerContext, **options: Any) -> Self:
        """Build the proposer of a run; `options` come from the registry."""

    @abstractmethod
    def propose(
        self, count: int, base_specs: Sequence[Spec], stats: SuccessStats, task_filter: TaskFilter
    ) -> ProposalBatch:
        """Candidates, of which at most `count` are accepted, possibly as variations of `base_specs`."""

    def update(self, proposals: ProposalBatch, success_rates: Mapping[int, float]) -> dict[str, float]:
        """Learn from the success rates of accepted candidates, by their index; returns metrics."""
        return {}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which `load` resumes exactly."""
        return {}, {}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        return


class UniformProposer(Proposer):
    def __init__(self, domain: Domain, seed: int, name: str = "uniform"):
        self.domain, self.name, self.rng = domain, name, np.random.default_rng(seed)

    @classmethod
    def from_context(cls, context: ProposerContext, **options: Any) -> Self:
        return cls(context.domain, context.seed)

    def propose(
        self, count: int, base_specs: Sequence[Spec], stats: SuccessStats, task_filter: TaskFilter
    ) -> ProposalBatch:
        return sample_valid(lambda: self.sample_spec(stats), count, task_filter, self.name)

    def sample_spec(self, stats: SuccessStats) -> Spec:
        return self.domain.sample(self.rng)

    def sample_and_predict(self, stats: SuccessStats) -> tuple[list[Spec], np.ndarray]:
        """NUM_SAMPLES uniform specs and their predicted success rates."""
        specs = [self.domain.sample(self.rng) for _ in range(NUM_SAMPLES)]
        return specs, np.array([stats.predict(self.domain.features(spec)) for spec in specs])

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {}, {"rng": self.rng.bit_generator.state}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self.rng.bit_generator.state = values["rng"]


class GreedyProposer(UniformProposer):
    def __init__(self, domain: Domain, seed: int, curriculum: AlphaCurriculumSettings):
        super().__init__(domain, seed, "greedy")
        self.curriculum = curriculum

    @classmethod
    def from_context(cls, context: ProposerContext, **options: Any) -> Self:
        return cls(context.domain, context.seed, context.curriculum)

    def sample_spec(self, stats: SuccessStats) -> Spec:
        specs, predicted = self.sample_and_predict(stats)
        # the highest reward exp(-beta (p - alpha)^2), which is 0 for all of them if beta is large
        return specs[int(np.abs(predicted - self.curriculum.alpha).argmin())]


class LearnabilityProposer(UniformProposer):
    """Samples by learnability, the variance p (1 - p) of success (Sampling for Learnability, arXiv 2408.15099).

    Success rates are predicted from those of similar tasks, so that no rollouts are spent on measuring them.
    """

    @classmethod
    def from_context(cls, context: ProposerContext, **options: Any) -> Self:
        return cls(context.domain, context.seed, "learnability")

    def sample_spec(self, stats: SuccessStats) -> Spec:
        specs, predicted = self.sample_and_predict(stats)
        learnability = predicted * (1 - predicted)
        return specs[int(self.rng.choice(len(specs), p=learnability / learnability.sum()))]


def sample_valid(sample_spec: Callable[[], Spec], count: int, task_filter: TaskFilter, proposer: str) -> ProposalBatch:
    """Sample specs until `count` are accepted, or fewer if new ones have become rare."""
    candidates, num_accepted = [], 0
    for index in range(SAMPLES_PER_TASK * count):
        text = sample_spec().text
        result = task_filter.check(text)
        candidates.append(Candidate(text, proposer, index, index, result.task, result.rejection))
        num_accepted += result.task is not None
        if num_accepted == count:
            break
    return ProposalBatch(tuple(candidates))
