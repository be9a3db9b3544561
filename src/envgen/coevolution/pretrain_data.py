"""Supervised examples for models created from scratch, and the evaluations reported during pretraining.

The agent is trained on easy and some uniform tasks with the oracle's replies. The environment policy is trained to vary
the spec in its prompt, beside success rates that carry no information. Held-out tasks never occur, nor do other specs
of the same tasks.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from .environment import environment_prompt
from .episodes import EpisodeRollout, transcript
from .language_model import LanguageModel
from .reward import SuccessStats
from .sampling import generate
from .task_stores import HeldOutTasks, TaskFilter
from .tasks import Domain, DomainError, Spec, Task

ALPHAS = (0.3, 0.5, 0.7)
STATS_FRACTIONS = (0.0, 0.2, 1.0)  # fractions of the feature values that occur in the success rates of a prompt
NUM_EVAL_PROMPTS = 64
MAX_NEW_TOKENS = 96  # in evaluations
MAX_ATTEMPTS = 1000  # to sample a spec that is not held out
Example = tuple[str, list[tuple[str, str]]]  # prompt, and completions with the observation after each of them


class PretrainData:
    def __init__(self, domain: Domain, hard_fraction: float, num_held_out: int, seed: int):
        """
        Args:
            domain: The family of tasks.
            hard_fraction: Fraction of the agent's tasks that are uniform instead of easy.
            num_held_out: Number of held-out tasks to exclude.
            seed: The seed of the examples.
        """
        self.domain, self.hard_fraction = domain, hard_fraction
        self.rng, self.eval_rng = np.random.default_rng(seed), np.random.default_rng((seed, 1))
        self.held_out_tasks = domain.held_out_tasks(num_held_out)
        self.held_out = HeldOutTasks(domain, self.held_out_tasks)
        self.feature_values: dict[str, set[str]] = {}  # as they occur in uniform specs

    def tokenizer_texts(self, num_specs: int) -> list[str]:
        """Texts of every kind that either model reads or writes."""
        texts = []
        for _ in range(num_specs):
            spec = self.sample_spec(self.domain.sample)
            for feature, value in self.domain.features(spec).items():
                self.feature_values.setdefault(feature, set()).add(value)
            task = self.domain.make_task(spec)
            texts.append(f"{task.prompt}\n")
            for completion, observation in self._oracle_turns(task):
                texts += [completion, f"{observation}\n"] if self.domain.is_multi_turn else [completion]
            texts += [f"{self.environment_prompt(spec)}\n", spec.text]
        return texts

    def sample_spec(
        self, sample: Callable[[np.random.Generator], Spec], rng: np.random.Generator | None = None
    ) -> Spec:
        """A spec that is not held out, and whose task is not a held-out one."""
        for _ in range(MAX_ATTEMPTS):
            spec = sample(rng or self.rng)
            if not self._is_held_out(spec):
                return spec
        raise DomainError(
            f"{MAX_ATTEMPTS} sampled specs of {self.domain.name} in a row are held out; lower num_held_out of the "
            "pretraining and num_eval_tasks of the plan"
        )

    def _is_held_out(self, spec: Spec) -> bool:
        return self.held_out.has_spec(spec) or self.held_out.has_task(self.domain.make_task(spec))

    def agent_example(self) -> Example:
        """A task and the oracle's reply."""
        is_hard = self.rng.random() < self.hard_fraction
        task = self.domain.make_task(self.sample_spec(self.domain.sample if is_hard else self.domain.sample_easy))
        return task.prompt, self._oracle_turns(task)

    def _oracle_turns(self, task: Task) -> list[tuple[str, str]]:
        reply = self.domain.oracle_reply(task)
        return transcript(self.domain, task, reply) if self.domain.is_multi_turn else [(reply, "")]

    def environment_example(self) -> Example:
        """A prompt of the environment policy and a variation of its spec."""
        base_spec = self.sample_spec(self.domain.sample)
        prompt = self.environment_prompt(base_spec)
        return prompt, [(self.sample_spec(lambda rng: self.domain.vary(base_spec, rng)).text, "")]

    def peek_examples(self, count: int) -> list[Example]:
        """The next `count` examples of each model; the random state stays as it is."""
        state = self.state()
        examples = [sample() for sample in (self.agent_example, self.environment_example) for _ in range(count)]
        self.load(state)
        return examples

    def environment_prompt(self, base_spec: Spec, rng: np.random.Generator | None = None) -> str:
        """A prompt with random success rates of no, a few or all kinds of tasks."""
        rng, stats = rng or self.rng, SuccessStats()
        fraction = rng.choice(STATS_FRACTIONS)
        for feature, values in self.feature_values.items():
            for value in sorted(values):
                if rng.random() < fraction:
                    stats.add({feature: value}, int(rng.integers(11)), 10)
        return environment_prompt(float(rng.choice(ALPHAS)), stats.to_prompt(), base_spec)

    def evaluate_agent(self, lm: LanguageModel) -> str:
        """The accuracy of greedy replies to uniform tasks."""
        specs = [self.sample_spec(self.domain.sample, self.eval_rng) for _ in range(NUM_EVAL_PROMPTS)]
        tasks = [self.domain.make_task(spec) for spec in specs]
        prompts = [lm.encode_prompt("", task.prompt) for task in tasks]
        if self.domain.is_multi_turn:
            episodes = [EpisodeRollout(self.domain, task, lm) for task in tasks]
            generate(lm, prompts, 1, MAX_NEW_TOKENS, None, conversations=episodes)
            replies = [episode.text for episode in episodes]
        else:
            replies = generate(lm, prompts, 1, MAX_NEW_TOKENS, None).decode(lm)
        accuracy = np.mean([self.domain.check(*pair).score for pair in zip(tasks, replies, strict=True)])
        return f"accuracy {accuracy:.2f}"

    def evaluate_environment(self, lm: LanguageModel) -> str:
        """The fraction of sampled specs that the task filter accepts."""
        prompts = [
            self.environment_prompt(self.sample_spec(self.domain.sample, self.eval_rng), self.eval_rng)
            for _ in range(NUM_EVAL_PROMPTS)
        ]
        rng = torch.Generator().manual_seed(int(self.eval_rng.integers(2**31)))
        encoded = [lm.encode_prompt("", prompt) for prompt in prompts]
        specs = generate(lm, encoded, 1, MAX_NEW_TOKENS, rng).decode(lm)
        task_filter = TaskFilter(self.domain, self.held_out_tasks)
        return f"valid specs {np.mean([task_filter.check(text).task is not None for text in specs]):.2f}"

    def state(self) -> dict[str, Any]:
        return {"rng": self.rng.bit_generator.state, "eval_rng": self.eval_rng.bit_generator.state}

    def load(self, state: Mapping[str, Any]) -> None:
        self.rng.bit_generator.state = state["rng"]
        self.eval_rng.bit_generator.state = state["eval_rng"]
