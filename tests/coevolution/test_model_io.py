"""Which models can be trained: their layers, their weights, and the tokens and positions that they know."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from envgen.coevolution.language_model import LanguageModel, ModelError
from envgen.coevolution.model_io import check_prompts, load_model, save_model

RECURRENT = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
MAMBA2 = {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "expand": 2}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}


def make_model(models, kind, **fields) -> LanguageModel:
    """A model of another kind, with the tokenizer of the agent and larger random weights than at first."""
    tokenizer = load_model(models[0]).tokenizer
    config = AutoConfig.for_model(
        kind,
        **{
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 0, "bos_token_id": None, **fields,
        },
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).float().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data *= 3
    return LanguageModel(model, tokenizer)


@pytest.mark.parametrize(("kind", "fields"), [("llama", {}), ("qwen3_moe", MOE), ("gpt2", {"n_positions": 64})])
def test_models_with_attention_are_loaded(models, tmp_path, kind, fields):
    save_model(make_model(models, kind, **fields), tmp_path)
    assert load_model(tmp_path).model.config.model_type == kind


@pytest.mark.parametrize("for_training", [False, True])
def test_a_model_that_ignores_its_cache_is_refused(models, tmp_path, for_training):
    """It would never see the prompt."""
    save_model(make_model(models, "mamba2", **MAMBA2), tmp_path)
    with pytest.raises(ModelError, match=r"mamba2.* other probabilities with a cache of its prompt than without"):
        load_model(tmp_path, for_training=for_training)


def test_a_model_whose_cache_has_no_gradient_is_only_used(models, tmp_path):
    save_model(make_model(models, "qwen3_5_text", **RECURRENT), tmp_path)
    with pytest.raises(ModelError, match=r"qwen3_5_text, a kind of model that cannot be trained: .* inplace operation"):
        load_model(tmp_path)
    assert load_model(tmp_path, for_training=False)


def test_a_tokenizer_of_another_model_is_refused(models, tmp_path):
    lm = make_model(models, "llama")
    lm.model.resize_token_embeddings(10)
    save_model(lm, tmp_path)
    with pytest.raises(ModelError, match=r"gives the token \d+, but the model has only 10; choose a model"):
        load_model(tmp_path)


def test_missing_weights_are_not_made_up(models, tmp_path):
    save_model(make_model(models, "llama"), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 weights of a llama \(model\.layers\.1\.mlp\.up_proj\.weight\)"):
        load_model(tmp_path)


def test_a_padding_token_without_embedding_is_not_used(models, tmp_path):
    lm = make_model(models, "llama")
    lm.tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    save_model(lm, tmp_path)
    assert lm.pad_token_id == lm.model.config.vocab_size
    assert load_model(tmp_path).pad_token_id == lm.eos_token_id


def test_prompts_must_fit_into_the_model(models):
    learned, relative = make_model(models, "gpt2", n_positions=64), make_model(models, "llama")
    check_prompts(learned, [[1] * 60], 4)
    check_prompts(relative, [[1] * 60], 5000)
    with pytest.raises(ModelError, match="has 64 positions, too few for a prompt of 60 tokens and 5 new ones; lower"):
        check_prompts(learned, [[1], [1] * 60], 5)
    with pytest.raises(ModelError, match=re.escape(f"gives the token {relative.model.config.vocab_size}, but")):
        check_prompts(relative, [[1], [relative.model.config.vocab_size]], 5)
