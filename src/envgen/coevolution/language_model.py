"""A causal language model with its tokenizer: prompts and completions as tokens, and back.

Models come from a local folder or the Hugging Face hub, always as safetensors and never with remote code.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from envgen.errors import EnvgenError

disable_progress_bar()
# The warnings about missing convolution kernels only matter on GPUs.
logging.getLogger("transformers.integrations.hub_kernels").addFilter(lambda _: torch.cuda.is_available())


class ModelError(EnvgenError):
    """A language model could not be loaded or lacks a capability; the message says what to do instead."""


@dataclass
class LanguageModel:
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def encode_prompt(self, system: str, user: str) -> list[int]:
        """The tokens of a prompt in the chat format of this model.

        A model without a chat template was pretrained on bare prompts and gets no system message.
        """
        if not self.tokenizer.chat_template:
            return self._encode(f"{user}\n")
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return self._encode(str(text))

    def encode_completion(self, text: str) -> list[int]:
        """The tokens of a completion, including the end-of-sequence token."""
        return [*self._encode(text), self.eos_token_id]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a completion, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]  # pyright: ignore[reportReturnType]

    @property
    def eos_token_id(self) -> int:
        return int(self.tokenizer.eos_token_id)  # pyright: ignore[reportArgumentType]

    @property
    def pad_token_id(self) -> int:
        pad = self.tokenizer.pad_token_id
        return self.eos_token_id if pad is None else int(pad)  # pyright: ignore[reportArgumentType]

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def check_round_trip(self, texts: Iterable[str], description: str) -> None:
        """Raise a ModelError if the tokenizer changes any of these texts."""
        for text in texts:
            decoded = self.decode(self.encode_completion(text))
            if decoded != text:
                raise ModelError(
                    f"the tokenizer of this model cannot represent {description}: {text!r} decodes to {decoded!r}; "
                    "choose a model with another tokenizer"
                )


def load_model(path: str | Path, dtype: str = "float32") -> LanguageModel:
    """Load a model from a folder or by its name on the hub."""
    options: dict[str, Any] = {"trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), **options)
        model = AutoModelForCausalLM.from_pretrained(
            str(path), dtype=getattr(torch, dtype), use_safetensors=True, **options
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(f"cannot load the model {path}: {str(error).strip().splitlines()[0]}") from error
    if tokenizer.eos_token_id is None:
        raise ModelError(f"the tokenizer of {path} has no end-of-sequence token; choose another model")
    return LanguageModel(model, tokenizer)
