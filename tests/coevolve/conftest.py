"""Two tiny models that know the toy domain a little, made once for all tests."""

import numpy as np
import pytest
import torch
from toy import Toy

from envgen.coevolve.environment import context
from envgen.coevolve.policy import Policy, Written
from envgen.coevolve.settings import Learning
from envgen.coevolve.tiny_models import Size, fresh, save, tokenizer_of


def taught(pairs, tokenizer, steps: int, told: str):
    """A tiny model that has seen (question, answer) pairs."""
    lm = fresh(tokenizer, Size(width=32, layers=2, heads=2, inner=64), 0)
    policy = Policy(lm, Learning(learning_rate=5e-3, kl=0.0), seed=0)
    for _ in range(steps):
        asked, replies = zip(*pairs(64), strict=True)
        policy.learn(Written.of(lm, [lm.prompt(told, text) for text in asked], replies, [1.0] * 64), "weighted")
    return lm


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The folders of an agent and of an environment."""
    torch.set_num_threads(1)
    domain, random = Toy(), np.random.default_rng(0)

    def tasks(count):
        drawn = [domain.make_task(domain.sample_easy(random)) for _ in range(count)]
        return [(task.prompt, domain.oracle_reply(task)) for task in drawn]

    def specs(count):
        seeds = [domain.sample(random) for _ in range(count)]
        told = "which " + " ".join(f"{k}:{random.integers(11)}" for k in (1, 2))
        return [(context(0.5, told, seed), domain.vary(seed, random).text) for seed in seeds]

    texts = [text for pair in tasks(200) + specs(200) for text in pair]
    tokenizer = tokenizer_of([*texts, "loud no yes"], 400)
    folders = [tmp_path_factory.mktemp(name) for name in ("agent", "environment")]
    for pairs, steps, folder in ((tasks, 40, folders[0]), (specs, 80, folders[1])):
        save(taught(pairs, tokenizer, steps, ""), folder)
    return folders
