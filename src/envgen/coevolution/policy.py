"""A language model that generates completions and is updated from their advantages: agent and environment alike.

Under `accelerate launch` every process executes the same run and makes the same decisions; generation and updates are
divided between them. Plain, data-parallel and sharded (FSDP2) models share this interface, except that a sharded model
cannot generate by itself: a vLLM server does (vllm.py).
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, broadcast_object_list, gather_object
from torch import Tensor
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor

from envgen.errors import NonFiniteLossError, is_out_of_memory
from envgen.imports import require_extra

from .episodes import StartEpisode
from .language_model import LanguageModel, ModelError
from .lora import adapters_disabled, add_adapters, trainable_names
from .losses import LossType, completion_logps, token_losses, token_weights
from .processes import start_accelerator
from .sampling import Completions, Conversation, HfSampler, Sampler
from .settings import PolicySettings

MAX_CHUNK_TOKENS = 16_384  # tokens, with padding, of the completions of one forward pass
METRICS = ("loss", "kl", "approx_kl", "clipfrac", "entropy", "grad_norm")
FULL_STATE = StateDictOptions(full_state_dict=True, cpu_offload=True)  # gathers sharded models
ADAPTER_STATE = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True, strict=False)


@dataclass(frozen=True)
class TrainBatch:
    """G completions of each of N prompts, and an advantage (or regression weight) for each of them, (N x G,)."""

    prompts: Sequence[Sequence[int]]
    num_generations: int
    completions: Completions  # (N x G, T)
    advantages: Tensor

    @classmethod
    def from_texts(
        cls, lm: LanguageModel, prompts: Sequence[Sequence[int]], texts: Sequence[str], weights: Sequence[float]
    ) -> "TrainBatch":
        """One given completion per prompt."""
        completions = Completions.from_token_lists([lm.encode_completion(text) for text in texts], lm.pad_token_id)
        return cls(prompts, 1, completions, torch.tensor(weights, dtype=torch.float32))

    @property
    def num_tokens(self) -> int:
        """The tokens of all sequences: prompts, once for each of their completions, and completions."""
        return self.num_generations * sum(map(len, self.prompts)) + int(self.completions.mask.sum())

    def completion_indices(self, prompt_indices: np.ndarray) -> Tensor:
        """The rows of the completions of some prompts."""
        indices = prompt_indices[:, None] * self.num_generations + np.arange(self.num_generations)
        return torch.from_numpy(indices.reshape(-1))


def check_launch(settings: PolicySettings, accelerator: Accelerator, sampler: Sampler) -> None:
    """Raise an error if a policy with these settings cannot be trained by these processes, or cannot generate."""
    kind = accelerator.distributed_type
    if kind == DistributedType.FSDP and isinstance(sampler, HfSampler):
        raise ModelError(
            "a model sharded by FSDP cannot generate by itself: each process would wait for the others at "
            "different tokens; pass the address of a vLLM server, or launch without FSDP"
        )
    if kind == DistributedType.FSDP and not accelerator.is_fsdp2:
        raise ModelError("only version 2 of FSDP is supported: set fsdp_version: 2")
    if kind == DistributedType.FSDP and settings.lora_rank is not None:
        raise ModelError("adapters (lora_rank) are not supported with FSDP; launch data-parallel, without FSDP")
    if kind in (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
        raise ModelError(f"{kind.value} is not supported: launch with FSDP (launch/fsdp.yaml) or data-parallel")
    if accelerator.gradient_accumulation_steps != 1:
        raise ModelError(
            "gradient_accumulation_steps of accelerate must be 1: microbatch_size divides batches, and gradients are "
            "accumulated over them"
        )
    if settings.lora_rank is not None:
        require_extra("lora", "lora_rank")
    sampler.check()


@contextmanager
def _explaining_memory(activity: str, remedy: str) -> Iterator[None]:
    """Context for what needs much memory: if there is too little, a ModelError says what to change."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise ModelError(f"out of memory while {activity}; {remedy}") from error


class LanguageModelPolicy:
    def __init__(
        self, lm: LanguageModel, settings: PolicySettings, seed: int, accelerator: Accelerator | None = None,
        sampler: Sampler | None = None,
    ):  # fmt: skip
        self.settings, self.accelerator = settings, accelerator or start_accelerator()
        self.sampler = sampler or HfSampler()
        check_launch(settings, self.accelerator, self.sampler)
        self.device = self.accelerator.device
        lm.model.eval()  # no dropout: train on the distribution that was sampled from
        self.ref_model: Any = None  # with adapters, the initial model is the model without them
        with _explaining_memory(
            f"preparing a model on {self.device}",
            "set lora_rank, kl_coef 0 or the data type bfloat16, or use a smaller model",
        ):
            if settings.lora_rank is not None:
                add_adapters(lm.model, settings.lora_rank, settings.lora_alpha, seed)
            elif settings.kl_coef:
                self.ref_model = copy.deepcopy(lm.model).requires_grad_(False).to(self.device)
            parameters = [parameter for parameter in lm.model.parameters() if parameter.requires_grad]
            optimizer = torch.optim.AdamW(
                parameters, settings.learning_rate, betas=(0.9, 0.99), weight_decay=settings.weight_decay
            )
            self.model, self.optimizer = self.accelerator.prepare(lm.model, optimizer)
        self.lm = LanguageModel(self.accelerator.unwrap_model(self.model), lm.tokenizer)
        self.rng = torch.Generator(self.device).manual_seed(seed + 1_000_003 * self.accelerator.process_index)
        self.shuffle_rng = np.random.default_rng(seed)
        self.sampler.sync_weights(self.model, self.accelerator)

    # ------------------------------------------------------------------------------------------------- generation

    def generate(self, prompts: Sequence[Sequence[int]], num_generations: int = 1) -> Completions:
        """Sample `num_generations` completions of each prompt."""
        return self._generate(prompts, num_generations, self.rng)

    def generate_greedy(self, prompts: Sequence[Sequence[int]]) -> Completions:
        """The greedy completion of each prompt."""
        return self._generate(prompts, 1, None)

    def _generate(
        self, prompts: Sequence[Sequence[int]], num_generations: int, rng: torch.Generator | None
    ) -> Completions:
        completions, is_real = self._generate_local(prompts, num_generations, rng)
        if self.accelerator.num_processes == 1:
            return completions
        rows = zip(completions.ids.cpu(), completions.mask.cpu(), is_real, strict=True)
        gathered: Any = gather_object([ids[mask].tolist() for ids, mask, real in rows if real])
        return Completions.from_token_lists(gathered, self.lm.pad_token_id)

    def play_episodes(
        self, prompts: Sequence[Sequence[int]], start_episode: StartEpisode, num_generations: int = 1,
        greedy: bool = False,
    ) -> tuple[Completions, list[str]]:  # fmt: skip
        """Play `num_generations` episodes from each prompt; returns their sequences and texts, prompt by prompt."""
        indices, _ = self._local_indices(len(prompts))
        episodes = [start_episode(int(k)) for k in indices for _ in range(num_generations)]
        rng = None if greedy else self.rng
        completions, is_real = self._generate_local(prompts, num_generations, rng, episodes)
        texts = [episode.text for episode in episodes]
        if self.accelerator.num_processes == 1:
            return completions, texts
        rows = zip(
            completions.ids.cpu(), completions.mask.cpu(), completions.loss_mask.cpu(), texts, is_real, strict=True
        )
        gathered: Any = gather_object(
            [(ids[mask].tolist(), generated[mask].tolist(), text) for ids, mask, generated, text, real in rows if real]
        )
        token_lists, flags, texts = zip(*gathered, strict=True)
        completions = Completions.from_token_lists(token_lists, self.lm.pad_token_id).with_generated(flags)
        return completions, list(texts)

    def _generate_local(
        self, prompts: Sequence[Sequence[int]], num_generations: int, rng: torch.Generator | None,
        conversations: Sequence[Conversation] | None = None,
    ) -> tuple[Completions, np.ndarray]:  # fmt: skip
        """The completions of this process, and which of them are not padding."""
        s = self.settings
        indices, is_real = self._local_indices(len(prompts))
        local_prompts = [prompts[k] for k in indices]
        with _explaining_memory(
            f"generating {len(indices) * num_generations:,} completions together",
            "lower max_new_tokens, num_generations, num_variations or tasks_per_step, or use a server (vLLM)",
        ):
            completions = self.sampler.generate(
                self.lm, local_prompts, num_generations, s.max_new_tokens, rng, s.temperature, conversations
            )
        return completions, np.repeat(is_real, num_generations)

    def _local_indices(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The items of this process, and which of them are not padding.

        All processes get equally many, so that they stay in step; the last ones repeat items as padding.
        """
        world_size, share = self.accelerator.num_processes, -(-count // self.accelerator.num_processes)
        local = slice(self.accelerator.process_index * share, (self.accelerator.process_index + 1) * share)
        indices = np.resize(np.arange(count), share * world_size)
        return indices[local], (np.arange(share * world_size) < count)[local]

    # ----------------------------------------------------------------------------------------------------- update

    def update(self, batch: TrainBatch, loss_type: LossType) -> dict[str, float]:
        """Train on a batch; returns the mean of METRICS over the gradient steps, and their number and tokens."""
        with _explaining_memory(
            f"updating a model on {len(batch.completions.ids):,} sequences",
            "lower microbatch_size, max_new_tokens, num_generations or replay_ratio, or set lora_rank",
        ):
            return self._update(batch, loss_type)

    def _update(self, batch: TrainBatch, loss_type: LossType) -> dict[str, float]:
        s, (indices, is_real) = self.settings, self._local_indices(len(batch.prompts))
        # With a single gradient step the updated model is the one that generated, so old_logps equal logps.
        old_logps = self._logps(batch, indices, loss_type) if s.epochs * s.num_minibatches > 1 else None
        ref_logps = self._ref_logps(batch, indices, loss_type) if s.kl_coef else None
        num_minibatches = min(s.num_minibatches, len(indices))
        permutations = (self.shuffle_rng.permutation(len(indices)) for _ in range(s.epochs))
        minibatches = (
            minibatch for permutation in permutations for minibatch in np.array_split(permutation, num_minibatches)
        )
        totals, num_steps = np.zeros(len(METRICS)), 0
        for minibatch in minibatches:
            selected = indices[minibatch], is_real[minibatch]
            metrics = self._gradient_step(batch, *selected, old_logps, ref_logps, loss_type)
            if metrics is None:
                break
            totals, num_steps = totals + metrics, num_steps + 1
        self.sampler.sync_weights(self.model, self.accelerator)
        means = (totals / max(1, num_steps)).tolist()
        num_tokens = round(batch.num_tokens * num_steps / num_minibatches)
        return {
            **dict(zip(METRICS, means, strict=True)), "gradient_steps": float(num_steps), "num_tokens": num_tokens
        }  # fmt: skip

    def _gradient_step(
        self, batch: TrainBatch, indices: np.ndarray, is_real: np.ndarray, old_logps: Tensor | None,
        ref_logps: Tensor | None, loss_type: LossType,
    ) -> np.ndarray | None:  # fmt: skip
        """One gradient step on the completions of some prompts; returns METRICS, or None beyond `target_kl`."""
        s, group_size = self.settings, batch.num_generations
        mask = batch.completions.loss_mask[batch.completion_indices(indices)].cpu()
        mask = mask & torch.from_numpy(np.repeat(is_real, group_size))[:, None]
        weights = token_weights(mask.to(self.device), s.loss_agg, self._all_reduce)
        sums = torch.zeros(len(METRICS) - 1, device=self.device)
        self.optimizer.zero_grad()
        prompts_per_pass = max(1, s.microbatch_size // group_size)
        for start in range(0, len(indices), prompts_per_pass):
            microbatch = indices[start : start + prompts_per_pass]
            is_last = start + prompts_per_pass >= len(indices)
            with nullcontext() if is_last else self._no_sync():
                losses, metrics = self._token_losses(batch, microbatch, old_logps, ref_logps, loss_type)
                weight = weights[start * group_size : (start + len(microbatch)) * group_size, : losses.shape[1]]
                loss = (losses * weight).sum()
                self.accelerator.backward(loss * self.accelerator.num_processes)  # gradients are averaged over them
            sums += torch.stack([loss.detach(), *((metric * weight).sum() for metric in metrics)])
        sums = self._all_reduce(sums)
        if s.target_kl is not None and sums[METRICS.index("approx_kl")] > s.target_kl:
            return None
        norm: Any = self.accelerator.clip_grad_norm_(self.model.parameters(), s.max_grad_norm)
        metrics = np.array([*sums.tolist(), float(norm.full_tensor() if isinstance(norm, DTensor) else norm)])
        if not np.isfinite(metrics).all():
            values = ", ".join(f"{name} {value:.3g}" for name, value in zip(METRICS, metrics, strict=True))
            raise NonFiniteLossError(f"the loss is not finite ({values}); lower learning_rate or max_grad_norm")
        self.optimizer.step()
        return metrics

    def _token_losses(
        self, batch: TrainBatch, indices: np.ndarray, old_logps: Tensor | None, ref_logps: Tensor | None,
        loss_type: LossType,
    ) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
        """The loss of each token of the completions of some prompts, and METRICS without `loss` and `grad_norm`."""
        s, rows = self.settings, batch.completion_indices(indices)
        logps, entropy = self._forward(self.model, batch, indices, self._temperature(loss_type))
        old = logps.detach() if old_logps is None else old_logps[rows, : logps.shape[1]]
        ref = None if ref_logps is None else ref_logps[rows, : logps.shape[1]]
        advantages = batch.advantages[rows, None].to(self.device)
        return token_losses(loss_type, logps, old, ref, advantages, entropy, s.clip_coef, s.kl_coef)

    def _ref_logps(self, batch: TrainBatch, indices: np.ndarray, loss_type: LossType) -> Tensor:
        """The log-probabilities under the initial model, as in `_logps`."""
        model, adapters = self.ref_model, nullcontext()
        if model is None:
            model, adapters = self.lm.model, adapters_disabled(self.lm.model)
        with adapters, self.accelerator.autocast():
            return self._logps(batch, indices, loss_type, model)

    @torch.no_grad()
    def _logps(self, batch: TrainBatch, indices: np.ndarray, loss_type: LossType, model: Any = None) -> Tensor:
        """Log-probabilities of the completions of some prompts under the current model or `model`.

        The result has a row for each completion of the batch; those of other prompts are zeros.
        """
        model = self.model if model is None else model
        prompts_per_pass = max(1, self.settings.microbatch_size // batch.num_generations)
        out = torch.zeros(batch.completions.ids.shape, device=self.device)
        for start in range(0, len(indices), prompts_per_pass):
            microbatch = indices[start : start + prompts_per_pass]
            logps, _ = self._forward(model, batch, microbatch, self._temperature(loss_type))
            out[batch.completion_indices(microbatch), : logps.shape[1]] = logps
        return out

    def _forward(self, model: Any, batch: TrainBatch, indices: np.ndarray, temperature: float) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies of the completions of some prompts."""
        rows = batch.completion_indices(indices)
        c = batch.completions
        # All processes must call a distributed model equally often: twice, unless all completions have one token.
        length = max(min(2, c.mask.shape[1]), int(c.mask[rows].any(0).sum()))
        ids, mask, loss_mask = (x[rows, :length].to(self.device) for x in (c.ids, c.mask, c.loss_mask))
        prompts = [batch.prompts[k] for k in indices]
        # the processes would divide their completions differently
        max_chunk_tokens = MAX_CHUNK_TOKENS if self.accelerator.num_processes == 1 else None
        return completion_logps(
            model, prompts, batch.num_generations, ids, mask, self.lm.pad_token_id, temperature, loss_mask,
            max_chunk_tokens,
        )  # fmt: skip

    def _temperature(self, loss_type: LossType) -> float:
        """The policy gradient is that of the sampling distribution; regression trains the model as it is."""
        return self.settings.temperature if loss_type == "ppo_clip" else 1.0

    # -------------------------------------------------------------------------------------------------- processes

    def broadcast_bool(self, value: bool) -> bool:
        """The value of the main process in all processes: clocks, for example, differ between them."""
        if self.accelerator.num_processes > 1:
            value = bool(broadcast_object_list([value])[0])
        return value

    def _no_sync(self) -> AbstractContextManager[None]:
        """Accumulate gradients without averaging them over processes.

        FSDP must reduce gradients in each backward pass: afterwards a process holds only its own shard.
        """
        return nullcontext() if self.accelerator.is_fsdp2 else self.accelerator.no_sync(self.model)

    def _all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        total: Any = self.accelerator.reduce(tensor)
        return total

    # ------------------------------------------------------------------------------------------------------ state

    @property
    def _state_options(self) -> StateDictOptions:
        return FULL_STATE if self.settings.lora_rank is None else ADAPTER_STATE

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which `load` resumes exactly.

        All processes must call it; only the main process receives the weights.
        """
        weights: Any = get_model_state_dict(self.model, options=self._state_options)
        optimizer_state: Any = {}
        if self.optimizer.state:  # before the first update, torch would count a step with gradients of zero
            optimizer_state = get_optimizer_state_dict(
                self.model, self.optimizer.optimizer, options=self._state_options
            )
        if self.settings.lora_rank is not None:  # tied weights are not left out, although they are frozen
            names = trainable_names(self.lm.model)
            weights = {name: tensor for name, tensor in weights.items() if name in names}
        arrays = {f"model.{name}": _to_numpy(tensor) for name, tensor in weights.items()}
        for name, values in optimizer_state.get("state", {}).items():
            arrays |= {f"optimizer.{name}.{key}": _to_numpy(value) for key, value in values.items()}
        rng_states: Any = gather_object([self.rng.get_state().numpy()])
        arrays |= {f"rng.{rank}": rng_state for rank, rng_state in enumerate(rng_states)}
        return arrays, {"shuffle_rng": self.shuffle_rng.bit_generator.state}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        """Restore a whole state. All processes must call it."""
        saved, current = sum(name.startswith("rng.") for name in arrays), self.accelerator.num_processes
        if saved != current:
            raise ModelError(f"this checkpoint was saved by {saved} processes, not {current}; resume with {saved}")
        weights, optimizer_state = {}, {}
        for name, array in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = torch.from_numpy(array.copy())
            elif kind == "optimizer":
                parameter, _, key = rest.rpartition(".")
                optimizer_state.setdefault(parameter, {})[key] = torch.from_numpy(array.copy())
        if self.settings.lora_rank is not None and weights.keys() != trainable_names(self.lm.model):
            raise ModelError(
                "this checkpoint does not fit the adapters of the model; resume with the model that the run started "
                "from"
            )
        set_model_state_dict(self.model, weights, options=self._state_options)
        self.optimizer.state.clear()
        self.optimizer.optimizer.zero_grad()  # torch does not initialize an optimizer whose parameters have gradients
        if optimizer_state:  # there is none before the first update
            param_groups: Any = get_optimizer_state_dict(self.model, self.optimizer.optimizer)["param_groups"]
            set_optimizer_state_dict(
                self.model, self.optimizer.optimizer, {"state": optimizer_state, "param_groups": param_groups},
                options=replace(self._state_options, strict=False),  # parameters without gradients have no state
            )  # fmt: skip
        self.rng.set_state(torch.from_numpy(arrays[f"rng.{self.accelerator.process_index}"].copy()))
        self.shuffle_rng.bit_generator.state = values["shuffle_rng"]
        self.sampler.sync_weights(self.model, self.accelerator)


def _to_numpy(tensor: Any) -> np.ndarray:
    if not isinstance(tensor, Tensor):
        return np.asarray(tensor)
    tensor = tensor.detach().to("cpu", copy=True)
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # numpy has no bfloat16
