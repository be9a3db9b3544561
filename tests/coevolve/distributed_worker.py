"""What test_processes.py has two processes do together; `python many.py OUT AGENT ENVIRONMENT` under torchrun.

Each process writes what it found to OUT/<part>.<process>.json or .npz. Here lies also what one process is compared by.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from fake_vllm_server import Recorder, Server
from toy import Toy

from envgen.coevolve.language_model import load
from envgen.coevolve.policy import Policy, Written
from envgen.coevolve.sampling import Samples
from envgen.coevolve.settings import AgentSettings, Curriculum, EnvironmentSettings, Learning, Plan
from envgen.coevolve.train import CoevolveRequest, coevolve
from envgen.coevolve.vllm import Served

PROMPTS = ("a b : 1", "c : 1", "h g : 2 loud", "d e : 1 loud", "f f : 2")
EACH = 3


def written(lm, prompts=PROMPTS):
    """The same texts everywhere, some longer than others."""
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abcdefgh"), random.integers(1, 5))) for _ in range(EACH * len(prompts))]
    samples = Samples.of([lm.reply(text) for text in texts], lm.pad)
    return Written([lm.prompt("", text) for text in prompts], EACH, samples, torch.linspace(-1, 1, len(texts)))


def settings(how, mean="token", rows=4096):
    return Learning(learning_rate=1e-2, epochs=3, mean=mean, rows=rows, kl=0.1, longest=6)


def learned(agent, how, mean, rows=4096, accelerator=None, writer=None):
    """A policy after an update, and what the update told."""
    policy = Policy(load(agent), settings(how, mean, rows), 0, accelerator, writer)
    return policy, policy.learn(written(policy.lm), how)


def arrays_of(state):
    """Its weights alone, by name."""
    return {name: array for name, array in state.items() if name.startswith("model.")}


def request(agent, environment, proposer="genenv"):
    return CoevolveRequest(
        proposer=proposer,
        agent=agent,
        environment=environment,
        curriculum=Curriculum(filter=None),
        plan=Plan(rollouts=96, tasks=6, base=8, test=7, test_every=2),
        learning=AgentSettings(longest=4, learning_rate=1e-3, group=4),
        environment_learning=EnvironmentSettings(longest=48, learning_rate=1e-3),
    )


class Cut(Exception):
    pass


def cut_off(folder, asked, accelerator):
    """A run that stops in its middle, and goes on."""

    def cut(line):
        if line["step"] == 2:
            raise Cut

    for show in (cut, lambda line: None):
        try:
            found = coevolve(folder, Toy(), asked, show=show, accelerator=accelerator, save_every=0)
        except Cut:
            continue
    return found


def sharded(agent, accelerator, out):
    """The same update of a model whose weights are spread over the processes, and its state carried over."""
    accelerator.state.distributed_type = DistributedType.FSDP  # which accelerate does for GPUs alone
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    with Server() as server:
        recorder = Recorder()
        policy, told = learned(agent, "clipped", "token", 6, accelerator, Served(server.url, transfer=recorder))
        assert type(next(policy.model.parameters())).__name__ == "DTensor"
        arrays, values = policy.state()
        if accelerator.is_main_process:
            np.savez(out / "sharded.npz", **arrays_of(arrays))
            np.savez(out / "sent.npz", **recorder.sent[-1])
            (out / "sharded.json").write_text(json.dumps({"told": told, "sent": len(recorder.sent)}))
            np.savez(out / "state.npz", **arrays)
        accelerator.wait_for_everyone()
        whole = dict(np.load(out / "state.npz"))
        other = Policy(
            load(agent), settings("clipped", rows=6), 1, accelerator, Served(server.url, transfer=Recorder())
        )
        other.load(whole, values)
        kept = other.state()[0]
        both = []
        for one in (policy, other):
            one.learn(written(one.lm), "clipped")
            both.append(one.state()[0])
        if accelerator.is_main_process:
            found = {
                "kept": all(np.array_equal(whole[name], kept[name]) for name in whole),
                "apart": max(float(np.abs(both[0][name] - both[1][name]).max()) for name in arrays_of(both[0])),
                "went": max(float(np.abs(both[0][name] - whole[name]).max()) for name in arrays_of(both[0])),
            }
            (out / "carried.json").write_text(json.dumps(found))


def main():
    torch.set_num_threads(1)
    out, agent, environment = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    assert accelerator.num_processes == 2
    for how in ("clipped", "weighted"):
        for mean in ("token", "text"):
            policy, told = learned(agent, how, mean, 6, accelerator)
            np.savez(out / f"{how}.{mean}.{rank}.npz", **{n: p.detach() for n, p in policy.lm.model.named_parameters()})
            (out / f"{how}.{mean}.{rank}.json").write_text(json.dumps(told))
    prompts = [policy.lm.prompt("", text) for text in PROMPTS]
    drawn, likeliest = policy.write(prompts, EACH), policy.likeliest(prompts)
    found = {"drawn": drawn.texts(policy.lm), "likeliest": likeliest.texts(policy.lm)}
    (out / f"texts.{rank}.json").write_text(json.dumps(found))
    asked = request(agent, environment)
    whole = coevolve(out / "whole", Toy(), asked, accelerator=accelerator)
    cut = cut_off(out / "cut", asked, accelerator)
    told = {name: summary.model_dump(mode="json") for name, summary in (("whole", whole), ("cut", cut))}
    (out / f"runs.{rank}.json").write_text(json.dumps(told))
    sharded(agent, accelerator, out)
    accelerator.end_training()


if __name__ == "__main__":
    main()
