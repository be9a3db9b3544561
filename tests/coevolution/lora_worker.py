"""What two processes do together for test_distributed_lora.py: `python lora_worker.py OUT AGENT ENVIRONMENT` under
torchrun."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from distributed_worker import PROMPTS, make_batch, make_request, run_interrupted
from toy import Toy

from envgen.coevolution.model_io import load_model
from envgen.coevolution.policy import LanguageModelPolicy
from envgen.coevolution.processes import start_accelerator
from envgen.coevolution.settings import PolicySettings
from envgen.coevolution.train import coevolve

DTYPES = ("float32", "bfloat16")
NUM_SAMPLES = 16  # of each prompt
ROLLOUTS = 72  # three steps; the interrupted run stops after the second


def update_adapters(agent, dtype, microbatch_size=4096, accelerator=None):
    """A policy with adapters after two updates, and the metrics of the second."""
    settings = PolicySettings(
        learning_rate=1e-2, epochs=2, microbatch_size=microbatch_size, kl_coef=0.1, max_new_tokens=6,
        lora_rank=4, lora_alpha=8,
    )  # fmt: skip
    policy = LanguageModelPolicy(load_model(agent, dtype), settings, 0, accelerator)
    policy.update(make_batch(policy.lm), "ppo_clip")
    return policy, policy.update(make_batch(policy.lm), "ppo_clip")


def adapters(policy):
    return {
        name: parameter.detach().numpy().copy()
        for name, parameter in policy.lm.model.named_parameters()
        if parameter.requires_grad
    }


def main():
    torch.set_num_threads(1)
    out, agent, environment = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    accelerator = start_accelerator()
    rank = accelerator.process_index
    assert accelerator.num_processes == 2
    for dtype in DTYPES:
        policy, metrics = update_adapters(agent, dtype, 6, accelerator)
        np.savez(out / f"{dtype}.{rank}.npz", **adapters(policy))
        (out / f"{dtype}.{rank}.json").write_text(json.dumps(metrics))
    prompt = policy.lm.encode_prompt("", PROMPTS[0])
    texts = policy.generate([prompt, prompt], NUM_SAMPLES).decode(policy.lm)  # one prompt for each process
    (out / f"texts.{rank}.json").write_text(json.dumps(texts))
    request, changes = make_request(agent, environment), {"lora_rank": 2, "learning_rate": 1e-2}
    request = request.model_copy(update={
        "plan": request.plan.model_copy(update={"rollouts": ROLLOUTS}),
        "agent_settings": request.agent_settings.model_copy(update=changes),
        "environment_settings": request.environment_settings.model_copy(update=changes),
    })  # fmt: skip
    whole = coevolve(out / "uninterrupted", Toy(), request, accelerator=accelerator)
    resumed = run_interrupted(out / "interrupted", request, accelerator)
    summaries = {"uninterrupted": whole.model_dump(mode="json"), "interrupted": resumed.model_dump(mode="json")}
    (out / f"summaries.{rank}.json").write_text(json.dumps(summaries))
    accelerator.end_training()


if __name__ == "__main__":
    main()
