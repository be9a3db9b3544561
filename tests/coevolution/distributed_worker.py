"""What two processes do together for test_distributed.py: `python distributed_worker.py OUT AGENT ENVIRONMENT` under
torchrun.

Each process writes its results to OUT/<name>.<rank>.json or .npz. The single process that they are compared with uses
the same functions.
"""

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from fake_vllm_server import FakeVllmServer, RecordingTransfer
from toy import Toy

from envgen.coevolution import policy as policy_module
from envgen.coevolution.model_io import load_model
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.processes import start_accelerator
from envgen.coevolution.sampling import Completions
from envgen.coevolution.settings import (
    AgentSettings,
    AlphaCurriculumSettings,
    CoevolutionPlan,
    EnvironmentSettings,
    PolicySettings,
)
from envgen.coevolution.train import CoevolveRequest, coevolve
from envgen.coevolution.vllm import VllmSampler

PROMPTS = ("a b : 1", "c : 1", "h g : 2 loud", "d e : 1 loud", "f f : 2")
NUM_GENERATIONS = 3
LOSS_TYPES = ("ppo_clip", "weighted_nll")
LOSS_AGGS = ("token", "sequence")


def make_batch(lm, prompts=PROMPTS):
    """The same completions in every process, of different lengths."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefgh"), rng.integers(1, 5))) for _ in range(NUM_GENERATIONS * len(prompts))]
    completions = Completions.from_token_lists([lm.encode_completion(text) for text in texts], lm.pad_token_id)
    encoded = [lm.encode_prompt("", text) for text in prompts]
    return TrainBatch(encoded, NUM_GENERATIONS, completions, torch.linspace(-1, 1, len(texts)))


def make_settings(loss_agg="token", microbatch_size=4096):
    return PolicySettings(
        learning_rate=1e-2, epochs=3, loss_agg=loss_agg, microbatch_size=microbatch_size, kl_coef=0.1, max_new_tokens=6
    )


def update_policy(agent, loss_type, loss_agg, microbatch_size=4096, accelerator=None, sampler=None):
    """A policy after an update, and the metrics of the update."""
    settings = make_settings(loss_agg, microbatch_size)
    policy = LanguageModelPolicy(load_model(agent), settings, 0, accelerator, sampler)
    return policy, policy.update(make_batch(policy.lm), loss_type)


def weights_of(arrays):
    return {name: array for name, array in arrays.items() if name.startswith("model.")}


def make_request(agent, environment):
    return CoevolveRequest(
        proposer="genenv",
        agent=agent,
        environment=environment,
        curriculum=AlphaCurriculumSettings(filter_tolerance=None),
        plan=CoevolutionPlan(rollouts=96, tasks_per_step=6, num_base_tasks=8, num_eval_tasks=7, eval_every=2),
        agent_settings=AgentSettings(max_new_tokens=4, learning_rate=1e-3, num_generations=4),
        environment_settings=EnvironmentSettings(max_new_tokens=48, learning_rate=1e-3),
    )


class Interrupted(Exception):
    pass


def run_interrupted(folder, request, accelerator):
    """A run that is interrupted half way and resumed."""

    def interrupt(line):
        if line["step"] == 2:
            raise Interrupted

    with contextlib.suppress(Interrupted):
        coevolve(folder, Toy(), request, on_progress=interrupt, accelerator=accelerator, save_every=0)
    return coevolve(folder, Toy(), request, accelerator=accelerator, save_every=0)


class PromptEpisode:
    """Two turns for an episode of the prompt with an odd index, and three for the others."""

    def __init__(self, index):
        self.num_turns, self.turns = 3 - index % 2, []

    def answer(self, tokens):
        self.turns.append(tokens)
        return None if len(self.turns) == self.num_turns else [5 + len(self.turns)]

    @property
    def text(self):
        return str(self.turns)


def play_episodes(policy, greedy=True):
    """The texts of episodes, and their sequences in which a flag says which tokens were generated."""
    prompts = [policy.lm.encode_prompt("", text) for text in PROMPTS]
    completions, texts = policy.play_episodes(prompts, PromptEpisode, 1 if greedy else NUM_GENERATIONS, greedy)
    rows = zip(completions.ids, completions.mask, completions.generated, strict=True)
    return texts, [[*zip(ids[mask].tolist(), generated[mask].tolist(), strict=True)] for ids, mask, generated in rows]


def update_sharded(agent, accelerator, out):
    """The same update of a model whose weights are sharded over the processes, and a round trip of its state."""
    accelerator.state.distributed_type = DistributedType.FSDP  # accelerate only does this on GPUs
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    with FakeVllmServer() as server:
        transfer = RecordingTransfer()
        sampler = VllmSampler(server.url, transfer=transfer)
        policy, metrics = update_policy(agent, "ppo_clip", "token", 6, accelerator, sampler)
        assert type(next(policy.model.parameters())).__name__ == "DTensor"
        arrays, values = policy.state()
        if accelerator.is_main_process:
            np.savez(out / "sharded.npz", **weights_of(arrays))
            np.savez(out / "sent.npz", **transfer.sent[-1])
            (out / "sharded.json").write_text(json.dumps({"metrics": metrics, "num_sent": len(transfer.sent)}))
            np.savez(out / "state.npz", **arrays)
        accelerator.wait_for_everyone()
        saved = dict(np.load(out / "state.npz"))
        settings = make_settings(microbatch_size=6)
        sampler = VllmSampler(server.url, transfer=RecordingTransfer())
        restored = LanguageModelPolicy(load_model(agent), settings, 1, accelerator, sampler)
        restored.load(saved, values)
        restored_arrays = restored.state()[0]
        updated = []
        for each in (policy, restored):
            each.update(make_batch(each.lm), "ppo_clip")
            updated.append(each.state()[0])
        if accelerator.is_main_process:

            def max_difference(a, b):
                return max(float(np.abs(a[name] - b[name]).max()) for name in weights_of(updated[0]))

            result = {
                "state_is_equal": all(np.array_equal(saved[name], restored_arrays[name]) for name in saved),
                "difference_after_update": max_difference(updated[0], updated[1]),
                "size_of_update": max_difference(updated[0], saved),
            }
            (out / "round_trip.json").write_text(json.dumps(result))


def main():
    torch.set_num_threads(1)
    policy_module.MAX_CHUNK_TOKENS = 12  # one process would divide its batches; the processes would do so differently
    out, agent, environment = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    accelerator = start_accelerator()
    rank = accelerator.process_index
    assert accelerator.num_processes == 2
    for loss_type in LOSS_TYPES:
        for loss_agg in LOSS_AGGS:
            policy, metrics = update_policy(agent, loss_type, loss_agg, 6, accelerator)
            weights = {name: parameter.detach() for name, parameter in policy.lm.model.named_parameters()}
            np.savez(out / f"{loss_type}.{loss_agg}.{rank}.npz", **weights)
            (out / f"{loss_type}.{loss_agg}.{rank}.json").write_text(json.dumps(metrics))
    prompts = [policy.lm.encode_prompt("", text) for text in PROMPTS]
    sampled, greedy = policy.generate(prompts, NUM_GENERATIONS), policy.generate_greedy(prompts)
    texts = {
        "sampled": sampled.decode(policy.lm), "greedy": greedy.decode(policy.lm),
        "sampled episodes": play_episodes(policy, greedy=False), "greedy episodes": play_episodes(policy),
    }  # fmt: skip
    (out / f"texts.{rank}.json").write_text(json.dumps(texts))
    request = make_request(agent, environment)
    uninterrupted = coevolve(out / "uninterrupted", Toy(), request, accelerator=accelerator)
    interrupted = run_interrupted(out / "interrupted", request, accelerator)
    summaries = {
        "uninterrupted": uninterrupted.model_dump(mode="json"), "interrupted": interrupted.model_dump(mode="json"),
    }  # fmt: skip
    (out / f"summaries.{rank}.json").write_text(json.dumps(summaries))
    update_sharded(agent, accelerator, out)
    accelerator.end_training()


if __name__ == "__main__":
    main()
