"""Batched generation with a KV cache.

A prompt with several completions is encoded once. Finished rows leave the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn import functional as F
from transformers import DynamicCache

from .language_model import LanguageModel

COMPACT_BELOW = 0.75  # drop finished rows from the batch when at most this fraction is still active


@dataclass(frozen=True)
class Completions:
    """Completion tokens without their prompts. B = prompts x completions per prompt.

    `ids` (B, T) is padded on the right; `mask` (B, T) is true for tokens, including the end-of-sequence token. In
    multi-turn episodes `generated` (B, T) tells the model's own tokens, which enter the loss, from observations.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    generated: torch.Tensor | None = None

    @classmethod
    def from_token_lists(cls, token_lists: Sequence[Sequence[int]], pad_token_id: int) -> "Completions":
        width = max(map(len, token_lists))
        ids = torch.tensor([[*tokens, *[pad_token_id] * (width - len(tokens))] for tokens in token_lists])
        return cls(ids, torch.arange(width) < torch.tensor([[len(tokens)] for tokens in token_lists]))

    @property
    def loss_mask(self) -> torch.Tensor:
        """The tokens that the model generated."""
        return self.mask if self.generated is None else self.generated

    @property
    def num_tokens(self) -> int:
        """The number of generated tokens."""
        return int(self.loss_mask.sum())

    def select(self, rows: torch.Tensor) -> "Completions":
        return Completions(
            self.ids[rows], self.mask[rows], None if self.generated is None else self.generated[rows]
        )  # fmt: skip

    def decode(self, lm: LanguageModel) -> list[str]:
        return [lm.decode(row[mask].tolist()) for row, mask in zip(self.ids, self.mask, strict=True)]


class Sampler(Protocol):
    """Generates completions from a model that is being trained."""

    def generate(
        self, lm: LanguageModel, prompts: Sequence[Sequence[int]], num_generations: int, max_new_tokens: int,
        rng: torch.Generator | None, temperature: float,
    ) -> Completions:  # fmt: skip
        """`num_generations` completions of each prompt; greedy decoding if `rng` is None."""
        ...

    def sync_weights(self, model: Any, accelerator: Any) -> None:
        """Called after the weights have changed."""
        ...


class HfSampler:
    """Generates with the trained model itself, in this process."""

    def generate(
        self, lm: LanguageModel, prompts: Sequence[Sequence[int]], num_generations: int, max_new_tokens: int,
        rng: torch.Generator | None, temperature: float,
    ) -> Completions:  # fmt: skip
        return generate(lm, prompts, num_generations, max_new_tokens, rng, temperature)

    def sync_weights(self, model: Any, accelerator: Any) -> None:
        return


def concat_completions(parts: Sequence[Completions]) -> Completions:
    """Concatenate along the batch dimension, padding to the longest."""
    width = max(part.ids.shape[1] for part in parts)
    ids = [F.pad(part.ids, (0, width - part.ids.shape[1])) for part in parts]
    mask = [F.pad(part.mask, (0, width - part.mask.shape[1])) for part in parts]
    generated = None
    if any(part.generated is not None for part in parts):
        generated = torch.cat([F.pad(part.loss_mask, (0, width - part.mask.shape[1])) for part in parts])
    return Completions(torch.cat(ids), torch.cat(mask), generated)


def pad_left(sequences: Sequence[Sequence[int]], pad_token_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Left-padded ids (B, P) and their attention mask (B, P)."""
    width = max(map(len, sequences))
    ids = torch.full((len(sequences), width), pad_token_id, dtype=torch.long)
    for sequence, row in zip(sequences, ids, strict=True):
        row[width - len(sequence) :] = torch.tensor(sequence, dtype=torch.long)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    return ids, torch.arange(width) >= width - lengths[:, None]


def repeat_index(count: int, repeats: int, device: torch.device) -> torch.Tensor:
    """Indices that repeat each of `count` rows; `reorder_cache` of any cache accepts them."""
    return torch.arange(count, device=device).repeat_interleave(repeats)


def position_ids(mask: torch.Tensor) -> torch.Tensor:
    """The position of each token in its own sequence."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


@torch.no_grad()
def generate(
    lm: LanguageModel,
    prompts: Sequence[Sequence[int]],
    num_generations: int,
    max_new_tokens: int,
    rng: torch.Generator | None,
    temperature: float = 1.0,
) -> Completions:
    """`num_generations` completions of each prompt; greedy decoding if `rng` is None."""
    model, device = lm.model, lm.model.device
    ids, mask = pad_left(prompts, lm.pad_token_id)
    ids, mask = ids.to(device), mask.to(device)
    cache: Any = DynamicCache(config=model.config)
    output = model(
        input_ids=ids, attention_mask=mask.long(), position_ids=position_ids(mask), past_key_values=cache,
        logits_to_keep=1,
    )  # fmt: skip
    logits = output.logits[:, -1].repeat_interleave(num_generations, 0)
    batch_size = len(prompts) * num_generations
    cache.reorder_cache(repeat_index(len(prompts), num_generations, device))
    mask = mask.repeat_interleave(num_generations, 0)
    out_ids = torch.full((batch_size, max_new_tokens), lm.pad_token_id, dtype=torch.long, device=device)
    out_mask = torch.zeros((batch_size, max_new_tokens), dtype=torch.bool, device=device)
    rows = torch.arange(batch_size, device=device)  # row of `out_ids` of each row in the batch
    active = torch.ones(batch_size, dtype=torch.bool, device=device)
    for t in range(max_new_tokens):
        tokens = _sample_tokens(logits, rng, temperature)
        out_ids[rows[active], t] = tokens[active]
        out_mask[rows[active], t] = True
        active = active & (tokens != lm.eos_token_id)
        num_active = int(active.sum())
        if num_active == 0 or t == max_new_tokens - 1:
            break
        if num_active <= COMPACT_BELOW * len(rows):
            keep = active.nonzero()[:, 0]
            cache.reorder_cache(keep)
            rows, mask, tokens, active = rows[keep], mask[keep], tokens[keep], active[keep]
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        positions = mask.sum(1, keepdim=True) - 1
        logits = model(
            input_ids=tokens[:, None], attention_mask=mask.long(), position_ids=positions, past_key_values=cache
        ).logits[:, -1]
    length = int(out_mask.any(0).sum())
    return Completions(out_ids[:, :length], out_mask[:, :length])


def _sample_tokens(logits: torch.Tensor, rng: torch.Generator | None, temperature: float) -> torch.Tensor:
    if rng is None:
        return logits.argmax(-1)
    return torch.multinomial(torch.softmax(logits.float() / temperature, -1), 1, generator=rng)[:, 0]
