"""The agent: a language model that answers tasks and learns from the scores by GRPO."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .objectives import group_advantages
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
        """One update on all these groups; flat ones count in the mean, or do not."""
        s = self.settings
        flat = np.concatenate([rolled.flat for rolled in rolls])
        samples = joined([rolled.samples for rolled in rolls])
        scores = torch.from_numpy(np.concatenate([rolled.scores for rolled in rolls]).astype(np.float32))
        if s.flat != "keep":
            if flat.all():
                return {"steps": 0.0}
            kept = torch.from_numpy(np.repeat(~flat, s.group)).to(samples.mask.device)
            samples = Samples(samples.ids, samples.mask & kept[:, None])
        asked = [self.prompt(task) for rolled in rolls for task in rolled.tasks]
        worth = group_advantages(scores, s.scale).reshape(-1)
        return self.policy.learn(Written(asked, s.group, samples, worth), "clipped")

    def test(self, tasks: Sequence[Task]) -> np.ndarray:
        """The scores of the likeliest replies, (tasks,)."""
        texts = self.policy.likeliest([self.prompt(task) for task in tasks]).texts(self.policy.lm)
        return np.array([self.domain.check(task, text).score for task, text in zip(tasks, texts, strict=True)])
