"""`envgen demo`, `envgen bench`: what this is, in a few minutes, and how fast it is here."""

import time
from pathlib import Path

import numpy as np

from .common import writable

EIGHT = {
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
    """Draw some worlds, then train an agent whose levels the expert designs: EnvGen's loop, a few minutes long.

    Args:
        out: The folder to write to.
        seed: Of everything random.
    """
    from envgen.worlds.crafter.world import Crafter

    from .train import train

    picture = writable(out / "crafter_worlds.png")
    Crafter().render_levels(EIGHT).save(picture)
    print(f"Eight worlds of eight levels: {picture}\n")
    train("crafter", preset="quick", designer="expert", seed=seed, folder=out / f"demo-{seed}")


def bench(world: str = "crafter", seconds: float = 3.0) -> None:
    """Measure how fast worlds and learning are here. `benchmarks/` has the comparisons with others.

    Args:
        world: Which world.
        seconds: How long to measure each.
    """
    from .common import world_named

    chosen = world_named(world)
    print(f"{chosen.name}, 256 environments, random actions, resets included:")
    for observation in (view for view in chosen.observations if view != "text"):
        print(f"  {observation:8} {_world_speed(chosen, observation, seconds):>9,.0f} steps/s")
    try:
        import torch  # noqa: F401
    except ImportError:
        print("Learning is measured with pip install 'envgen[train]'.")
        return
    print(f"learning from symbols, all included: {_learning_speed(chosen, seconds):,.0f} steps/s")


def _world_speed(world, observation: str, seconds: float, count: int = 256) -> float:
    envs = world.make(num_envs=count, seed=0, observation=observation)
    envs.reset()
    actions = np.random.default_rng(0).integers(0, len(world.actions), (64, count))
    for step in range(200):  # until the environments are spread over their episodes
        envs.step(actions[step % 64])
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        envs.step(actions[steps % 64])
        steps += 1
    return steps * count / (time.perf_counter() - start)


def _learning_speed(world, seconds: float) -> float:
    from envgen.agents.ppo import PPO

    probe = world.make(num_envs=1, observation="symbols")
    agent = PPO.for_envs(probe)
    envs = world.make(num_envs=agent.settings.num_envs, seed=0, observation="symbols")
    agent.train(envs, agent.settings.batch_size)  # warm
    start, before = time.perf_counter(), agent.steps
    while time.perf_counter() - start < seconds:
        agent.train(envs, agent.settings.batch_size)
    return (agent.steps - before) / (time.perf_counter() - start)
