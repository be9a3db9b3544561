"""Compare the walker with Gymnasium's `BipedalWalker-v3` and `BipedalWalkerHardcore-v3`, step by step."""

from typing import Any

import gymnasium
import numpy as np

from ..env_group import rng_from_words, rng_to_words
from .env import NUM_JOINTS, load_physics
from .world import Walker

REFERENCE_LEVELS: dict[str, dict[str, Any]] = {"BipedalWalker-v3": {}, "BipedalWalkerHardcore-v3": {"hardcore": True}}
SCRIPTED_SHARES = 0.0, 1.0, 0.9  # of the actions of an episode that Gymnasium's scripted walker chooses
RANDOM_TORQUE = 0.3  # larger random torques make the walker fall within a few steps


def first_difference(env_id: str, steps: int, seed: int = 0) -> str:
    """Play `steps` steps with both, in episodes of random and scripted actions and of mixtures.

    The reference of each episode is a new environment (see `physics`) with the state of this one's random generator.
    Returns where and how they differ, or an empty text.
    """
    env = Walker(num_workers=1).single(REFERENCE_LEVELS[env_id])
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    total = episodes = length = 0
    difference = ""
    while total < steps and not difference:
        reference = gymnasium.make(env_id)
        reference.unwrapped.np_random = rng_from_words(rng_to_words(env.np_random))
        expected, _ = reference.reset()
        obs, _ = env.reset()
        episodes += 1
        scripted_share = SCRIPTED_SHARES[episodes % len(SCRIPTED_SHARES)]
        heuristic, ended, length = load_physics().new_heuristic(), False, 0
        if not np.array_equal(obs, expected):
            difference = "the observations differ"
        while not ended and not difference and total < steps:
            scripted = heuristic.step_heuristic(expected)
            action = rng.uniform(-RANDOM_TORQUE, RANDOM_TORQUE, NUM_JOINTS)
            action = (scripted if rng.random() < scripted_share else action).astype(np.float32)
            expected, reward, terminated, truncated, _ = reference.step(action)
            obs, *actual, _ = env.step(action)
            total, length, ended = total + 1, length + 1, terminated or truncated
            if actual != [reward, terminated, truncated]:
                difference = f"reward, terminated and truncated are {actual}, not {[reward, terminated, truncated]}"
            elif not np.array_equal(obs, expected):
                difference = "the observations differ"
        reference.close()
    env.close()
    return f"{env_id}, episode {episodes}, step {length}: {difference}" if difference else ""
