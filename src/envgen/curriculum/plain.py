"""The plainest curriculum: one phase of training in given levels, then an evaluation in the original world."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv

from envgen.agents.ppo import Agent
from envgen.agents.settings import settings_for
from envgen.runs.store import Run
from envgen.worlds.world import World

from .course import Course
from .evaluate import Evaluation, evaluate

EVALUATION_SEED = 1 << 31  # the seeds of training lie below


def train(
    folder: Path,
    world: World,
    levels: list[Any],
    steps: int,
    observation: str,
    seed: int = 0,
    ppo: dict[str, Any] | None = None,
    episodes: int = 256,
    device: str = "cpu",
    compile: bool = False,
    show: Callable[[dict[str, Any]], None] = lambda line: None,
    save_every: float = 30.0,
) -> tuple[Agent, Evaluation]:
    """Train and evaluate in the run directory `folder`; called again with the same arguments, it resumes.

    The result is written as `evaluation.json`, and not computed again if it is there.
    """
    levels = [world.Level.parse(level) for level in levels]

    def make_agent(envs: VectorEnv) -> Agent:
        settings = settings_for(envs.single_observation_space, **(ppo or {}))
        return Agent.made_for(envs, settings=settings, seed=seed, device=device, compile=compile)

    request = {
        "world": world.name,
        "levels": [level.model_dump(mode="json") for level in levels],
        "steps": steps,
        "observation": observation,
        "seed": seed,
        "ppo": ppo or {},
    }
    with Run(folder, request) as run:
        course = Course(run, world, observation, make_agent, seed, save_every, show)
        course.phase("training", levels, steps)
        if not (folder / "evaluation.json").exists():
            found = evaluate(course.agent, world, None, episodes, EVALUATION_SEED + seed, observation)
            run.write("evaluation", found.model_dump(mode="json"))
        return course.agent, Evaluation.model_validate(run.read("evaluation"))
