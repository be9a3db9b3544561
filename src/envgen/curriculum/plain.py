"""The plainest curriculum: one phase of training in given levels, then an evaluation in the original world."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    probe = world.make(num_envs=1, observation=observation)
    settings = settings_for(probe.single_observation_space, **(ppo or {}))
    agent = Agent.made_for(probe, settings=settings, seed=seed, device=device, compile=compile)
    probe.close()
    request = {
        "world": world.name,
        "levels": [level.model_dump(mode="json") for level in levels],
        "steps": steps,
        "observation": observation,
        "seed": seed,
        "ppo": settings.model_dump(mode="json"),
    }
    lead = agent.team.rank == 0
    with Run(folder, request, lead) as run:
        Course(run, world, observation, agent, seed, save_every, show).phase("training", levels, steps)
        if lead and not (folder / "evaluation.json").exists():
            found = evaluate(agent, world, None, episodes, EVALUATION_SEED + seed, observation)
            run.write("evaluation", found.model_dump(mode="json"))
        agent.team.wait()
        return agent, Evaluation.model_validate(run.read("evaluation"))
