"""The environment policy: a language model that writes specs, and is rewarded for tasks solved about as often as alpha.

It is shown how often tasks of each kind succeeded lately and a base spec, and writes variations of it. What it wrote
passes the gate or is counted by the reason it did not. It learns from what the agent made of its tasks: by regression
on its own specs, weighted by exp(lambda R), or by the policy gradient; or not at all (GenEnv-Random).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .policy import Policy, Written
from .proposers import Proposals, Proposed, Proposer
from .reward import passes, repetition, rewards, weights
from .sampling import Samples, joined
from .settings import Curriculum, EnvironmentSettings
from .statistics import Statistics
from .task_filter import Gate
from .task_stores import Pool
from .tasks import Domain, Spec, Task


def context(alpha: float, told: str, like: Spec) -> str:
    """What the environment is shown before it writes."""
    return f"aim {10 * alpha:.0f}; {told}; like {like.text}"


class EnvironmentPolicy(Proposer):
    name = "genenv"

    def __init__(
        self, domain: Domain, policy: Policy, settings: EnvironmentSettings, curriculum: Curriculum, pool: Pool,
        variations: int, tries: int, seed: int,
    ):  # fmt: skip
        self.domain, self.policy, self.settings, self.curriculum = domain, policy, settings, curriculum
        self.pool, self.variations, self.tries = pool, variations, tries
        self.random = np.random.default_rng(seed)

    def propose(self, wanted: int, seeds: Sequence[Spec], known: Statistics, gate: Gate) -> Proposals:
        written: list[Proposed] = []
        asked: list[str] = []
        drawn: list[Samples] = []
        missing = wanted
        for _ in range(self.tries):
            likes = self.random.integers(len(seeds), size=-(-missing // self.variations))
            fresh = [context(self.curriculum.alpha, known.told(), seeds[k]) for k in likes]
            samples = self.policy.write([self.prompt(text) for text in fresh], self.variations)
            for row, text in enumerate(samples.texts(self.policy.lm)):
                group = len(asked) + row // self.variations
                told = gate.admit(text) if missing else "not needed"
                passed = isinstance(told, Task)
                missing -= passed
                written.append(Proposed(text, group, told if passed else None, "" if passed else str(told)))
            asked += fresh
            drawn.append(samples)
            if not missing:
                break
        samples = joined(drawn)
        return Proposals(tuple(written), samples.tokens, tuple(asked), samples)

    def prompt(self, asked: str) -> list[int]:
        return self.policy.lm.prompt(self.domain.spec_prompt, asked)

    def learn(self, proposals: Proposals, p: np.ndarray) -> dict[str, float]:
        tasks = proposals.tasks
        values = rewards(p, self.curriculum)
        if self.curriculum.repetition:
            values = values - self.curriculum.repetition * repetition([one.text for one in tasks])
        if self.settings.method == "grpo":
            return self._climb(proposals, dict(zip(map(id, tasks), values, strict=True)))
        if self.settings.method == "rwr":
            return self._imitate(proposals, p, values)
        return {}

    def _imitate(self, proposals: Proposals, p: np.ndarray, values: np.ndarray) -> dict[str, float]:
        """Reward-weighted regression (section 2.3) on the specs near alpha, and on as many earlier ones."""
        near = passes(p, self.curriculum)
        fresh = [
            {"asked": proposals.asked[one.group], "text": one.text, "reward": float(value)}
            for one, value, passed in zip(proposals.tasks, values, near, strict=True)
            if passed
        ]
        again = self.pool.draw(round(self.settings.again * len(fresh)), self.random)
        self.pool.add(fresh, key=lambda one: f"{one['asked']}\n{one['text']}")
        both = fresh + again
        if not both:
            return {"rows": 0.0}
        worth = weights(np.array([one["reward"] for one in both]), self.curriculum)
        asked, texts = [self.prompt(one["asked"]) for one in both], [one["text"] for one in both]
        return self.policy.learn(Written.of(self.policy.lm, asked, texts, worth.tolist()), "weighted") | {
            "rows": float(len(both))
        }

    def _climb(self, proposals: Proposals, value_of: Mapping[int, float]) -> dict[str, float]:
        """The policy gradient: each spec against the others that were written to its context. No task, no reward."""
        samples = proposals.samples
        assert samples is not None
        values = np.array([value_of.get(id(one), 0.0) for one in proposals.written])
        counts = np.array([one.reason != "not needed" for one in proposals.written])
        gains = np.zeros(len(values))
        for group in range(len(proposals.asked)):
            rows = slice(group * self.variations, (group + 1) * self.variations)
            own = values[rows][counts[rows]]
            if own.size > 1:
                gains[rows][counts[rows]] = (own - own.mean()) / (own.std(ddof=1) + 1e-4)
        mask = samples.mask & torch.from_numpy(counts).to(samples.mask.device)[:, None]
        asked = [self.prompt(text) for text in proposals.asked]
        worth = torch.from_numpy(gains.astype(np.float32))
        found = self.policy.learn(Written(asked, self.variations, Samples(samples.ids, mask), worth), "clipped")
        return found | {"rows": float(counts.sum())}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, values = self.policy.state()
        return arrays, {**values, "random": self.random.bit_generator.state}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self.policy.load(arrays, values)
        self.random.bit_generator.state = values["random"]
