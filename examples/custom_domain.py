"""A custom GenEnv domain: sort letters. It is checked, and a tiny language model is trained on it.

python examples/custom_domain.py                 # or: envgen coevolve custom_domain:SortLetters
"""

import random
import tempfile

import numpy as np
from pydantic import Field

import envgen
from envgen.coevolution.tasks import CheckResult, Domain, Spec, Task, check_domain

TINY = {"model_size": {"width": 32, "num_layers": 2}, "pretrain": {"agent_steps": 20, "environment_steps": 1},
        "plan": {"rollouts": 128, "num_eval_tasks": 50}, "agent_settings": {"max_new_tokens": 16}}  # fmt: skip


class SortSpec(Spec):
    count: int = Field(ge=2, le=6)  # letters to sort
    variation: int = Field(default=0, ge=0, lt=1000)  # selects the letters


class SortLetters(Domain):
    name, Spec = "sort_letters", SortSpec
    spec_prompt = 'Letters to sort. count: 2 to 6; variation: 0 to 999. {"count":3,"variation":17}'
    instructions = "Write the letters in alphabetical order."

    def make_task(self, spec: SortSpec) -> Task:
        letters = random.Random(spec.text).sample("abcdefghij", spec.count)
        return Task(spec, prompt=f"sort: {' '.join(letters)}", answer_key=" ".join(sorted(letters)))

    def oracle_reply(self, task: Task) -> str:
        return task.answer_key

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        return "", task.answer_key[::-1], task.answer_key[:-2], f"{task.answer_key} a"

    def check(self, task: Task, reply: str) -> CheckResult:
        return CheckResult(score=float(reply.split() == task.answer_key.split()), valid=bool(reply.strip()))

    def sample(self, rng: np.random.Generator) -> SortSpec:
        return SortSpec(count=int(rng.integers(2, 7)), variation=int(rng.integers(1000)))

    def sample_easy(self, rng: np.random.Generator) -> SortSpec:
        return SortSpec(count=2, variation=int(rng.integers(1000)))

    def features(self, spec: SortSpec) -> dict[str, str]:
        return {"count": str(spec.count)}

    def difficulty(self, spec: SortSpec) -> float:
        return spec.count


if __name__ == "__main__":
    check_domain(SortLetters())
    with tempfile.TemporaryDirectory() as folder:
        print(envgen.coevolve(SortLetters(), "greedy", folder=f"{folder}/run", models_folder=folder, **TINY))
