"""Small models made on the spot: a tokenizer trained on a domain's own text, and a fresh network of the LFM2 kind.

Both are chosen for learning within minutes on a processor core. A word is the same token wherever it stands, in
`item=silk` as in `of silk`: copying, which is most of what small agents learn, is then one thing and not several. And
the network's first layer is a short convolution, which tells each token what stands just before it: attention would
have to learn that before it could learn to copy, and takes long over it.
"""

from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Lfm2Config, Lfm2ForCausalLM, PreTrainedTokenizerFast

from envgen.settings import Settings

from .language_model import Lm

END, PAD = "<end>", "<pad>"
RARE = 20  # texts spell what they say less often than this
LETTER = "[A-Za-z0-9]"
OUTER = f"(?<!{LETTER}) | (?!{LETTER})"  # a space that is not just between two words
SPACE = "\x1f"  # how tokens write it


class Size(Settings):
    """How large a model made on the spot is."""

    width: int = 128
    """Numbers that a token is inside the network."""
    layers: int = 3
    """Layers: one of convolution, the others of attention."""
    window: int = 4
    """Tokens that the convolution sees at once."""
    heads: int = 4
    """Attention heads of a layer."""
    inner: int = 256
    """Width inside a layer's feed-forward part."""
    vocabulary: int = 1024
    """Tokens at the most."""
    longest: int = 512
    """Tokens of prompt and reply together at the most."""


def tokenizer_of(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte pairs within words, numbers and what stands between them; every text can be written.

    Words and what stands between them all begin with a space. Those that a text did not have are taken out again when
    tokens become text: all but the ones between two words.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(Regex(OUTER), SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(f" ?{LETTER}+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteLevel(), decoders.Replace(Regex(OUTER), ""), decoders.Replace(SPACE, " ")]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=RARE, special_tokens=[END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def fresh(tokenizer: PreTrainedTokenizerFast, size: Size, seed: int) -> Lm:
    """A model that knows nothing yet."""
    config = Lfm2Config(
        vocab_size=len(tokenizer), hidden_size=size.width, intermediate_size=size.inner, block_auto_adjust_ff_dim=False,
        num_hidden_layers=size.layers, layer_types=["conv"] + ["full_attention"] * (size.layers - 1),
        conv_L_cache=size.window, num_attention_heads=size.heads, num_key_value_heads=size.heads,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}, max_position_embeddings=size.longest,
        bos_token_id=None, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Lm(Lfm2ForCausalLM(config), tokenizer)


def save(lm: Lm, folder: Path) -> None:
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
