"""Loads and saves language models, and checks whether they can be trained.

Models come from a local folder or the Hugging Face Hub, always as safetensors and never with remote code.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PretrainedConfig
from transformers.utils.peft_utils import find_adapter_config_file

from envgen.errors import is_out_of_memory

from .language_model import LanguageModel
from .losses import completion_logps
from .model_files import ADAPTER_FILE, ModelError, check_config, check_model_folder
from .sampling import Completions

# Largest mean differences of log-probabilities with and without a cache. They are in the ones if a model ignores its
# cache, and with it the prompt.
MAX_CACHE_ERROR, MAX_CACHE_ERROR_16_BITS = 0.02, 0.5


def load_model(path: str | Path, dtype: str = "float32", for_training: bool = True) -> LanguageModel:
    """Load a model from a folder or by its name on the hub. Whatever is wrong with it is a ModelError."""
    name = str(path)
    options: dict[str, Any] = {"trust_remote_code": False}
    with reading_model("load", path):
        if find_adapter_config_file(name) is not None:
            raise ModelError(f"{path} is an adapter for another model ({ADAPTER_FILE}); merge it into that model first")
        tokenizer: Any = AutoTokenizer.from_pretrained(name, **options)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            name, dtype=getattr(torch, dtype), use_safetensors=True, output_loading_info=True, **options
        )
        model, info = loaded
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{path} lacks {len(missing)} weights of a {model.config.model_type} ({', '.join(missing[:3])}), which "
                "would be random; download the model again, or pass another one"
            )
        if tokenizer.eos_token_id is None:
            raise ModelError(f"the tokenizer of {path} has no end-of-sequence token; choose another model")
        lm = LanguageModel(model, tokenizer)
        if lm.pad_token_id >= lm.num_embeddings:  # added to the tokenizer alone; the end-of-sequence token pads as well
            tokenizer.pad_token = None
        lm.encode_prompt("system", "user")
    check_cache(lm, path, for_training)
    return lm


def save_model(lm: LanguageModel, folder: Path, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write a model to a folder, in the format of transformers.

    Args:
        weights: Its weights, if they are not those of `lm.model`.
    """
    try:
        lm.model.save_pretrained(folder, state_dict=weights)  # pyright: ignore[reportArgumentType]
        lm.tokenizer.save_pretrained(folder)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"cannot write the model to {folder}: {error}; is the disk full?") from error


@contextmanager
def reading_model(action: str, path: str | Path) -> Iterator[None]:
    """Check the files of a model, then turn whatever is wrong with them into a ModelError.

    Args:
        action: What is done with the model, for the message.
    """
    if Path(path).is_dir():
        check_model_folder(Path(path))
    try:
        check_config(PretrainedConfig.get_config_dict(str(path))[0], path)
        yield
    except ModelError:
        raise
    except BaseException as error:
        # damaged files raise almost anything: the tokenizers library raises plain Exceptions, and panics in Rust
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(
            f"cannot {action} the model {path}: {_first_line(error):.500}; pass a folder with safetensors, or "
            "the name of a model on the Hugging Face Hub"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def check_cache(lm: LanguageModel, path: str | Path, for_training: bool = True) -> None:
    """Raise a ModelError if the log-probabilities of a model differ with and without a cache.

    Completions are generated, and their log-probabilities computed, with a cache of their prompt. Some models with
    recurrent layers take none, and ignore the prompt.

    Args:
        path: Where the model is from, for the message.
        for_training: Also raise it if gradients cannot flow through the cache, which some models change in place.
    """
    use = "trained" if for_training else "used"
    refusal = f"{path} is a {lm.model.config.model_type}, a kind of model that cannot be {use}: "
    other = "choose one whose layers are attention or convolutions"
    tokens = ((lm.encode_prompt("system", "user") or [lm.eos_token_id]) * 8)[:8]
    lm.check_tokens([*tokens, lm.eos_token_id])
    prompts, replies = [tokens, tokens[3:]], [[*tokens[2:5], lm.eos_token_id], tokens[4:6]]
    embeddings: Any = lm.model.get_input_embeddings()
    completions = Completions.from_token_lists(replies, lm.pad_token_id)
    errors: list[Tensor] = []
    try:
        with _outputs_of(embeddings) as embedded:
            logps, _ = completion_logps(lm.model, prompts, 1, completions.ids, completions.mask, lm.pad_token_id)
        if for_training:
            torch.autograd.grad(logps.sum(), embedded)
        for prompt, reply, row in zip(prompts, replies, logps.detach(), strict=True):
            expected = _uncached_logps(lm.model, prompt, reply)
            errors.append((row[: len(reply)] - expected).abs())
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(
            f"{refusal}with a cache of its prompt, it fails ({_first_line(error):.200}); {other}"
        ) from error
    largest = MAX_CACHE_ERROR if lm.model.dtype == torch.float32 else MAX_CACHE_ERROR_16_BITS
    if not torch.cat(errors).mean() <= largest:
        raise ModelError(f"{refusal}it computes other probabilities with a cache of its prompt than without; {other}")


@torch.no_grad()
def _uncached_logps(model: Any, prompt: list[int], reply: list[int]) -> Tensor:
    logits = model(input_ids=torch.tensor([prompt + reply]), use_cache=False).logits[0, -len(reply) - 1 : -1]
    return logits.float().log_softmax(-1).gather(-1, torch.tensor(reply)[:, None])[:, 0]


@contextmanager
def _outputs_of(module: nn.Module) -> Iterator[list[Tensor]]:
    """The outputs of a module in this context."""
    outputs: list[Tensor] = []
    hook: Any = lambda _module, _inputs, output: outputs.append(output)  # noqa: E731  typed
    handle = module.register_forward_hook(hook)
    try:
        yield outputs
    finally:
        handle.remove()


def check_prompts(lm: LanguageModel, prompts: Iterable[Sequence[int]], max_new_tokens: int) -> None:
    """Raise a ModelError if a model has no embeddings for the tokens of prompts or for the positions after them."""
    positions = _learned_positions(lm.model)
    for prompt in prompts:
        lm.check_tokens(prompt)
        if positions is not None and len(prompt) + max_new_tokens > positions:
            raise ModelError(
                f"the model has {positions} positions, too few for a prompt of {len(prompt)} tokens and "
                f"{max_new_tokens} new ones; lower max_new_tokens, or choose a model with a longer context"
            )


def _learned_positions(model: nn.Module) -> int | None:
    """The number of positions of a model that has an embedding for each of them."""
    config: Any = model.config
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    tables = {module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding)}
    return positions if positions is not None and tables & {positions, positions + 2} else None  # OPT has two more
