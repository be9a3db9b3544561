"""`envgen demo` and `envgen bench`: a short tour, and how fast everything is on this machine."""

import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import numpy as np
from tyro.conf import Positional

from envgen.imports import is_installed
from envgen.worlds.registry import make_world
from envgen.worlds.world import World, sample_actions

from .common import UserError, prepare_png, require_extra, require_seed, write_png
from .options import default

DEMO_LEVELS = {
    "original, seed 0": {},
    "original, seed 1": {},
    "biome: grassland": {"biome": "grassland"},
    "biome: mountain": {"biome": "mountain"},
    "biome: beach": {"biome": "beach"},
    "iron and diamonds very common": {"iron": "very common", "diamonds": "very common"},
    "lava and tunnels very common": {"lava": "very common", "tunnels": "very common"},
    "table, water, ripe plant, cows, cave near": {
        "near": {"table": True, "water": True, "plant": "ripe", "cows": 3, "cave": True}
    },
}


def demo(out: Path = Path("out"), seed: int = 0) -> None:
    """Draw some levels, then train an agent in EnvGen's loop for a few minutes, with levels from the expert rules.

    Args:
        out: The folder to write to.
        seed: Random seed.
    """
    require_seed(seed)
    require_extra("train")
    from .report import report
    from .train import train_command

    image_file = prepare_png(out / "crafter_levels.png")
    write_png(make_world("crafter").render_levels(DEMO_LEVELS), image_file)
    print(f"Environments of {len(DEMO_LEVELS)} levels: {image_file}\n")
    folder = out / f"demo-{seed}"
    train_command([])("crafter", preset="quick", designer="expert", seed=seed, folder=folder)
    print("\nA report of the run, to open in a browser:")
    report((folder,))


def bench(world: Annotated[str, Positional, default("crafter", "[WORLD]")] = "crafter", seconds: float = 3.0) -> None:
    """Measure the speed of environments and of learning on this machine. `benchmarks/` compares with other projects.

    Args:
        world: The world to measure.
        seconds: Duration of each measurement.
    """
    if not seconds >= 0.1 or seconds == float("inf"):
        raise UserError(f"--seconds must be at least 0.1, not {seconds}")
    chosen = make_world(world)
    print(f"{chosen.name}, 256 environments, random actions, resets included:")
    for observation in (name for name in chosen.observations if name != "text"):
        print(f"  {observation:8} {_env_speed(chosen, observation, seconds):>9,.0f} steps/s")
    if not is_installed("torch"):
        print("To measure learning: pip install 'envgen[train]'")
        return
    speed = _learning_speed(chosen, seconds)
    print(f"learning from {chosen.default_observation}, everything included: {speed:,.0f} steps/s")


def _env_speed(world: World, observation: str, seconds: float, num_envs: int = 256) -> float:
    with closing(world.make(num_envs=num_envs, seed=0, observation=observation)) as envs:
        envs.reset()
        actions = sample_actions(envs.single_action_space, (64, num_envs), np.random.default_rng(0))
        for step in range(200):  # until the environments are at different points of their episodes
            envs.step(actions[step % 64])
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            envs.step(actions[steps % 64])
            steps += 1
        return steps * num_envs / (time.perf_counter() - start)


def _learning_speed(world: World, seconds: float) -> float:
    from envgen.curriculum.trainer import make_learner

    observation = world.default_observation
    learner = make_learner(world, observation, alone=True)
    batch_size = 64 * learner.settings.num_envs
    with closing(world.make(num_envs=learner.settings.num_envs, seed=0, observation=observation)) as envs:
        learner.train(envs, batch_size)  # compile and warm up
        start, start_steps = time.perf_counter(), learner.steps
        while time.perf_counter() - start < seconds:
            learner.train(envs, batch_size)
        return (learner.steps - start_steps) / (time.perf_counter() - start)
