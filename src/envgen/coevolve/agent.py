"""The agent: a language model that answers tasks and learns from the scores by GRPO."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .losses import group_advantages
from .policy import Policy, Written
from .sampling import Samples, joined
from .settings import AgentSettings
from .tasks import Domain, Task


@dataclass(frozen=True)
class Rolled:
    """G replies to each of N tasks, and what they were worth."""

    tasks: list[Task]
    samples: Samples  # (N x G, T)
    texts: list[str]  # N x G
    scores: np.ndarray  # (N, G)
    valid: np.ndarray  # (N, G)

    @property
    def flat(self) -> np.ndarray:
        """Whose replies all scored the same, (N,)."""
        return np.ptp(self.scores, axis=1) == 0


class AgentPolicy:
    def __init__(self, domain: Domain, policy: Policy, settings: AgentSettings):
        self.domain, self.policy, self.settings = domain, policy, settings

    def roll(self, tasks: list[Task]) -> Rolled:
        samples = self.policy.write([self.prompt(task) for task in tasks], self.settings.group)
        texts = samples.texts(self.policy.lm)
        verdicts = [self.domain.check(tasks[k // self.settings.group], text) for k, text in enumerate(texts)]
        shape = len(tasks), self.settings.group
        scores = np.array([verdict.score for verdict in verdicts]).reshape(shape)
        return Rolled(tasks, samples, texts, scores, np.array([verdict.valid for verdict in verdicts]).reshape(shape))

    def prompt(self, task: Task) -> list[int]:
        return self.policy.lm.prompt(self.domain.instructions, task.prompt)

    def learn(self, rolls: Sequence[Rolled]) -> dict[str, float]:
        """One update on all these groups; flat ones count in the mean, or do not.

        Without a KL penalty a flat group's gradient is zero: it then counts without being read again.
        """
        s = self.settings
        samples = joined([rolled.samples for rolled in rolls])
        scores = torch.from_numpy(np.concatenate([rolled.scores for rolled in rolls]).astype(np.float32))
        worth = group_advantages(scores, s.scale)
        asked = [self.prompt(task) for rolled in rolls for task in rolled.tasks]
        read = np.ones(len(asked), np.bool_)
        if s.flat != "keep" or not s.kl:
            read = ~np.concatenate([rolled.flat for rolled in rolls])
        if not read.any():
            return {"steps": 0.0}
        rows = torch.from_numpy(np.repeat(read, s.group)).to(samples.mask.device)
        if s.flat == "keep":  # the mean over all, of what is read
            weighs = samples.mask.sum(1).float() if s.mean == "token" else torch.ones(len(rows), device=rows.device)
            worth = worth * (weighs[rows].sum() / weighs.sum()).cpu()
        part = Samples(samples.ids[rows], samples.mask[rows])
        asked = [prompt for prompt, there in zip(asked, read, strict=True) if there]
        return self.policy.learn(Written(asked, s.group, part, worth[torch.from_numpy(read)].reshape(-1)), "clipped")

    def test(self, tasks: Sequence[Task]) -> np.ndarray:
        """The scores of the likeliest replies, (tasks,)."""
        texts = self.policy.likeliest([self.prompt(task) for task in tasks]).texts(self.policy.lm)
        return np.array([self.domain.check(task, text).score for task, text in zip(tasks, texts, strict=True)])
