"""What is learned from replies: their log-probabilities under a model, and the losses over them.

The losses are those of GRPO (Shao et al. 2024) and of reward-weighted regression (GenEnv, section 2.3), each with a
penalty for leaving a fixed reference. All are sums over tokens; whoever calls divides by how many count.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache

from .sampling import padded_left, places, repeated


def log_probs(
    model: nn.Module, prompts: Sequence[Sequence[int]], each: int, ids: Tensor, mask: Tensor, pad: int,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Of each token of replies (N x each, T) to N prompts: log-probability and the entropy it was drawn with.

    A prompt is read once for all its replies; the gradient goes through what was kept of it. Both are those at the
    temperature that replies are drawn at: it is that distribution that learns from them.
    """
    asked, there = padded_left(prompts, pad)
    asked, there = asked.to(ids.device), there.to(ids.device)
    inside: Any = getattr(model, "module", model)  # of one that is wrapped for many processes
    cache: Any = DynamicCache(config=inside.config)
    first = model(
        input_ids=asked, attention_mask=there.long(), position_ids=places(there), past_key_values=cache,
        logits_to_keep=1, use_cache=True,
    ).logits  # (N, 1, V)  # fmt: skip
    logits = first.repeat_interleave(each, 0)
    if ids.shape[1] > 1:
        cache.reorder_cache(repeated(len(prompts), each, ids.device))
        seen = torch.cat([there.repeat_interleave(each, 0), mask[:, :-1]], 1)
        rest = model(
            input_ids=ids[:, :-1], attention_mask=seen.long(), position_ids=places(seen)[:, there.shape[1] :],
            past_key_values=cache, use_cache=True,
        ).logits  # (N x each, T - 1, V)  # fmt: skip
        logits = torch.cat([logits, rest], 1)
    logs = F.log_softmax(logits.float() / temperature, -1)
    entropy = -(logs.exp() * logs).sum(-1)
    return logs.gather(-1, ids[..., None])[..., 0], entropy


def group_advantages(scores: Tensor, scale: bool) -> Tensor:
    """Scores (N, G) of G replies to each of N prompts, against their group's mean; in its deviations with `scale`."""
    gains = scores - scores.mean(1, keepdim=True)
    return gains / (scores.std(1, keepdim=True) + 1e-4) if scale else gains


def clipped(now: Tensor, then: Tensor, gains: Tensor, clip: float) -> Tensor:
    """The loss of each token: no gain from moving its probability by more than `clip`. `gains` (B, 1)."""
    ratio = (now - then).exp()
    return -torch.min(gains * ratio, gains * ratio.clamp(1 - clip, 1 + clip))


def weighted(now: Tensor, weights: Tensor) -> Tensor:
    """The loss of each token in reward-weighted regression. `weights` (B, 1)."""
    return -weights * now


def away(now: Tensor, reference: Tensor) -> Tensor:
    """An estimate of KL(model, reference) from each drawn token, never negative (Schulman's third)."""
    change = reference - now
    return change.exp() - change - 1
