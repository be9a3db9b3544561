"""Training speed of GenEnv's agent compared with TRL's GRPOTrainer.

    pip install trl                                                  # in addition to '.[genenv]'
    python benchmarks/genenv_speed.py --models out/models

Both train the same small model on the same function-calling tasks, with the same group size, loss (clipped, averaged
over tokens, without KL penalty), number of gradient steps, and optimizer, in float32 and with the same number of
threads. They run in turns, each in a process of its own. A step generates all completions, scores them and updates the
model twice; the first one is not counted. Prints Markdown: seconds per step and generated tokens per second, medians
over the rounds.

Groups whose completions all have the same score have no gradient. envgen leaves them out of the forward pass, TRL does
not, so envgen is also measured with all of them ("all groups").
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envgen.coevolution.domains.tools.domain import ToolsDomain
from envgen.coevolution.loop import AgentPolicy
from envgen.coevolution.model_io import load_model
from envgen.coevolution.policy import LanguageModelPolicy
from envgen.coevolution.pretraining import pretrain
from envgen.coevolution.settings import AgentSettings, ModelSize, PretrainSettings
from envgen.coevolution.tasks import Task
from envgen.runs.tables import markdown_table

SETTINGS = AgentSettings(num_generations=8, epochs=2, kl_coef=0.0, max_new_tokens=96, max_grad_norm=1.0)
Measurement = tuple[float, int]  # seconds of a step, and the tokens that were generated in it


def sample_batches(num_batches: int, tasks_per_step: int) -> list[list[Task]]:
    domain, rng = ToolsDomain(), np.random.default_rng(0)
    tasks = [domain.make_task(domain.sample(rng)) for _ in range(num_batches * tasks_per_step)]
    return [tasks[k : k + tasks_per_step] for k in range(0, len(tasks), tasks_per_step)]


def train_envgen(model: Path, batches: Sequence[list[Task]], all_groups: bool = False) -> list[Measurement]:
    policy = LanguageModelPolicy(load_model(model), SETTINGS, seed=0)
    agent = AgentPolicy(ToolsDomain(), policy, SETTINGS)
    measurements = []
    for tasks in batches:
        start = time.perf_counter()
        batch = agent.sample_and_score(tasks)
        if all_groups:
            batch.scores[batch.has_zero_variance, 0] += 1e-6  # no longer recognized as groups without variance
        agent.update([batch])
        measurements.append((time.perf_counter() - start, batch.completions.num_tokens))
    return measurements


def train_envgen_with_all_groups(model: Path, batches: Sequence[list[Task]]) -> list[Measurement]:
    return train_envgen(model, batches, all_groups=True)


def train_trl(model: Path, batches: Sequence[list[Task]]) -> list[Measurement]:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    domain, lm, s = ToolsDomain(), load_model(model), SETTINGS
    tasks = [task for batch in batches for task in batch]
    num_tokens: list[int] = []
    times: list[float] = []

    def score(completions: Sequence[str], completion_ids: Sequence[Sequence[int]], index: Sequence[int], **_: Any):
        num_tokens.append(sum(map(len, completion_ids)))
        return [domain.check(tasks[k], text).score for k, text in zip(index, completions, strict=True)]

    class Clock(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if not times:
                times.append(time.perf_counter())

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, use_cpu=True, bf16=False, report_to=[], save_strategy="no", disable_tqdm=True,
            logging_strategy="no", gradient_checkpointing=False, shuffle_dataset=False, dataloader_pin_memory=False,
            per_device_train_batch_size=len(batches[0]) * s.num_generations, gradient_accumulation_steps=1,
            num_generations=s.num_generations, steps_per_generation=1, num_iterations=s.epochs,
            max_steps=len(batches) * s.epochs, max_completion_length=s.max_new_tokens, temperature=s.temperature,
            top_p=1.0, top_k=0, learning_rate=s.learning_rate, lr_scheduler_type="constant", adam_beta2=0.99,
            max_grad_norm=s.max_grad_norm, beta=0.0, epsilon=s.clip_coef, loss_type="dapo", scale_rewards="group",
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=lm.model, reward_funcs=score, args=config, processing_class=lm.tokenizer, callbacks=[Clock()],
            train_dataset=Dataset.from_list(
                [{"prompt": f"{task.prompt}\n", "index": k} for k, task in enumerate(tasks)]
            ),
        )  # fmt: skip
        trainer.train()
    ends = times[:: s.epochs]
    return list(zip(np.diff(ends).tolist(), num_tokens, strict=True))


TRAINERS: dict[str, Callable[[Path, Sequence[list[Task]]], list[Measurement]]] = {
    "envgen": train_envgen,
    "envgen, all groups": train_envgen_with_all_groups,
    "TRL": train_trl,
}


def _measure(connection: Connection, name: str, model: Path, num_steps: int, tasks_per_step: int, threads: int) -> None:
    torch.set_num_threads(threads)
    measurements = TRAINERS[name](model, sample_batches(num_steps + 1, tasks_per_step))
    connection.send(measurements[1:])  # the first step also compiles and fills caches


def measure(name: str, *args: Any) -> list[Measurement]:
    """Run a trainer in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(sender, name, *args))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise SystemExit(f"{name} failed") from None
    finally:
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path("out/models"), help="where small models are kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="of each round")
    parser.add_argument("--tasks-per-step", type=int, default=32)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="PyTorch threads")
    args = parser.parse_args()
    model, _ = pretrain(ToolsDomain(), args.models, 0, ModelSize(), PretrainSettings(), print)
    measurements: dict[str, list[Measurement]] = {name: [] for name in TRAINERS}
    for k in range(args.rounds):
        for name in TRAINERS:
            new = measure(name, model, args.steps, args.tasks_per_step, args.threads)
            measurements[name] += new
            seconds, num_tokens = map(sum, zip(*new, strict=True))
            print(f"round {k + 1}: {name}: {seconds / len(new):.2f} s/step, {num_tokens / seconds:,.0f} tokens/s")
    seconds = {name: statistics.median(s for s, _ in values) for name, values in measurements.items()}
    speeds = {name: statistics.median(n / s for s, n in values) for name, values in measurements.items()}
    rows = [
        [name, f"{seconds[name]:.2f}", f"{speeds[name]:,.0f}", f"{speeds[name] / speeds['TRL']:.2f}"]
        for name in TRAINERS
    ]
    print(f"\n{date.today()}, {args.threads} threads, {args.tasks_per_step} tasks x {SETTINGS.num_generations}\n")
    print(markdown_table(["trainer", "s/step", "tokens/s", "tokens/s relative to TRL"], rows))


if __name__ == "__main__":
    main()
