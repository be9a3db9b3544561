"""The agent of a co-evolution run, as of its latest checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from transformers import GenerationConfig

from envgen.runs.checkpoint import load_latest, loading
from envgen.runs.store import RunError, read_request

from .domains.registry import is_builtin, load_domain
from .language_model import LanguageModel
from .lora import add_adapters, merged_state_dict, trainable_names
from .model_io import load_model, save_model
from .pretraining import find_pretrained_agent
from .settings import AgentSettings, ModelSize, PretrainSettings
from .train import check_recorded_models, recorded_models

WEIGHTS = "model."  # prefix of the weights in the arrays of a policy


def load_agent(run: Path, models_folder: Path, dtype: str = "float32") -> LanguageModel:
    """Load the agent of a run.

    Args:
        run: The run directory.
        models_folder: The folder of the small pretrained models that runs start from.
        dtype: The data type of the weights.
    """
    request, runtime_options = read_request(run)
    model = _initial_model(run, request, runtime_options, models_folder)
    checkpoint = load_latest(run / "checkpoints")
    if checkpoint is None:
        raise RunError(f"{run} has no checkpoint yet; let the run train until it saves one")
    lm = load_model(model, dtype)
    settings = _agent_settings(run, request)
    if settings.lora_rank is not None:
        add_adapters(lm.model, settings.lora_rank, settings.lora_alpha, seed=0)
    with loading(run, checkpoint):
        arrays = checkpoint.arrays["agent"]
        weights = {name.removeprefix(WEIGHTS): array for name, array in arrays.items() if name.startswith(WEIGHTS)}
        expected = lm.model.state_dict().keys() if settings.lora_rank is None else trainable_names(lm.model)
        if mismatched := sorted(expected ^ weights.keys()):
            raise ValueError(f"the weights {', '.join(mismatched[:3])} do not match the model")
        tensors = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
        lm.model.load_state_dict(tensors, strict=settings.lora_rank is None)
    return lm


def save_agent(run: Path, folder: Path, models_folder: Path, dtype: str = "float32") -> None:
    """Write the agent of a run to a folder in the format of transformers. Adapters are merged into the weights.

    `generate` of transformers then ends where the agent did. Other settings of generation, such as a repetition
    penalty, are those of transformers, because training ignored the model's.

    Args:
        folder: The folder to write to.

    The other arguments are those of `load_agent`.
    """
    lm = load_agent(run, models_folder, dtype)
    ends = sorted({lm.eos_token_id, int(lm.tokenizer.eos_token_id)})  # pyright: ignore[reportArgumentType]
    lm.model.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=lm.pad_token_id)
    save_model(lm, folder, merged_state_dict(lm.model))


def _agent_settings(run: Path, request: Mapping[str, Any]) -> AgentSettings:
    try:
        return AgentSettings.model_validate(request["agent_settings"])
    except (KeyError, ValidationError):
        raise RunError(f"{run} is not a run of envgen coevolve") from None


def _initial_model(
    run: Path, request: Mapping[str, Any], runtime_options: Mapping[str, Any], models_folder: Path
) -> str:
    try:
        agent, recipe, domain = request["agent"], request["pretrain_recipe"], request["domain"]
        if recipe is None:
            if not (isinstance(agent, str) and agent):
                raise ValueError("agent")
            return agent
        if recorded := recorded_models(models_folder, runtime_options):
            return str(recorded[0])
        if not is_builtin(domain):  # a run directory may come from someone else: nothing that it names is imported
            raise RunError(
                f"{run} trained a small model on the domain {domain!r:.80}, which is not part of envgen; of "
                "other domains, only agents that started from a given model can be loaded"
            )
        size, settings = ModelSize(**recipe["model_size"]), PretrainSettings(**recipe["pretrain"])
        folder = find_pretrained_agent(load_domain(domain), models_folder, recipe["seed"], size, settings)
    except ImportError as error:
        raise RunError(str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError(f"{run} is not a run of envgen coevolve") from None
    check_recorded_models(run, models_folder, folder.parent.name)
    if not folder.is_dir():
        raise RunError(
            f"there is no {folder}, the small model that {run} started from; pass --models-folder with the folder that "
            "the run used"
        )
    return str(folder)
