"""Small models made on the spot: a tokenizer trained on a domain's own text, and a fresh network of the Llama kind."""

from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from envgen.worlds.world import Settings

from .lm import Lm, load

END, PAD = "<end>", "<pad>"


class Size(Settings):
    """How large a model made on the spot is."""

    width: int = 128
    """Numbers that a token is inside the network."""
    layers: int = 4
    """Layers of attention and thought."""
    heads: int = 4
    """Attention heads of a layer."""
    inner: int = 384
    """Width inside a layer's feed-forward part."""
    vocabulary: int = 1024
    """Tokens at the most."""
    longest: int = 512
    """Tokens of prompt and reply together at the most."""


def tokenizer_of(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte pairs over words and single digits, so that every text can be written and numbers are spelled."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END, PAD], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def fresh(tokenizer: PreTrainedTokenizerFast, size: Size, seed: int) -> Lm:
    """A model that knows nothing yet."""
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=size.width, intermediate_size=size.inner,
        num_hidden_layers=size.layers, num_attention_heads=size.heads, num_key_value_heads=size.heads,
        max_position_embeddings=size.longest, tie_word_embeddings=True, use_cache=True,
        bos_token_id=None, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Lm(LlamaForCausalLM(config), tokenizer)


def save(lm: Lm, folder: Path) -> None:
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)


__all__ = ["Size", "fresh", "load", "save", "tokenizer_of"]
