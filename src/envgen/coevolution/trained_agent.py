"""The agent of a run of the co-evolution, as it was when the run last saved a checkpoint."""

from pathlib import Path

import torch

from envgen.runs.checkpoint import load_latest, loading
from envgen.runs.store import RunError, read_request

from .domains.registry import is_builtin, load_domain
from .language_model import LanguageModel, load_model
from .pretraining import find_pretrained_agent
from .settings import ModelSize, PretrainSettings

WEIGHTS = "model."  # prefix of the weights in the arrays of a policy


def load_agent(run: Path, models_folder: Path, dtype: str = "float32") -> LanguageModel:
    """Load the agent of a run.

    Args:
        run: The run directory.
        models_folder: Where the small models are kept that runs begin with.
        dtype: The data type of the weights.
    """
    lm = load_model(_initial_model(run, models_folder), dtype)
    checkpoint = load_latest(run / "checkpoints")
    if checkpoint is None:
        raise RunError(f"{run} has no checkpoint yet")
    with loading(run, checkpoint):
        arrays = checkpoint.arrays["agent"]
        weights = {name.removeprefix(WEIGHTS): array for name, array in arrays.items() if name.startswith(WEIGHTS)}
        state = lm.model.state_dict()
        if missing := sorted(state.keys() ^ weights.keys()):
            raise ValueError(f"the weights {', '.join(missing[:3])} do not match the model")
        lm.model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})
    return lm


def _initial_model(run: Path, models_folder: Path) -> str:
    request, _ = read_request(run)
    try:
        agent, recipe, domain = request["agent"], request["pretrain_recipe"], request["domain"]
        if recipe is None:
            if not (isinstance(agent, str) and agent):
                raise ValueError("agent")
            return agent
        if not is_builtin(domain):  # a run directory may come from someone else: nothing that it names is imported
            raise RunError(f"{run} trained a small model on the domain {domain!r:.80}, which is not part of envgen")
        size, settings = ModelSize(**recipe["model_size"]), PretrainSettings(**recipe["pretrain"])
        folder = find_pretrained_agent(load_domain(domain), models_folder, recipe["seed"], size, settings)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError(f"{run} is not a run of envgen coevolve") from None
    if not folder.is_dir():
        raise RunError(
            f"there is no {folder}, the small model that {run} began with; pass --models-folder with the folder that "
            "the run used"
        )
    return str(folder)
