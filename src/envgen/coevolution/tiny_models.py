"""Small models created from scratch: a tokenizer trained on a domain's own text, and an LFM2 network.

Both are chosen to learn within minutes on one CPU core. A word is the same token in every context, in `item=silk` as
in `of silk`, so that copying, which is most of what small agents learn, is one skill instead of several. And the first
layer is a short convolution, which gives each token its predecessor: attention alone takes long to learn this, and
needs it to copy.
"""

from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Lfm2Config, Lfm2ForCausalLM, PreTrainedTokenizerFast

from .language_model import LanguageModel
from .settings import ModelSize

EOS_TOKEN, PAD_TOKEN = "<end>", "<pad>"
MIN_FREQUENCY = 20  # rarer words are spelled
LETTER = "[A-Za-z0-9]"
OUTER_SPACE = f"(?<!{LETTER}) | (?!{LETTER})"  # a space that is not between two words
SPACE_SYMBOL = "\x1f"  # stands for such spaces inside tokens


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


def new_model(tokenizer: PreTrainedTokenizerFast, size: ModelSize, seed: int) -> LanguageModel:
    """A model with random weights."""
    config = Lfm2Config(
        vocab_size=len(tokenizer), hidden_size=size.width, intermediate_size=size.mlp_width,
        block_auto_adjust_ff_dim=False, num_hidden_layers=size.num_layers,
        layer_types=["conv"] + ["full_attention"] * (size.num_layers - 1), conv_L_cache=size.conv_window,
        num_attention_heads=size.num_heads, num_key_value_heads=size.num_heads,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}, max_position_embeddings=size.max_length,
        bos_token_id=None, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(Lfm2ForCausalLM(config), tokenizer)


def save_model(lm: LanguageModel, folder: Path) -> None:
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
