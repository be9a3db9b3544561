"""A causal language model with its tokenizer, and how tasks become tokens for it and tokens become replies.

Models come from a local folder or from the hub, always as safetensors and never with code of their own.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()
# What it says of convolutions without a kernel of their own is of use on GPUs alone.
logging.getLogger("transformers.integrations.hub_kernels").addFilter(lambda _: torch.cuda.is_available())


class ModelError(Exception):
    """A language model cannot be had, or cannot do what it is to do; the message says what to do instead."""


@dataclass
class Lm:
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def prompt(self, told: str, asked: str) -> list[int]:
        """The tokens of a question, after what is told of all questions, as this model expects them.

        A model without a chat template knows its questions from training, and is told nothing else.
        """
        if not self.tokenizer.chat_template:
            return self._ids(f"{asked}\n")
        messages = [{"role": "system", "content": told}, {"role": "user", "content": asked}]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return self._ids(str(text))

    def reply(self, text: str) -> list[int]:
        """The tokens of an answer, with its end."""
        return [*self._ids(text), self.end]

    def text(self, ids: Iterable[int]) -> str:
        """What the tokens of an answer say, up to its end."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]  # pyright: ignore[reportReturnType]

    @property
    def end(self) -> int:
        return int(self.tokenizer.eos_token_id)  # pyright: ignore[reportArgumentType]

    @property
    def pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return self.end if pad is None else int(pad)  # pyright: ignore[reportArgumentType]

    @property
    def parameters(self) -> int:
        return sum(weights.numel() for weights in self.model.parameters())

    def check_writes(self, texts: Iterable[str], what: str) -> None:
        """Refuse a model whose tokenizer cannot write these texts."""
        for text in texts:
            back = self.text(self.reply(text))
            if back != text:
                raise ModelError(
                    f"the tokenizer of this model cannot write {what}: {text!r} comes back as {back!r}; "
                    "choose a model with another tokenizer"
                )


def load(path: str | Path, dtype: str = "float32") -> Lm:
    """A model by its folder or its name on the hub."""
    kind: dict[str, Any] = {"trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), **kind)
        model = AutoModelForCausalLM.from_pretrained(
            str(path), dtype=getattr(torch, dtype), use_safetensors=True, **kind
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(f"cannot load the model {path}: {str(error).strip().splitlines()[0]}") from error
    if tokenizer.eos_token_id is None:
        raise ModelError(f"the tokenizer of {path} has no token that ends a reply")
    return Lm(model, tokenizer)
