"""The agent: a language model that answers tasks and learns from the scores by GRPO."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .losses import group_advantages
from .policy import LanguageModelPolicy, TrainBatch
from .sampling import Completions, concat_completions
from .settings import AgentSettings
from .tasks import Domain, Task


@dataclass(frozen=True)
class RolloutBatch:
    """G completions of each of N tasks, scored."""

    tasks: list[Task]
    completions: Completions  # (N x G, T)
    texts: list[str]  # N x G
    scores: np.ndarray  # (N, G)
    valid: np.ndarray  # (N, G): could be evaluated, right or wrong

    @property
    def has_zero_variance(self) -> np.ndarray:
        """Whether all completions of a task have the same score, (N,)."""
        return np.ptp(self.scores, axis=1) == 0


class AgentPolicy:
    def __init__(self, domain: Domain, policy: LanguageModelPolicy, settings: AgentSettings):
        self.domain, self.policy, self.settings = domain, policy, settings

    def sample_and_score(self, tasks: list[Task]) -> RolloutBatch:
        num_generations = self.settings.num_generations
        completions = self.policy.generate([self.encode_prompt(task) for task in tasks], num_generations)
        texts = completions.decode(self.policy.lm)
        results = [self.domain.check(tasks[k // num_generations], text) for k, text in enumerate(texts)]
        shape = len(tasks), num_generations
        scores = np.array([result.score for result in results]).reshape(shape)
        valid = np.array([result.valid for result in results]).reshape(shape)
        return RolloutBatch(tasks, completions, texts, scores, valid)

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
        prompts = [self.encode_prompt(task) for batch in batches for task in batch.tasks]
        has_gradient = np.ones(len(prompts), np.bool_)
        if s.zero_variance_groups != "keep" or not s.kl_coef:
            has_gradient = ~np.concatenate([batch.has_zero_variance for batch in batches])
        if not has_gradient.any():
            return {"gradient_steps": 0.0}
        rows = torch.from_numpy(np.repeat(has_gradient, s.num_generations)).to(completions.mask.device)
        if s.zero_variance_groups == "keep":  # the mean over all groups, computed from those with a gradient
            weights = torch.ones(len(rows), device=rows.device)
            if s.loss_agg == "token":
                weights = completions.mask.sum(1).float()
            advantages = advantages * (weights[rows].sum() / weights.sum()).cpu()
        batch = TrainBatch(
            [prompt for prompt, keep in zip(prompts, has_gradient, strict=True) if keep],
            s.num_generations,
            Completions(completions.ids[rows], completions.mask[rows]),
            advantages[torch.from_numpy(has_gradient)].reshape(-1),
        )
        return self.policy.update(batch, "ppo_clip")

    def evaluate(self, tasks: Sequence[Task]) -> np.ndarray:
        """The scores of greedy completions, (tasks,)."""
        texts = self.policy.generate_greedy([self.encode_prompt(task) for task in tasks]).decode(self.policy.lm)
        return np.array([self.domain.check(task, text).score for task, text in zip(tasks, texts, strict=True)])
