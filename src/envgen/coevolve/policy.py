"""A language model that writes texts and learns from what became of them: the agent's and the environment's alike.

Started by `accelerate launch`, every process goes through the same run and decides the same; only what costs time is
shared: each writes and learns its part. Plain, data-parallel and sharded models (FSDP) look the same from here, but
that a sharded one cannot draw for itself: a server does (vllm.py).
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, broadcast_object_list, gather_object
from torch import Tensor
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.tensor import DTensor

from .language_model import Lm, ModelError
from .losses import away, clipped, log_probs, weighted
from .sampling import Local, Samples, Writer
from .settings import Learning

How = Literal["clipped", "weighted"]
METRICS = ("loss", "kl", "moved", "clip_fraction", "entropy", "grad_norm")
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)  # also of a model spread over many processes


@dataclass(frozen=True)
class Written:
    """Texts (N x each, T) to N prompts, each with what it is worth (N x each,): an advantage or a weight."""

    prompts: Sequence[Sequence[int]]
    each: int
    samples: Samples
    worth: Tensor

    @classmethod
    def of(cls, lm: Lm, asked: Sequence[Sequence[int]], texts: Sequence[str], worth: Sequence[float]) -> "Written":
        """One given text to each prompt."""
        samples = Samples.of([lm.reply(text) for text in texts], lm.pad)
        return cls(asked, 1, samples, torch.tensor(worth, dtype=torch.float32))

    def rows(self, chosen: np.ndarray) -> Tensor:
        """Where the texts to some prompts are."""
        return torch.from_numpy((chosen[:, None] * self.each + np.arange(self.each)).reshape(-1))


class LossError(Exception):
    """A loss is not a number. The model is as it was before the gradient step."""


class Policy:
    def __init__(
        self, lm: Lm, settings: Learning, seed: int, accelerator: Accelerator | None = None,
        writer: Writer | None = None,
    ):  # fmt: skip
        self.settings, self.accelerator = settings, accelerator or Accelerator()
        self.writer = writer or Local()
        self._refuse_what_would_hang()
        self.device = self.accelerator.device
        lm.model.eval()  # nothing is dropped out: what is learned from is what was drawn
        self.reference = copy.deepcopy(lm.model).requires_grad_(False).to(self.device) if settings.kl else None
        optimiser = torch.optim.AdamW(
            lm.model.parameters(), settings.learning_rate, betas=(0.9, 0.99), weight_decay=settings.weight_decay
        )
        self.model, self.optimiser = self.accelerator.prepare(lm.model, optimiser)
        self.lm = Lm(self.accelerator.unwrap_model(self.model), lm.tokenizer)
        self.random = torch.Generator(self.device).manual_seed(seed + 1_000_003 * self.accelerator.process_index)
        self.shuffling = np.random.default_rng(seed)
        self.writer.follow(self.model, self.accelerator)

    def _refuse_what_would_hang(self) -> None:
        kind = self.accelerator.distributed_type
        if kind == DistributedType.FSDP and isinstance(self.writer, Local):
            raise ModelError(
                "a model that is sharded over processes (FSDP) cannot draw its texts itself: each process would wait "
                "for the others at other tokens; name a vLLM server for it, or leave FSDP out"
            )
        if kind == DistributedType.FSDP and not self.accelerator.is_fsdp2:
            raise ModelError("models are sharded by FSDP's second version alone: set fsdp_version: 2")
        if kind in (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
            raise ModelError(f"models are not trained by {kind.value}: launch with FSDP (launch/fsdp.yaml), or plainly")

    def agreed(self, answer: bool) -> bool:
        """What the main process answers, in all: what clocks say, and so on, may differ between them."""
        if self.accelerator.num_processes > 1:
            answer = bool(broadcast_object_list([answer])[0])
        return answer

    def write(self, prompts: Sequence[Sequence[int]], each: int = 1) -> Samples:
        """`each` texts to each prompt, drawn."""
        return self._write(prompts, each, self.random)

    def likeliest(self, prompts: Sequence[Sequence[int]]) -> Samples:
        """The likeliest text to each prompt."""
        return self._write(prompts, 1, None)

    def _write(self, prompts: Sequence[Sequence[int]], each: int, random: torch.Generator | None) -> Samples:
        s = self.settings
        mine, counts = self._mine(len(prompts))
        found = self.writer.write(self.lm, [prompts[k] for k in mine], each, s.longest, random, s.temperature)
        if self.accelerator.num_processes == 1:
            return found
        rows = np.repeat(counts, each)
        texts = [ids[there].tolist() for ids, there in zip(found.ids.cpu(), found.mask.cpu(), strict=True)]
        everyone: Any = gather_object([text for text, counted in zip(texts, rows, strict=True) if counted])
        return Samples.of(everyone, self.lm.pad)

    def _mine(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Which of `count` things are this process's, as many as anybody's, and which of these count: what is missing
        at the end is filled up with others, so that all processes keep step."""
        of, each = self.accelerator.num_processes, -(-count // self.accelerator.num_processes)
        part = slice(self.accelerator.process_index * each, (self.accelerator.process_index + 1) * each)
        return np.resize(np.arange(count), each * of)[part], (np.arange(each * of) < count)[part]

    def learn(self, written: Written, how: How) -> dict[str, float]:
        """One update: means of METRICS over its gradient steps, and how many these were."""
        s, (mine, counts) = self.settings, self._mine(len(written.prompts))
        before = self._log_probs(written, mine, self._temperature(how)) if s.epochs * s.minibatches > 1 else None
        orders = (self.shuffling.permutation(len(mine)) for _ in range(s.epochs))
        parts = (part for order in orders for part in np.array_split(order, min(s.minibatches, len(mine))))
        sums, steps = np.zeros(len(METRICS)), 0
        for part in parts:
            found = self._step(written, mine[part], counts[part], before, how)
            if found is None:
                break
            sums, steps = sums + found, steps + 1
        self.writer.follow(self.model, self.accelerator)
        return {**dict(zip(METRICS, (sums / max(1, steps)).tolist(), strict=True)), "steps": float(steps)}

    def _step(
        self, written: Written, chosen: np.ndarray, counts: np.ndarray, before: Tensor | None, how: How
    ) -> np.ndarray | None:
        """A gradient step on the texts to some prompts; METRICS, or None if the update has gone far enough already."""
        s, all_of = self.settings, self.accelerator.num_processes
        counted = torch.from_numpy(np.repeat(counts, written.each))[:, None]
        share = self._shares(written.samples.mask[written.rows(chosen)].cpu() & counted)
        sums = torch.zeros(len(METRICS) - 1, device=self.device)
        self.optimiser.zero_grad()
        at_once = max(1, s.rows // written.each)
        for k in range(0, len(chosen), at_once):
            part = chosen[k : k + at_once]
            with nullcontext() if k + at_once >= len(chosen) else self._alone():
                losses, metrics = self._losses(written, part, before, how)
                weight = share[k * written.each : (k + len(part)) * written.each, : losses.shape[1]]
                loss = (losses * weight).sum()
                self.accelerator.backward(loss * all_of)  # what the processes have is averaged
            sums += torch.stack([loss.detach(), *((m * weight).sum() for m in metrics)])
        sums = self._of_all(sums)
        if s.kl_cap is not None and sums[METRICS.index("moved")] > s.kl_cap:
            return None
        norm: Any = self.accelerator.clip_grad_norm_(self.model.parameters(), s.max_grad_norm)
        found = np.array([*sums.tolist(), float(norm.full_tensor() if isinstance(norm, DTensor) else norm)])
        if not np.isfinite(found).all():
            told = ", ".join(f"{name} {value:.3g}" for name, value in zip(METRICS, found, strict=True))
            raise LossError(f"the loss is not a number ({told}); lower learning_rate or max_grad_norm")
        self.optimiser.step()
        return found

    def _alone(self) -> AbstractContextManager[None]:
        """Within it gradients are only added up, to be averaged over the processes later, all at once.

        Those of a sharded model are averaged each time: that leaves each process its share of them, not all.
        """
        return nullcontext() if self.accelerator.is_fsdp2 else self.accelerator.no_sync(self.model)

    def _shares(self, mask: Tensor) -> Tensor:
        """How much each token counts in the mean over the texts of all processes, (rows, T)."""
        there = mask.to(self.device).float()
        if self.settings.mean == "text":
            there = there / there.sum(1, keepdim=True).clamp(min=1)
        return there / self._of_all(there.sum()).clamp(min=1e-9)

    def _of_all(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        total: Any = self.accelerator.reduce(tensor)
        return total

    def _losses(
        self, written: Written, chosen: np.ndarray, before: Tensor | None, how: How
    ) -> tuple[Tensor, list[Tensor]]:
        """The loss of each token of the texts to some prompts, and beside it METRICS but the first and the last."""
        s, rows, temperature = self.settings, written.rows(chosen), self._temperature(how)
        now, entropy = self._read(self.model, written, chosen, temperature)
        worth = written.worth[rows, None].to(self.device)
        then = now.detach() if before is None else before[rows, : now.shape[1]]
        losses = clipped(now, then, worth, s.clip) if how == "clipped" else weighted(now, worth)
        kl = torch.zeros_like(now)
        if self.reference is not None:
            with torch.no_grad(), self.accelerator.autocast():
                first, _ = self._read(self.reference, written, chosen, temperature)
            kl = away(now, first)
            losses = losses + s.kl * kl
        with torch.no_grad():
            ratio = (now - then).exp()
            return losses, [kl, away(then, now), ((ratio - 1).abs() > s.clip).float(), entropy]

    def _temperature(self, how: How) -> float:
        """Policy gradients are those of what was drawn from; a regression is on the model as it is."""
        return self.settings.temperature if how == "clipped" else 1.0

    @torch.no_grad()
    def _log_probs(self, written: Written, chosen: np.ndarray, temperature: float = 1.0) -> Tensor:
        """Of the texts to some prompts, under the model as it is, (rows of all, T)."""
        at_once = max(1, self.settings.rows // written.each)
        out = torch.zeros(written.samples.ids.shape, device=self.device)
        for k in range(0, len(chosen), at_once):
            part = chosen[k : k + at_once]
            found, _ = self._read(self.model, written, part, temperature)
            out[written.rows(part), : found.shape[1]] = found
        return out

    def _read(self, model: Any, written: Written, chosen: np.ndarray, temperature: float) -> tuple[Tensor, Tensor]:
        rows = written.rows(chosen)
        mask = written.samples.mask[rows]
        used = max(1, int(mask.any(0).sum()))
        ids, mask = written.samples.ids[rows, :used].to(self.device), mask[:, :used].to(self.device)
        prompts = [written.prompts[k] for k in chosen]
        return log_probs(model, prompts, written.each, ids, mask, self.lm.pad, temperature)

    # ------------------------------------------------------------------------------------------------------ state

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which `load` goes on exactly. All processes must call it; the main has all."""
        told: Any = get_state_dict(self.model, self.optimiser.optimizer, options=WHOLE)
        weights, moments = told  # empty where it is not the main process
        arrays = {f"model.{name}": _array(tensor) for name, tensor in weights.items()}
        for name, held in moments.get("state", {}).items():
            arrays |= {f"adam.{name}.{key}": _array(value) for key, value in held.items()}
        everyone: Any = gather_object([self.random.get_state().numpy()])
        arrays |= {f"random.{rank}": numbers for rank, numbers in enumerate(everyone)}
        return arrays, {"shuffling": self.shuffling.bit_generator.state}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        """Every process must call it with the whole state."""
        saved, here = sum(name.startswith("random.") for name in arrays), self.accelerator.num_processes
        if saved != here:
            raise ModelError(f"what is to be gone on with was saved by {saved} processes, not by {here}; use as many")
        weights, held = {}, {}
        for name, array in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = torch.from_numpy(array.copy())
            elif kind == "adam":
                parameter, _, key = rest.rpartition(".")
                held.setdefault(parameter, {})[key] = torch.from_numpy(array.copy())
        groups: Any = get_optimizer_state_dict(self.model, self.optimiser.optimizer)["param_groups"]
        set_state_dict(
            self.model, self.optimiser.optimizer,
            model_state_dict=weights, optim_state_dict={"state": held, "param_groups": groups}, options=WHOLE,
        )  # fmt: skip
        self.random.set_state(torch.from_numpy(arrays[f"random.{self.accelerator.process_index}"].copy()))
        self.shuffling.bit_generator.state = values["shuffling"]
        self.writer.follow(self.model, self.accelerator)


def _array(tensor: Any) -> np.ndarray:
    return tensor.detach().to("cpu", copy=True).numpy() if isinstance(tensor, Tensor) else np.asarray(tensor)
