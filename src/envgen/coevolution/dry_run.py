"""What a run of the co-evolution would do and need: its steps, an estimate of memory and time, and the commands.

Nothing is loaded but configs and tokenizers, so that the estimate of a 70B model needs no GPU. The memory is computed
from the shapes of the models; the time assumes the speeds that are constants here. Neither has been measured.
"""

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from .environment import STATIC_BATCH, STATIC_VARIATIONS
from .language_model import LanguageModel, model_config
from .model_io import reading_model
from .registry import PROPOSERS
from .settings import EnvironmentSettings, ModelSize, PolicySettings
from .tasks import Domain, Task
from .train import CoevolveRequest, effective_agent_settings
from .vllm import serve_command

GB = 1e9
FLOAT32_BYTES = 4
CHARS_PER_TOKEN = 4  # where there is no tokenizer yet
SAMPLE_TASKS = 32  # whose prompts are measured
MIN_SHARDED_GPUS = 4
# Assumptions about one GPU, those of an H100. The times are proportional to them.
TRAIN_FLOPS = 0.35 * 990e12  # bfloat16 operations per second in updates
MEMORY_BANDWIDTH = 2.0e12  # bytes per second: each generated token of a batch reads all weights
SECONDS_PER_TOKEN = 0.03  # of a batch in this process, whatever the size of the model


@dataclass(frozen=True)
class ModelShape:
    """The size of a language model, as far as memory depends on it."""

    num_parameters: int
    num_layers: int
    width: int
    mlp_width: int
    vocab_size: int
    kv_width: int  # of keys and values together, in one layer
    linear_sizes: tuple[tuple[int, int], ...]  # inputs and outputs of the layers that get adapters

    @classmethod
    def from_config(cls, config: Any) -> "ModelShape":
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config)
        text, output = config.get_text_config(), model.get_output_embeddings()
        heads = text.num_attention_heads
        head_size = getattr(text, "head_dim", None) or text.hidden_size // heads
        kv_heads = getattr(text, "num_key_value_heads", None) or heads
        linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear) and module is not output]
        return cls(
            sum(parameter.numel() for parameter in model.parameters()), text.num_hidden_layers, text.hidden_size,
            getattr(text, "intermediate_size", None) or 4 * text.hidden_size, text.vocab_size,
            2 * kv_heads * head_size, tuple((layer.in_features, layer.out_features) for layer in linear),
        )  # fmt: skip

    def num_adapter_parameters(self, rank: int) -> int:
        return sum(rank * (inputs + outputs) for inputs, outputs in self.linear_sizes)

    def activation_bytes(self, num_bytes: int) -> int:
        """What the backward pass needs of one token, without the output layer: about 10 vectors of the layer's width
        and 4 of that of its feed-forward part."""
        return self.num_layers * (10 * self.width + 4 * self.mlp_width) * num_bytes

    def logits_bytes(self, num_bytes: int) -> int:
        """For one token of a completion: logits, and log-probabilities, probabilities and gradients in float32."""
        return self.vocab_size * (num_bytes + 4 * FLOAT32_BYTES)


@dataclass(frozen=True)
class Lengths:
    """Mean lengths of sequences in tokens, if every completion is as long as it may be."""

    prompt: int
    completion: int  # in tasks of several turns, all turns with the observations between them
    turns: int
    is_estimate: bool  # from the numbers of characters, without a tokenizer
    longest: int = 0  # of all measured sequences; in tasks of several turns, those of an agent that fails count as well

    @property
    def total(self) -> int:
        return self.prompt + self.completion


@dataclass(frozen=True)
class PolicyMemory:
    """Bytes on each training GPU for one policy."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    update: float  # activations and logits of one microbatch
    generation: float  # KV cache and logits

    @property
    def states(self) -> float:
        """What is always held."""
        return self.weights + self.gradients + self.optimizer + self.reference

    @property
    def peak(self) -> float:
        """The most that is needed in addition to the states."""
        return max(self.update, self.generation)


def load_shape(path: str) -> tuple[ModelShape, Any]:
    """The shape and the tokenizer of a model, from a folder or the Hugging Face Hub."""
    with reading_model("read the config of", path):
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        return ModelShape.from_config(config), AutoTokenizer.from_pretrained(path, trust_remote_code=False)


def measure_lengths(domain: Domain, settings: PolicySettings, tokenizer: Any) -> Lengths:
    """The lengths of the agent's sequences over sampled tasks."""
    rng = np.random.default_rng(0)
    lm: Any = LanguageModel(None, tokenizer) if tokenizer is not None else None  # pyright: ignore[reportArgumentType]

    def count(text: str) -> int:
        return len(lm.encode_observation(text)) if lm else -(-len(text) // CHARS_PER_TOKEN)

    prompts, completions, turns, longest = [], [], [], 0
    for _ in range(SAMPLE_TASKS):
        task = domain.make_task(domain.sample(rng))
        prompts.append(len(lm.encode_prompt(domain.instructions, task.prompt)) if lm else count(task.prompt))
        replies = [domain.oracle_reply(task), *(domain.wrong_replies(task) if domain.is_multi_turn else ())]
        lengths = []
        for reply in replies:
            observations = _observations(domain, task, reply)
            num_turns = len(observations) + 1
            lengths.append((num_turns, num_turns * settings.max_new_tokens + sum(map(count, observations))))
        turns.append(lengths[0][0])
        completions.append(lengths[0][1])
        longest = max(longest, prompts[-1] + max(length for _, length in lengths))
    means = (math.ceil(np.mean(values)) for values in (prompts, completions, turns))
    return Lengths(*means, is_estimate=lm is None, longest=longest)


def _observations(domain: Domain, task: Task, reply: str) -> list[str]:
    """What the environment answers to the turns of a reply."""
    if not domain.is_multi_turn:
        return []
    episode = domain.start_episode(task)
    answers = (episode.step(turn) for turn in reply.split("\n"))
    return list(itertools.takewhile(lambda answer: answer is not None, answers))  # pyright: ignore[reportReturnType]


@dataclass(frozen=True)
class Layout:
    """How a number of GPUs is used."""

    num_training_gpus: int
    is_sharded: bool  # by FSDP; servers generate
    num_models: int = 2  # the agent and, if the proposer needs one, the environment

    @property
    def num_shards(self) -> int:
        """GPUs that weights, gradients and moments are divided over."""
        return self.num_training_gpus if self.is_sharded else 1

    @property
    def is_data_parallel(self) -> bool:
        """Whether gradients are averaged over processes, from buffers of their own."""
        return self.num_training_gpus > 1 and not self.is_sharded

    def describe(self) -> str:
        models, generate = ("both models", "2 generate") if self.num_models == 2 else ("the model", "1 generates")
        if self.is_sharded:
            return f"{self.num_training_gpus} GPUs train, each with a share of {models} (FSDP2), and {generate}"
        if self.num_training_gpus > 1:
            return f"{self.num_training_gpus} GPUs, each with {models} (data parallel)"
        return f"one GPU with {models}"


def choose_layout(num_gpus: int, num_models: int, uses_adapters: bool) -> Layout:
    """Models are sharded if there are enough GPUs and none of them has adapters, which FSDP does not support."""
    is_sharded = num_gpus >= MIN_SHARDED_GPUS and not uses_adapters
    return Layout(num_gpus - num_models if is_sharded else num_gpus, is_sharded, num_models)


def policy_memory(
    shape: ModelShape, settings: PolicySettings, lengths: Lengths, batch: int, group: int, dtype_bytes: int,
    layout: Layout, is_trained: bool = True, update_batch: int | None = None,
) -> PolicyMemory:  # fmt: skip
    """The memory of one policy on each training GPU.

    Args:
        batch: Completions that are generated together in one process.
        group: Completions of each prompt.
        dtype_bytes: Of each weight as it is loaded.
        is_trained: Whether the policy is updated.
        update_batch: Completions of an update, each with a prompt of its own, if it does not learn from the generated
            groups.
    """
    compute_bytes = 2 if layout.is_sharded else dtype_bytes  # FSDP computes in bfloat16
    size = shape.num_parameters
    weights, trained, trained_bytes = size * dtype_bytes, size, dtype_bytes
    reference = float(weights) if settings.kl_coef and settings.lora_rank is None else 0.0
    if settings.lora_rank is not None:
        trained, trained_bytes = shape.num_adapter_parameters(settings.lora_rank), FLOAT32_BYTES
        weights += trained * trained_bytes
    per_prompt, in_update = (group, batch) if update_batch is None else (1, update_batch)
    sequences = min(in_update, max(per_prompt, settings.microbatch_size // per_prompt * per_prompt))
    tokens = sequences * lengths.completion + sequences // per_prompt * lengths.prompt
    update = tokens * shape.activation_bytes(compute_bytes)
    update += sequences * lengths.completion * shape.logits_bytes(compute_bytes)
    cache = batch * lengths.total * shape.num_layers * shape.kv_width * dtype_bytes
    generation = cache + 3 * batch * shape.vocab_size * FLOAT32_BYTES if not layout.is_sharded else 0
    if not is_trained:
        return PolicyMemory(size * dtype_bytes / layout.num_shards, 0, 0, 0, 0, generation)
    return PolicyMemory(
        weights=weights / layout.num_shards,
        gradients=trained * trained_bytes * (2 if layout.is_data_parallel else 1) / layout.num_shards,
        optimizer=2 * trained * trained_bytes / layout.num_shards,
        reference=reference,
        update=update,
        generation=generation,
    )


def count_steps(request: CoevolveRequest) -> int:
    return math.ceil(request.plan.rollouts / (request.plan.tasks_per_step * request.agent_settings.num_generations))


def describe_plan(request: CoevolveRequest, domain: Domain, lengths: Lengths) -> list[str]:
    plan, agent, steps = request.plan, request.agent_settings, count_steps(request)
    turns = f", in about {lengths.turns} turns" if domain.is_multi_turn else ""
    approx = "about " if lengths.is_estimate else ""
    return [
        f"{domain.name}, proposer {request.proposer}, seed {request.seed}: {plan.rollouts:,} completions in {steps:,} "
        "steps",
        f"each step: {plan.tasks_per_step} tasks, {agent.num_generations} completions of each, "
        f"an update of the agent over {agent.epochs} epoch{'s' if agent.epochs > 1 else ''}",
        f"sequences of the agent: a prompt of {approx}{lengths.prompt:,} tokens and at most {approx}"
        f"{lengths.completion:,} more{turns}",
        f"evaluation on {plan.num_eval_tasks:,} held-out tasks every {plan.eval_every} steps",
    ]


def describe_memory(memories: Sequence[tuple[str, ModelShape, PolicyMemory]], gpu_memory: float) -> list[str]:
    """A table of the memory on each training GPU, and whether it is enough."""
    lines = [
        f"{'GB on each training GPU':28}{'weights':>9}{'gradients':>11}{'Adam':>8}{'reference':>11}{'update':>9}"
        f"{'generation':>12}"
    ]
    for role, shape, m in memories:
        cells = (m.weights, m.gradients, m.optimizer, m.reference, m.update, m.generation)
        numbers = "".join(f"{value / GB:{w}.1f}" for value, w in zip(cells, (9, 11, 8, 11, 9, 12), strict=True))
        lines.append(f"{role + f' ({shape.num_parameters / GB:.2f}B parameters)':28}{numbers}")
    total = sum(m.states for _, _, m in memories) + max(m.peak for _, _, m in memories)
    verdict = "fits" if total <= 0.9 * gpu_memory * GB else "does not fit"
    lines.append(f"together at most {total / GB:.1f} GB, which {verdict} into {gpu_memory:g} GB with 10% to spare")
    if verdict == "does not fit":
        lines.append(
            "to reduce it: lower --agent.microbatch-size and --environment.microbatch-size; train adapters "
            "(--agent.lora-rank 16 --environment.lora-rank 16) of models loaded with --dtype bfloat16; use more GPUs"
        )
    return lines


def seconds_per_token(shape: ModelShape, dtype_bytes: int) -> float:
    """The time in which a batch generates one token of each completion."""
    return max(SECONDS_PER_TOKEN, shape.num_parameters * dtype_bytes / MEMORY_BANDWIDTH)


def estimate_hours(
    request: CoevolveRequest, shape: ModelShape, lengths: Lengths, layout: Layout, dtype_bytes: int
) -> float:
    """Hours of generation and updates of the agent, which take most of the time."""
    plan, agent, steps = request.plan, request.agent_settings, count_steps(request)
    batches_per_evaluation = math.ceil(plan.num_eval_tasks / (plan.tasks_per_step * agent.num_generations))
    num_batches = steps + (steps / plan.eval_every + 1) * batches_per_evaluation
    tokens = num_batches * lengths.turns * agent.max_new_tokens
    generation = tokens * seconds_per_token(shape, dtype_bytes)
    passes = 3 if agent.lora_rank is None else 2  # the gradients of frozen weights are not computed
    operations = 2 * shape.num_parameters * lengths.total * plan.rollouts
    several_steps = agent.epochs * agent.num_minibatches > 1  # then the initial log-probabilities are computed first
    operations *= agent.epochs * passes + several_steps + bool(agent.kl_coef)
    return (generation + operations / TRAIN_FLOPS / layout.num_training_gpus) / 3600


def context_length(lengths: Sequence[Lengths]) -> int:
    """The context of a server: a power of two that leaves room for the longest sequences, and for sequences twice as
    long as the mean ones."""
    return 1 << math.ceil(math.log2(max(max(2 * each.total, each.longest) for each in lengths)))


def commands(
    argv: Sequence[str], models: Mapping[str, str], layout: Layout, max_model_len: int,
    servers: Mapping[str, str | None],
) -> list[str]:  # fmt: skip
    """The commands that start the servers and the run.

    Args:
        argv: What follows `envgen coevolve` on the command line, without the options of the dry run.
        models: The models that the run needs, by role: agent, environment.
        max_model_len: The context of the servers, in tokens.
        servers: The addresses that `argv` gives to servers, by role.
    """
    arguments = shlex.join(argv)
    if layout.num_training_gpus == 1:
        return [f"envgen coevolve {arguments}".rstrip()]
    training_gpus = ",".join(map(str, range(layout.num_training_gpus)))
    if not layout.is_sharded:
        return [
            f"accelerate launch --multi_gpu --mixed_precision bf16 --num_processes {layout.num_training_gpus} "
            f"-m envgen coevolve {arguments}".rstrip()
        ]
    serve_commands, options = [], []
    ports = {role: urlsplit(address).port or 8000 for role, address in servers.items() if address}
    for k, (role, model) in enumerate(models.items()):
        if role not in ports:
            ports[role] = next(port for port in itertools.count(8000 + k) if port not in ports.values())
            options.append(f"--{role}-server http://localhost:{ports[role]}")
        port, gpu = ports[role], layout.num_training_gpus + k
        serve = serve_command(model, port, f"--max-model-len {max_model_len} ")
        serve_commands.append(f"CUDA_VISIBLE_DEVICES={gpu} {serve}")
    config = Path(__file__).parent / "launch" / "fsdp.yaml"
    return [
        *serve_commands,
        f"CUDA_VISIBLE_DEVICES={training_gpus} accelerate launch --config_file {shlex.quote(str(config))} "
        f"--num_processes {layout.num_training_gpus} -m envgen coevolve {' '.join([arguments, *options])}",
    ]


def describe_dry_run(
    domain: Domain, request: CoevolveRequest, model_size: ModelSize | None, dtype: str, num_gpus: int,
    gpu_memory: float, argv: Sequence[str], servers: Mapping[str, str | None],
) -> str:  # fmt: skip
    """Everything that `envgen coevolve --dry-run` prints.

    Args:
        model_size: The size of the small models, if they are pretrained first.
        gpu_memory: GB of each GPU.
        argv, servers: See `commands`.
    """
    agent_settings = effective_agent_settings(request)
    request = request.model_copy(update={"agent_settings": agent_settings})
    if model_size is not None:
        shape = ModelShape.from_config(model_config(model_size.vocab_size, model_size))
        lengths = measure_lengths(domain, agent_settings, None)
        return "\n".join([
            *describe_plan(request, domain, lengths),
            f"both models are small ones of about {shape.num_parameters:,} parameters, which are pretrained first; "
            "they need less than 1 GB of memory and no GPU",
            "", *commands(argv, {}, Layout(1, False), 0, servers),
        ])  # fmt: skip
    agent_shape, tokenizer = load_shape(request.agent)
    lengths = measure_lengths(domain, agent_settings, tokenizer)
    all_lengths, environment = [lengths], request.environment_settings
    models, ranks = {"agent": request.agent}, [agent_settings.lora_rank]
    entry = PROPOSERS[request.proposer]
    if entry.needs_model:
        models["environment"] = request.environment
        if entry.trains_model:
            ranks.append(environment.lora_rank)
    layout = choose_layout(num_gpus, len(models), uses_adapters=any(rank is not None for rank in ranks))
    dtype_bytes = FLOAT32_BYTES if dtype == "float32" or layout.is_sharded else 2
    tasks_per_process = math.ceil(request.plan.tasks_per_step / layout.num_training_gpus)
    memories = [(
        "agent", agent_shape,
        policy_memory(
            agent_shape, agent_settings, lengths, tasks_per_process * agent_settings.num_generations,
            agent_settings.num_generations, dtype_bytes, layout,
        ),
    )]  # fmt: skip
    if "environment" in models:
        environment_shape = agent_shape if request.environment == request.agent else load_shape(request.environment)[0]
        all_lengths.append(environment_lengths(domain, environment))
        specs_per_process = tasks_per_process
        if request.proposer == "static":  # it generates its specs in larger batches, before the first step
            num_specs = min(STATIC_BATCH, STATIC_VARIATIONS * request.plan.num_base_tasks)
            specs_per_process = math.ceil(num_specs / layout.num_training_gpus)
        update_batch = None
        if entry.options.get("method") == "rwr":  # reward-weighted regression, on new specs and on earlier ones
            num_fresh = request.plan.fresh_fraction * request.plan.tasks_per_step
            update_batch = math.ceil(num_fresh * (1 + environment.replay_ratio) / layout.num_training_gpus)
        memories.append((
            "environment", environment_shape,
            policy_memory(
                environment_shape, environment, all_lengths[-1], specs_per_process, request.plan.num_variations,
                dtype_bytes, layout, entry.trains_model, update_batch,
            ),
        ))  # fmt: skip
    hours = estimate_hours(request, agent_shape, lengths, layout, dtype_bytes)
    return "\n".join([
        *describe_plan(request, domain, lengths), "",
        layout.describe(),
        *describe_memory(memories, gpu_memory),
        f"about {hours:,.1f} hours on H100 GPUs, if they reach {TRAIN_FLOPS / 1e12:.0f} TFLOP/s in updates and "
        f"{seconds_per_token(agent_shape, dtype_bytes):.2g} s per token of a batch in generation",
        "Memory and time are computed, not measured.", "",
        *commands(argv, models, layout, context_length(all_lengths), servers),
    ])  # fmt: skip


def environment_lengths(domain: Domain, settings: EnvironmentSettings) -> Lengths:
    """The lengths of the environment's sequences; its prompt holds the instructions, success rates and a spec."""
    rng = np.random.default_rng(0)
    spec = max(len(domain.sample(rng).text) for _ in range(SAMPLE_TASKS))
    prompt = (len(domain.spec_prompt) + 4 * spec) // CHARS_PER_TOKEN
    return Lengths(prompt, settings.max_new_tokens, 1, is_estimate=True)
