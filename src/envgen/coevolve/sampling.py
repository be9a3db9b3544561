"""Replies drawn from a model, many at once, each token read once: what was read before is kept (the KV cache).

A prompt that is answered several times is read once. Rows that have ended leave the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn import functional as F
from transformers import DynamicCache

from .language_model import Lm

SHRINK = 0.75  # when this share of the rows is left, the others are taken out of the batch


@dataclass(frozen=True)
class Samples:
    """B = prompts x each replies: `ids` (B, T) without their prompts, and `mask` where they are, their end included."""

    ids: torch.Tensor
    mask: torch.Tensor

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], pad: int) -> "Samples":
        """From the tokens of each text."""
        width = max(map(len, texts))
        ids = torch.tensor([[*text, *[pad] * (width - len(text))] for text in texts])
        return cls(ids, torch.arange(width) < torch.tensor([[len(text)] for text in texts]))

    @property
    def tokens(self) -> int:
        return int(self.mask.sum())

    def texts(self, lm: Lm) -> list[str]:
        return [lm.text(row[there].tolist()) for row, there in zip(self.ids, self.mask, strict=True)]


class Writer(Protocol):
    """Whatever draws replies from a model that learns."""

    def write(
        self, lm: Lm, prompts: Sequence[Sequence[int]], each: int, limit: int, random: torch.Generator | None,
        temperature: float,
    ) -> Samples: ...  # fmt: skip

    def follow(self, model: Any, accelerator: Any) -> None:
        """The model has learned."""


class Local:
    """The model that learns draws for itself."""

    def write(
        self, lm: Lm, prompts: Sequence[Sequence[int]], each: int, limit: int, random: torch.Generator | None,
        temperature: float,
    ) -> Samples:  # fmt: skip
        return sample(lm, prompts, each, limit, random, temperature)

    def follow(self, model: Any, accelerator: Any) -> None:
        return


def joined(parts: Sequence[Samples]) -> Samples:
    """Samples below one another."""
    width = max(part.ids.shape[1] for part in parts)
    ids = [F.pad(part.ids, (0, width - part.ids.shape[1])) for part in parts]
    mask = [F.pad(part.mask, (0, width - part.mask.shape[1])) for part in parts]
    return Samples(torch.cat(ids), torch.cat(mask))


def padded_left(rows: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (B, P) that end together, and where they are."""
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    for row, out in zip(rows, ids, strict=True):
        out[width - len(row) :] = torch.tensor(row, dtype=torch.long)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(width) >= width - lengths[:, None]


def repeated(count: int, each: int, device: torch.device) -> torch.Tensor:
    """Which of `count` rows each of `count x each` comes from. By such rows a cache of every kind can be put anew."""
    return torch.arange(count, device=device).repeat_interleave(each)


def places(mask: torch.Tensor) -> torch.Tensor:
    """The position of each token in its own text."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


@torch.no_grad()
def sample(
    lm: Lm,
    prompts: Sequence[Sequence[int]],
    each: int,
    limit: int,
    random: torch.Generator | None,
    temperature: float = 1.0,
) -> Samples:
    """`each` replies to each prompt, of `limit` tokens at the most; the likeliest ones without `random`."""
    model, device = lm.model, lm.model.device
    ids, mask = padded_left(prompts, lm.pad)
    ids, mask = ids.to(device), mask.to(device)
    cache: Any = DynamicCache(config=model.config)
    read = model(
        input_ids=ids, attention_mask=mask.long(), position_ids=places(mask), past_key_values=cache, logits_to_keep=1
    )
    logits = read.logits[:, -1].repeat_interleave(each, 0)
    count = len(prompts) * each
    cache.reorder_cache(repeated(len(prompts), each, device))
    mask = mask.repeat_interleave(each, 0)
    out = torch.full((count, limit), lm.pad, dtype=torch.long, device=device)
    kept = torch.zeros((count, limit), dtype=torch.bool, device=device)
    rows = torch.arange(count, device=device)  # of `out`, that the rows of the batch belong to
    going = torch.ones(count, dtype=torch.bool, device=device)
    for t in range(limit):
        drawn = _draw(logits, random, temperature)
        out[rows[going], t] = drawn[going]
        kept[rows[going], t] = True
        going = going & (drawn != lm.end)
        left = int(going.sum())
        if left == 0 or t == limit - 1:
            break
        if left <= SHRINK * len(rows):
            stay = going.nonzero()[:, 0]
            cache.reorder_cache(stay)
            rows, mask, drawn, going = rows[stay], mask[stay], drawn[stay], going[stay]
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        here = mask.sum(1, keepdim=True) - 1
        logits = model(
            input_ids=drawn[:, None], attention_mask=mask.long(), position_ids=here, past_key_values=cache
        ).logits[:, -1]
    used = int(kept.any(0).sum())
    return Samples(out[:, :used], kept[:, :used])


def _draw(logits: torch.Tensor, random: torch.Generator | None, temperature: float) -> torch.Tensor:
    if random is None:
        return logits.argmax(-1)
    return torch.multinomial(torch.softmax(logits.float() / temperature, -1), 1, generator=random)[:, 0]
