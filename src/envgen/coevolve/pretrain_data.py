"""What models made on the spot are shown of a domain, and how it is found out how far they are.

The agent is shown easy tasks and some uniform ones, each with the oracle's reply. The environment is shown statistics
that say nothing, a spec, and a variation of it. Nothing that they are shown or tried on is held out.
"""

from collections.abc import Callable

import numpy as np
import torch

from .environment import context
from .language_model import Lm
from .sampling import sample
from .statistics import Statistics
from .task_filter import Gate
from .tasks import Domain, Spec, Task

ALPHAS = (0.3, 0.5, 0.7)
TOLD = (0.0, 0.2, 1.0)  # shares of the kinds of tasks that statistics may speak of
TRIED, LONGEST = 64, 96  # on how many tasks or contexts a model is tried, and tokens of a text then
Pair = tuple[str, str]  # what is asked, and a right answer


class Course:
    def __init__(self, domain: Domain, hard: float, held_out: int, seed: int):
        """`hard`: the share of uniform tasks; `held_out`: how many of the held-out tasks there are."""
        self.domain, self.hard = domain, hard
        self.random, self.trying = np.random.default_rng(seed), np.random.default_rng((seed, 1))
        self.held_out = domain.held_out_tasks(held_out)
        self.keys = {task.spec.key for task in self.held_out}
        self.kinds: dict[str, set[str]] = {}  # values of each field, as met in uniform specs

    def texts(self, count: int) -> list[str]:
        """Of everything that either model reads or writes."""
        found = []
        for _ in range(count):
            spec = self.spec(self.domain.sample)
            for field, value in self.domain.features(spec).items():
                self.kinds.setdefault(field, set()).add(value)
            task = self.domain.make_task(spec)
            found += [f"{task.prompt}\n", self.domain.oracle_reply(task), f"{self.context(spec)}\n", spec.text]
        return found

    def spec(self, draw: Callable[[np.random.Generator], Spec], random: np.random.Generator | None = None) -> Spec:
        while (spec := draw(random or self.random)).key in self.keys:
            pass
        return spec

    def task(self) -> Pair:
        hard = self.random.random() < self.hard
        task = self.domain.make_task(self.spec(self.domain.sample if hard else self.domain.sample_easy))
        return task.prompt, self.domain.oracle_reply(task)

    def variation(self) -> Pair:
        like = self.spec(self.domain.sample)
        return self.context(like), self.spec(lambda random: self.domain.vary(like, random)).text

    def context(self, like: Spec, random: np.random.Generator | None = None) -> str:
        """Statistics of nothing, of a few kinds of tasks, or of all, that say nothing about what is to be written."""
        random, known = random or self.random, Statistics()
        share = random.choice(TOLD)
        for field, values in self.kinds.items():
            for value in sorted(values):
                if random.random() < share:
                    known.add({field: value}, int(random.integers(11)), 10)
        return context(float(random.choice(ALPHAS)), known.told(), like)

    def accuracy(self, lm: Lm) -> str:
        """Of likeliest replies to uniform tasks."""
        tasks = [self.domain.make_task(self.spec(self.domain.sample, self.trying)) for _ in range(TRIED)]
        replies = sample(lm, [lm.prompt("", task.prompt) for task in tasks], 1, LONGEST, None).texts(lm)
        right = np.mean([self.domain.check(*pair).score for pair in zip(tasks, replies, strict=True)])
        return f"accuracy {right:.2f}"

    def admitted(self, lm: Lm) -> str:
        """Of drawn specs."""
        asked = [self.context(self.spec(self.domain.sample, self.trying), self.trying) for _ in range(TRIED)]
        drawing = torch.Generator().manual_seed(int(self.trying.integers(2**31)))
        written = sample(lm, [lm.prompt("", text) for text in asked], 1, LONGEST, drawing).texts(lm)
        gate = Gate(self.domain, self.held_out)
        return f"admitted {np.mean([isinstance(gate.admit(text), Task) for text in written]):.2f}"
