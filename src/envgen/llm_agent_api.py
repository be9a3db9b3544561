"""`envgen.evaluate_llm_agent`, and what the command line shares with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from envgen.api import OUT, ArgumentError
from envgen.console import terminal
from envgen.imports import require_extra
from envgen.settings import format_validation_error, to_integer, to_path
from envgen.text import model_label, to_file_name
from envgen.worlds.registry import make_world
from envgen.worlds.world import World

if TYPE_CHECKING:
    from envgen.llm_agent.results import LlmEvaluation


def evaluate_llm_agent(
    world: str | World = "crafter",
    llm: str | Mapping[str, Any] = "manual",
    episodes: int = 1,
    *,
    level: Any = None,
    seed: int | None = None,
    folder: str | Path | None = None,
    verbose: bool = True,
) -> "LlmEvaluation":
    """Play episodes with a language model as the agent, which sees the world's `text` observation.

    To continue an interrupted evaluation exactly where it stopped, call this again with the same arguments. For
    benchmarks of language models, see `run_benchmark`.

    Args:
        world: A world or its name.
        llm: The language model: `"openai:MODEL"`, `"anthropic:MODEL"`, `"manual"`, `"replay:FOLDER"`, or a mapping with
            `llm` and the other fields of `LlmAgentConfig`, such as `base_url`, `questions` and `max_cost`.
        episodes: Number of episodes. A finished evaluation can be extended with more.
        level: The level to play. Default: the original.
        seed: Episode k is the first one with the seed `seed + k - 1`. Default: one that training never uses.
        folder: The directory of the evaluation. Default: `out/<world>-llm-agent-<llm>`.
        verbose: Show progress on the terminal.
    """
    require_extra("train", "envgen.evaluate_llm_agent")
    from envgen.curriculum.plan import EVALUATION_SEED, check_seed
    from envgen.llm_agent.display import AgentDisplay
    from envgen.llm_agent.evaluate import evaluate_llm_agent as play
    from envgen.llm_agent.settings import LlmAgentConfig

    episodes = to_integer("episodes", episodes, ArgumentError, minimum=1)
    seed = check_seed(EVALUATION_SEED if seed is None else seed)
    if not isinstance(llm, str | Mapping):
        raise ArgumentError(f"llm must be a name or a mapping, not {llm!r:.80}")
    try:
        config = LlmAgentConfig(**({"llm": llm} if isinstance(llm, str) else llm))
    except ValidationError as error:
        raise ArgumentError(format_validation_error(error)) from None
    world = make_world(world)
    run_folder = to_path("folder", folder, ArgumentError) if folder else default_llm_agent_folder(world, config.llm)
    console, log = terminal(verbose)
    with AgentDisplay(episodes, console) as display:
        return play(world, config, run_folder, episodes, level, seed, display, log)


def default_llm_agent_folder(world: World, llm: str) -> Path:
    """The directory that `evaluate_llm_agent` uses if it is given none."""
    return OUT / f"{to_file_name(world.name)}-llm-agent-{model_label(llm)}"
