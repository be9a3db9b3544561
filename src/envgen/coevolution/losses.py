"""Advantages and losses of language-model RL: GRPO and reward-weighted regression, token by token.

GRPO (Shao et al. 2024, arXiv 2402.03300, section 4.1), read top to bottom:

    completion_logps    log pi(o_t | q, o_<t) of each completion token
    group_advantages    A_i = (r_i - mean(r)) / std(r)
    ppo_clip_loss       -min(ratio A, clip(ratio, 1 - eps, 1 + eps) A)                               equation 3
    kl_k3               ref / pi - log(ref / pi) - 1                                                 equation 4
    token_losses        clipped loss + beta KL, and the metrics logged with it
    token_weights       1/|o| for all tokens, or 1/|o_i| within each sequence and then the mean over sequences

Reward-weighted regression (GenEnv, section 2.3) replaces the clipped loss by `weighted_nll`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache

from .sampling import pad_left, position_ids
from .settings import LossAggregation

LossType = Literal["ppo_clip", "weighted_nll"]


def completion_logps(
    model: nn.Module, prompts: Sequence[Sequence[int]], num_generations: int, ids: Tensor, mask: Tensor,
    pad_token_id: int, temperature: float = 1.0, loss_mask: Tensor | None = None, max_chunk_tokens: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Log-probabilities of the tokens of completions (N x G, T) to N prompts, and the entropies at each position.

    Both are those of the distribution at the sampling temperature, which is the one that is trained, and zero outside
    `loss_mask` (default: all tokens of the completions). Entropies have no gradient. Batches of more than
    `max_chunk_tokens` tokens, with padding, are divided into chunks of similar lengths.
    """
    loss_mask = mask if loss_mask is None else loss_mask
    prompt_of_row = torch.arange(len(prompts)).repeat_interleave(num_generations)
    lengths = mask.sum(1).tolist()
    results, order = [], []
    for rows in length_chunks(lengths, max_chunk_tokens):
        length = ids.shape[1] if max_chunk_tokens is None else max(1, *(lengths[row] for row in rows))
        used, prompt_index = prompt_of_row[rows].unique(return_inverse=True)
        chunk_prompts = [prompts[k] for k in used.tolist()]
        chunk = _chunk_logps(
            model, chunk_prompts, prompt_index.to(ids.device), ids[rows, :length], mask[rows, :length],
            loss_mask[rows, :length], pad_token_id, temperature,
        )  # fmt: skip
        results.append([F.pad(values, (0, ids.shape[1] - length)) for values in chunk])
        order += rows
    if len(results) == 1:
        return results[0][0], results[0][1]
    inverse = torch.tensor(order).argsort().to(ids.device)
    logps, entropy = (torch.cat(values)[inverse] for values in zip(*results, strict=True))
    return logps, entropy


def length_chunks(lengths: Sequence[int], max_tokens: int | None) -> list[list[int]]:
    """Divide rows into chunks of at most `max_tokens` tokens with their padding, but of at least one row.

    All rows in their order if they fit into one chunk; otherwise the longest first.
    """
    if max_tokens is None or len(lengths) * max(lengths) <= max_tokens:
        return [list(range(len(lengths)))]
    chunks: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not chunks or (len(chunks[-1]) + 1) * lengths[chunks[-1][0]] > max_tokens:
            chunks.append([])
        chunks[-1].append(row)
    return chunks


def _chunk_logps(
    model: nn.Module, prompts: Sequence[Sequence[int]], prompt_index: Tensor, ids: Tensor, mask: Tensor,
    loss_mask: Tensor, pad_token_id: int, temperature: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`completion_logps` of rows with the prompts of `prompt_index`.

    A prompt is encoded once for all its completions; gradients flow through its KV cache.
    """
    prompt_ids, prompt_mask = pad_left(prompts, pad_token_id)
    prompt_ids, prompt_mask = prompt_ids.to(ids.device), prompt_mask.to(ids.device)
    unwrapped: Any = getattr(model, "module", model)  # DistributedDataParallel hides the config
    cache: Any = DynamicCache(config=unwrapped.config)
    first = model(
        input_ids=prompt_ids, attention_mask=prompt_mask.long(), position_ids=position_ids(prompt_mask),
        past_key_values=cache, logits_to_keep=1, use_cache=True,
    ).logits  # (N, 1, V)  # fmt: skip
    logits = first[prompt_index]
    if ids.shape[1] > 1:
        cache.reorder_cache(prompt_index)
        attention_mask = torch.cat([prompt_mask[prompt_index], mask[:, :-1]], 1)
        rest = model(
            input_ids=ids[:, :-1], attention_mask=attention_mask.long(),
            position_ids=position_ids(attention_mask)[:, prompt_mask.shape[1] :], past_key_values=cache, use_cache=True,
        ).logits  # (B, T - 1, V)  # fmt: skip
        logits = torch.cat([logits, rest], 1)
    log_probs = F.log_softmax(logits[loss_mask].float() / temperature, -1)
    with torch.no_grad():
        entropies = -(log_probs.exp() * log_probs).sum(-1)
    logps = log_probs.gather(-1, ids[loss_mask][:, None])[:, 0]
    zeros = torch.zeros(ids.shape, device=ids.device)
    return zeros.masked_scatter(loss_mask, logps), zeros.masked_scatter(loss_mask, entropies)


def group_advantages(scores: Tensor, scale_rewards: bool) -> Tensor:
    """Advantages of scores (N, G) within the group of each prompt; divided by its standard deviation if scaled."""
    advantages = scores - scores.mean(1, keepdim=True)
    return advantages / (scores.std(1, keepdim=True) + 1e-4) if scale_rewards else advantages


def ppo_clip_loss(logps: Tensor, old_logps: Tensor, advantages: Tensor, clip_coef: float) -> Tensor:
    """The clipped surrogate loss of each token. `advantages` (B, 1)."""
    ratio = (logps - old_logps).exp()
    return -torch.min(advantages * ratio, advantages * ratio.clamp(1 - clip_coef, 1 + clip_coef))


def weighted_nll(logps: Tensor, weights: Tensor) -> Tensor:
    """The loss of each token in reward-weighted regression. `weights` (B, 1)."""
    return -weights * logps


def kl_k3(logps: Tensor, ref_logps: Tensor) -> Tensor:
    """A non-negative per-token estimate of KL(model || reference): k3 of Schulman, "Approximating KL Divergence"."""
    logratio = ref_logps - logps
    return logratio.exp() - logratio - 1


def token_losses(
    loss_type: LossType, logps: Tensor, old_logps: Tensor, ref_logps: Tensor | None, advantages: Tensor,
    entropy: Tensor, clip_coef: float, kl_coef: float,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """The loss of each token (B, T) and the per-token metrics kl, approx_kl, clipfrac and entropy.

    `advantages` (B, 1) are the weights of the regression if `loss_type` is "weighted_nll".
    """
    if loss_type == "ppo_clip":
        losses = ppo_clip_loss(logps, old_logps, advantages, clip_coef)
    else:
        losses = weighted_nll(logps, advantages)
    kl = torch.zeros_like(logps)
    if ref_logps is not None:
        kl = kl_k3(logps, ref_logps)
        losses = losses + kl_coef * kl
    with torch.no_grad():
        ratio = (logps - old_logps).exp()
        approx_kl = kl_k3(old_logps, logps)
        clipfrac = ((ratio - 1).abs() > clip_coef).float()
    return losses, [kl.detach(), approx_kl, clipfrac, entropy.detach()]


def token_weights(
    mask: Tensor, loss_agg: LossAggregation, all_reduce: Callable[[Tensor], Tensor] = lambda tensor: tensor
) -> Tensor:
    """The weight of each token in the mean over the batch of all processes, (B, T)."""
    weights = mask.float()
    if loss_agg == "sequence":
        weights = weights / weights.sum(1, keepdim=True).clamp(min=1)
    return weights / all_reduce(weights.sum()).clamp(min=1e-9)
