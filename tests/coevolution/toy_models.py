"""Two tiny models that know the toy domain a little."""

from pathlib import Path

import numpy as np
import torch
from toy import Toy

from envgen.coevolution.environment import environment_prompt
from envgen.coevolution.language_model import new_model, train_tokenizer
from envgen.coevolution.model_io import save_model
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.settings import ModelSize, PolicySettings


def train_model(sample_examples, tokenizer, num_steps: int):
    """A tiny model trained on (prompt, completion) pairs."""
    lm = new_model(tokenizer, ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64), 0)
    policy = LanguageModelPolicy(lm, PolicySettings(learning_rate=5e-3, kl_coef=0.0), seed=0)
    for _ in range(num_steps):
        prompts, completions = zip(*sample_examples(64), strict=True)
        encoded = [lm.encode_prompt("", prompt) for prompt in prompts]
        policy.update(TrainBatch.from_texts(lm, encoded, completions, [1.0] * 64), "weighted_nll")
    return lm


def make_models(agent: Path, environment: Path) -> None:
    """Train an agent and an environment model and save them in these folders."""
    torch.set_num_threads(1)
    domain, rng = Toy(), np.random.default_rng(0)

    def agent_examples(count):
        tasks = [domain.make_task(domain.sample_easy(rng)) for _ in range(count)]
        return [(task.prompt, domain.oracle_reply(task)) for task in tasks]

    def environment_examples(count):
        specs = [domain.sample(rng) for _ in range(count)]
        stats = "which " + " ".join(f"{k}:{rng.integers(11)}" for k in (1, 2))
        return [(environment_prompt(0.5, stats, spec), domain.vary(spec, rng).text) for spec in specs]

    texts = [text for example in agent_examples(200) + environment_examples(200) for text in example]
    tokenizer = train_tokenizer([*texts, "loud no yes"], 400)
    save_model(train_model(agent_examples, tokenizer, 40), agent)
    save_model(train_model(environment_examples, tokenizer, 80), environment)
