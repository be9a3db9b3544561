"""Batched generation with a KV cache.

A prompt with several completions is encoded once. Finished rows leave the batch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch.nn import functional as F
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from .language_model import LanguageModel

COMPACT_BELOW = 0.75  # drop finished rows from the batch when at most this fraction is still active
MIN_ROOM = 32  # further tokens for which a KV cache has room


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

    def with_generated(self, flags: Sequence[Sequence[bool]]) -> "Completions":
        """The same with `generated` from a flag for each token."""
        generated = torch.zeros_like(self.mask)
        generated[self.mask] = torch.tensor([flag for row in flags for flag in row], device=self.mask.device)
        return replace(self, generated=generated)

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


class Conversation(Protocol):
    """What a model talks to in several turns."""

    def answer(self, tokens: list[int]) -> list[int] | None:
        """The tokens of the answer to a turn; None ends the conversation."""
        ...


Generate = Callable[[Sequence[Sequence[int]], int], Completions]  # prompts and completions per prompt


class Sampler(Protocol):
    """Generates completions from a model that is being trained."""

    def check(self) -> None:
        """Raise ModelError if it cannot generate."""
        ...

    def generate(
        self, lm: LanguageModel, prompts: Sequence[Sequence[int]], num_generations: int, max_new_tokens: int,
        rng: torch.Generator | None, temperature: float, conversations: Sequence[Conversation] | None = None,
    ) -> Completions:  # fmt: skip
        """`num_generations` completions of each prompt; greedy decoding if `rng` is None.

        With `conversations`, one for each completion, these go on for several turns of up to `max_new_tokens` tokens.
        """
        ...

    def sync_weights(self, model: Any, accelerator: Any) -> None:
        """Called after the weights have changed."""
        ...


class HfSampler:
    """Generates with the trained model itself, in this process."""

    def check(self) -> None:
        return

    def generate(
        self, lm: LanguageModel, prompts: Sequence[Sequence[int]], num_generations: int, max_new_tokens: int,
        rng: torch.Generator | None, temperature: float, conversations: Sequence[Conversation] | None = None,
    ) -> Completions:  # fmt: skip
        return generate(lm, prompts, num_generations, max_new_tokens, rng, temperature, conversations)

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


class BufferedLayer(DynamicLayer):
    """A KV cache with room for further tokens, so that not every token copies the keys and values before it."""

    buffers: list[torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if not self._has_room(end):
            self._allocate(key_states, value_states, start, end + max(MIN_ROOM, end // 4))
        assert self.buffers is not None
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = states
        self.keys, self.values = (buffer[:, :, :end] for buffer in self.buffers)
        return self.keys, self.values

    def _has_room(self, end: int) -> bool:
        """False also when rows were dropped or repeated: the keys are a new tensor then."""
        if self.buffers is None or self.keys is None or self.keys.data_ptr() != self.buffers[0].data_ptr():
            return False
        return end <= self.buffers[0].shape[-2]

    def _allocate(self, keys: torch.Tensor, values: torch.Tensor, start: int, capacity: int) -> None:
        shapes = [(*states.shape[:2], capacity, states.shape[-1]) for states in (keys, values)]
        self.buffers = [states.new_empty(shape) for states, shape in zip((keys, values), shapes, strict=True)]
        if self.keys is not None and self.values is not None and start:
            self.buffers[0][:, :, :start], self.buffers[1][:, :, :start] = self.keys, self.values


def new_cache(config: Any) -> Any:
    """A cache for generation, which needs no gradients."""
    cache = DynamicCache(config=config)
    cache.layers = [BufferedLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


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
    conversations: Sequence[Conversation] | None = None,
) -> Completions:
    """`num_generations` completions of each prompt; greedy decoding if `rng` is None.

    With `conversations`, one for each completion, a row goes on after each turn: it is fed the answer to the turn,
    token by token, while other rows are sampled, and continues from its KV cache.
    """
    model, device = lm.model, lm.model.device
    ids, mask = pad_left(prompts, lm.pad_token_id)
    ids, mask = ids.to(device), mask.to(device)
    cache = new_cache(model.config)
    prefill = model(
        input_ids=ids, attention_mask=mask.long(), position_ids=position_ids(mask), past_key_values=cache,
        logits_to_keep=1,
    )  # fmt: skip
    logits = prefill.logits[:, -1].repeat_interleave(num_generations, 0)
    cache.reorder_cache(repeat_index(len(prompts), num_generations, device))
    mask = mask.repeat_interleave(num_generations, 0)
    output = _Output(len(prompts) * num_generations, lm.pad_token_id, device)
    rows = torch.arange(len(mask), device=device)  # row of the output of each row in the batch
    active = torch.ones(len(mask), dtype=torch.bool, device=device)
    turn_lengths = torch.zeros(len(mask), dtype=torch.long, device=device)
    turn_starts = [0] * len(mask)  # of each row of the output
    answers: dict[int, list[int]] = {}  # tokens still to feed to a row of the output, the next one last
    while True:
        tokens = _sample_tokens(logits, rng, temperature)
        is_sampled = active.clone()
        if answers:
            position = {row: i for i, row in enumerate(rows.tolist())}
            fed = torch.tensor([position[row] for row in answers], device=device)
            tokens[fed] = torch.tensor([answer.pop() for answer in answers.values()], device=device)
            is_sampled[fed] = False
            answers = {row: answer for row, answer in answers.items() if answer}
        output.append(rows[active], tokens[active], is_sampled[active])
        turn_lengths += is_sampled
        is_over = is_sampled & ((tokens == lm.eos_token_id) | (turn_lengths >= max_new_tokens))
        if conversations is None:
            active = active & ~is_over
        else:
            for i in is_over.nonzero()[:, 0].tolist():
                row = int(rows[i])
                answer = conversations[row].answer(output.ids[row, turn_starts[row] : output.length].tolist())
                if answer is None:
                    active[i] = False
                    continue
                turn_lengths[i], turn_starts[row] = 0, output.length + len(answer)
                if answer:
                    answers[row] = answer[::-1]
        num_active = int(active.sum())
        if not num_active:
            break
        if num_active <= COMPACT_BELOW * len(rows):
            keep = active.nonzero()[:, 0]
            cache.reorder_cache(keep)
            rows, mask, tokens, active = rows[keep], mask[keep], tokens[keep], active[keep]
            turn_lengths = turn_lengths[keep]
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        positions = mask.sum(1, keepdim=True) - 1
        logits = model(
            input_ids=tokens[:, None], attention_mask=mask.long(), position_ids=positions, past_key_values=cache
        ).logits[:, -1]
    return output.completions(has_observations=conversations is not None)


class _Output:
    """Completions that grow by one token at a time."""

    def __init__(self, batch_size: int, pad_token_id: int, device: torch.device):
        self.length, self.pad_token_id = 0, pad_token_id
        self.ids = torch.empty((batch_size, 0), dtype=torch.long, device=device)
        self.mask = torch.empty((batch_size, 0), dtype=torch.bool, device=device)
        self.generated = self.mask

    def append(self, rows: torch.Tensor, tokens: torch.Tensor, is_sampled: torch.Tensor) -> None:
        if self.length == self.ids.shape[1]:
            self.ids = F.pad(self.ids, (0, MIN_ROOM), value=self.pad_token_id)
            self.mask, self.generated = F.pad(self.mask, (0, MIN_ROOM)), F.pad(self.generated, (0, MIN_ROOM))
        self.ids[rows, self.length] = tokens
        self.mask[rows, self.length] = True
        self.generated[rows, self.length] = is_sampled
        self.length += 1

    def completions(self, has_observations: bool) -> Completions:
        ids, mask, generated = (x[:, : self.length] for x in (self.ids, self.mask, self.generated))
        return Completions(ids, mask, generated if has_observations else None)


def generate_turn_by_turn(
    generate: Generate, prompts: Sequence[Sequence[int]], num_generations: int,
    conversations: Sequence[Conversation], pad_token_id: int, max_history: float = math.inf,
) -> Completions:  # fmt: skip
    """Conversations with a sampler that knows only prompts: each turn encodes the whole history again.

    A conversation ends early where its history would exceed `max_history` tokens.
    """
    histories = [list(prompt) for prompt in prompts for _ in range(num_generations)]
    lengths = [len(history) for history in histories]
    generated: list[list[bool]] = [[] for _ in histories]
    active, completions = list(range(len(histories))), generate(prompts, num_generations)
    while active:
        continued = []
        for k, ids, mask in zip(active, completions.ids, completions.mask, strict=True):
            tokens = ids[mask].tolist()
            answer = conversations[k].answer(tokens)
            if answer is not None and len(histories[k]) + len(tokens) + len(answer) > max_history:
                answer = None
            histories[k] += [*tokens, *(answer or [])]
            generated[k] += [True] * len(tokens) + [False] * len(answer or [])
            if answer is not None:
                continued.append(k)
        active = continued
        if active:
            completions = generate([histories[k] for k in active], 1)
    rows = [history[length:] for history, length in zip(histories, lengths, strict=True)]
    return Completions.from_token_lists(rows, pad_token_id).with_generated(generated)


def _sample_tokens(logits: torch.Tensor, rng: torch.Generator | None, temperature: float) -> torch.Tensor:
    if rng is None:
        return logits.argmax(-1)
    return torch.multinomial(torch.softmax(logits.float() / temperature, -1), 1, generator=rng)[:, 0]
