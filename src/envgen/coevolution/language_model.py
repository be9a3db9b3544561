"""A causal language model with its tokenizer. Small ones are created here; model_io.py loads others.

The tokenizer and the LFM2 network of new models are chosen to learn within minutes on one CPU core. A word is the same
token in every context, in `item=silk` as in `of silk`, so that copying, which is most of what small agents learn, is
one skill instead of several. And the first layer is a short convolution, which gives each token its predecessor:
attention alone takes long to learn this, and needs it to copy.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    Lfm2Config,
    Lfm2ForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils.logging import disable_progress_bar

from .model_files import ModelError, render_template
from .settings import ModelSize

disable_progress_bar()
# The warnings about missing convolution kernels only matter on GPUs.
logging.getLogger("transformers.integrations.hub_kernels").addFilter(lambda _: torch.cuda.is_available())

EOS_TOKEN, PAD_TOKEN = "<end>", "<pad>"
MIN_FREQUENCY = 20  # rarer words are split into smaller tokens
LETTER = "[A-Za-z0-9]"
OUTER_SPACE = f"(?<!{LETTER}) | (?!{LETTER})"  # a space that is not between two words
SPACE_SYMBOL = "\x1f"  # stands for such spaces inside tokens


@dataclass
class LanguageModel:
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def encode_prompt(self, system: str, user: str) -> list[int]:
        """The tokens of a prompt in the chat format of this model.

        A model without a chat template was pretrained on bare prompts and gets no system message.
        """
        return self.encode_messages([{"role": "system", "content": system}, {"role": "user", "content": user}])

    def encode_messages(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """The tokens of a conversation whose next message the model writes, in its chat format.

        A model without a chat template gets what it was trained on: the token that its tokenizer starts texts with, if
        any, its own messages with the end-of-sequence token, those of others with a new line, and no system messages.

        A system message that a chat template refuses or omits is put before the user message that follows it.
        """
        if not self.tokenizer.chat_template:
            ids = self._start
            for message in messages:
                if message["role"] == "assistant":
                    ids += self.encode_completion(message["content"])
                elif message["role"] != "system":
                    ids += self._encode(f"{message['content']}\n")
            return ids
        merged = _merge_system_message(messages)
        try:
            text = self._render(messages)
        except ModelError:
            if merged is None:
                raise
            return self._encode(self._render(merged))
        if merged is not None and messages[0]["content"].strip() not in text:
            text = self._render(merged)
        return self._encode(text)

    def _render(self, messages: Sequence[dict[str, str]]) -> str:
        template = self.tokenizer.apply_chat_template
        return render_template(lambda: str(template(list(messages), tokenize=False, add_generation_prompt=True)))

    def encode_completion(self, text: str) -> list[int]:
        """The tokens of a completion, including the end-of-sequence token."""
        return [*self._encode(text), self.eos_token_id]

    def encode_observation(self, text: str) -> list[int]:
        """The tokens between a completion and the next one, when the environment answers with this text."""
        if not self.tokenizer.chat_template:
            return self._encode(f"{text}\n")
        messages = [{"role": "user", "content": "-"}, {"role": "assistant", "content": "-"}]
        template = self.tokenizer.apply_chat_template

        def render() -> str:
            before = str(template(messages, tokenize=False))
            after = str(
                template([*messages, {"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
            )
            if not after.startswith(before):
                raise ModelError("the chat template of this model rewrites earlier turns; choose another model")
            eos = str(self.tokenizer.convert_ids_to_tokens(self.eos_token_id))
            return before.rpartition(eos)[2] + after[len(before) :] if eos in before else after[len(before) :]

        return self._encode(render_template(render))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a completion, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]  # pyright: ignore[reportReturnType]

    @property
    def _start(self) -> list[int]:
        """The token that the tokenizer puts before a text, if there is one."""
        bos = self.tokenizer.bos_token_id
        if bos is None:  # as in the models that are created here, which encode many prompts
            return []
        ids: Any = self.tokenizer("-")["input_ids"]
        return [int(ids[0])] if ids[0] == bos else []

    @cached_property
    def eos_token_id(self) -> int:
        """The token that ends a completion: in the chat format of some models another one than the tokenizer's."""
        default = int(self.tokenizer.eos_token_id)  # pyright: ignore[reportArgumentType]
        if not self.tokenizer.chat_template:
            return default
        messages = [{"role": "user", "content": "-"}, {"role": "assistant", "content": "REPLY"}]
        try:
            text = render_template(lambda: str(self.tokenizer.apply_chat_template(messages, tokenize=False)))
        except ModelError:  # a format for prompts alone
            return default
        added = self.tokenizer.added_tokens_decoder
        end = [i for i in self._encode(text.rpartition("REPLY")[2]) if i in added and added[i].special]
        return end[0] if end else default

    @property
    def pad_token_id(self) -> int:
        pad = self.tokenizer.pad_token_id
        return self.eos_token_id if pad is None else int(pad)  # pyright: ignore[reportArgumentType]

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def num_embeddings(self) -> int:
        embeddings: Any = self.model.get_input_embeddings()
        return embeddings.weight.shape[0]

    def check_tokens(self, ids: Iterable[int]) -> None:
        """Raise a ModelError if the model has no embedding for a token."""
        if (token := max(ids, default=0)) >= self.num_embeddings:
            raise ModelError(
                f"the tokenizer gives the token {token}, but the model has only {self.num_embeddings}; "
                "choose a model with its own tokenizer"
            )

    def check_round_trip(self, texts: Iterable[str], description: str) -> None:
        """Raise a ModelError if the tokenizer changes any of these texts, or gives tokens unknown to the model."""
        for text in texts:
            ids = self.encode_completion(text)
            self.check_tokens(ids)
            decoded = self.decode(ids)
            if decoded != text:
                raise ModelError(
                    f"the tokenizer of this model cannot represent {description}: {text!r} decodes to {decoded!r}; "
                    "choose a model with another tokenizer"
                )


def _merge_system_message(messages: Sequence[dict[str, str]]) -> list[dict[str, str]] | None:
    """The conversation with its system message in the first user message, or None if it does not start with both."""
    if [message["role"] for message in messages[:2]] != ["system", "user"]:
        return None
    system, user = messages[0]["content"], messages[1]["content"]
    return [{"role": "user", "content": f"{system}\n\n{user}".strip()}, *messages[2:]]


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-pair tokenizer that splits at words and numbers; it can represent every text.

    Words and the text between them all begin with a space. Decoding removes the spaces that the text did not have: all
    but those between two words.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(Regex(OUTER_SPACE), SPACE_SYMBOL)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(f" ?{LETTER}+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteLevel(), decoders.Replace(Regex(OUTER_SPACE), ""), decoders.Replace(SPACE_SYMBOL, " ")]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=MIN_FREQUENCY, special_tokens=[EOS_TOKEN, PAD_TOKEN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=EOS_TOKEN, pad_token=PAD_TOKEN, clean_up_tokenization_spaces=False
    )


def model_config(vocab_size: int, size: ModelSize) -> Lfm2Config:
    """The config of a model that is created from scratch."""
    return Lfm2Config(
        vocab_size=vocab_size, hidden_size=size.width, intermediate_size=size.mlp_width,
        block_auto_adjust_ff_dim=False, num_hidden_layers=size.num_layers,
        layer_types=["conv"] + ["full_attention"] * (size.num_layers - 1), conv_L_cache=size.conv_window,
        num_attention_heads=size.num_heads, num_key_value_heads=size.num_heads,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}, max_position_embeddings=size.max_length,
        bos_token_id=None, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip


def new_model(tokenizer: PreTrainedTokenizerFast, size: ModelSize, seed: int) -> LanguageModel:
    """A model with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(Lfm2ForCausalLM(model_config(len(tokenizer), size)), tokenizer)
