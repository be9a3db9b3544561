"""Train agents in environments that a designer (an LLM, a rule, a learned policy) adapts to them.

Importing this package registers its Gymnasium environments and nothing more. Everything else is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from envgen.api import TrainingRun, compare, diagnose, evaluate, load_policy, resume, train
    from envgen.benchmarks.api import run_benchmark
    from envgen.coevolution_api import CoevolutionRun, coevolve
    from envgen.designers.designer import Designer
    from envgen.episodes_api import record_episodes, watch
    from envgen.errors import EnvgenError
    from envgen.llm_agent_api import evaluate_llm_agent
    from envgen.world_api import check_world
    from envgen.worlds.registry import make_world
    from envgen.worlds.world import Level, World

__version__ = "0.2.0"

_MODULES = {
    "CoevolutionRun": "coevolution_api",
    "Designer": "designers.designer",
    "EnvgenError": "errors",
    "Level": "worlds.world",
    "TrainingRun": "api",
    "World": "worlds.world",
    "check_world": "world_api",
    "coevolve": "coevolution_api",
    "compare": "api",
    "diagnose": "api",
    "evaluate": "api",
    "evaluate_llm_agent": "llm_agent_api",
    "load_policy": "api",
    "make_world": "worlds.registry",
    "record_episodes": "episodes_api",
    "resume": "api",
    "run_benchmark": "benchmarks.api",
    "train": "api",
    "watch": "episodes_api",
}
__all__ = [
    "CoevolutionRun",
    "Designer",
    "EnvgenError",
    "Level",
    "TrainingRun",
    "World",
    "check_world",
    "coevolve",
    "compare",
    "diagnose",
    "evaluate",
    "evaluate_llm_agent",
    "load_policy",
    "make_world",
    "record_episodes",
    "resume",
    "run_benchmark",
    "train",
    "watch",
]


if not TYPE_CHECKING:  # otherwise every name would be valid for type checkers, as Any

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


gymnasium.register(
    "envgen/Crafter-v0",
    entry_point="envgen.worlds.crafter.env:CrafterEnv",
    vector_entry_point="envgen.worlds.crafter.env:CrafterVectorEnv",
)
gymnasium.register(
    "envgen/Heist-v0",
    entry_point="envgen.worlds.heist.env:HeistEnv",
    vector_entry_point="envgen.worlds.heist.env:HeistVectorEnv",
)
gymnasium.register(
    "envgen/MiniGrid-v0",
    entry_point="envgen.worlds.minigrid.env:MiniGridEnv",
    vector_entry_point="envgen.worlds.minigrid.env:MiniGridVectorEnv",
)
gymnasium.register(
    "envgen/Walker-v0",
    entry_point="envgen.worlds.walker.world:make_env",
    vector_entry_point="envgen.worlds.walker.world:make_vector_env",
)
