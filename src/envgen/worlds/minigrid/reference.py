"""The reference implementation, the PyPI package `minigrid`, compared with this engine step by step.

`compare_environment` plays one of the package's environments beside this engine: from each reset, with equal actions,
everything that an agent receives must be equal: image, direction, mission, reward, terminated and truncated; after each
step the position of the agent too.
"""

import importlib.util
from typing import NamedTuple

import gymnasium
import numpy as np

from .constants import ACTIONS, DROP, FORWARD, PICK_UP, SAY_DONE, TOGGLE
from .env import MiniGridVectorEnv
from .expert_policy import expert_actions
from .observations import decode_symbols
from .package_levels import package_level
from .state import to_position

VERSION = "3.2.0"  # the package's, with which this engine was compared
ACTION_WEIGHTS = np.ones(len(ACTIONS))
ACTION_WEIGHTS[[FORWARD, PICK_UP, DROP, TOGGLE, SAY_DONE]] = 4, 1.5, 0.5, 1.5, 0.05
ACTION_PROBABILITIES = ACTION_WEIGHTS / ACTION_WEIGHTS.sum()
EXPERT_SHARES = (0.0, 1.0, 0.8, 0.3)  # of the actions of an episode


class ParityResult(NamedTuple):
    """How much was compared, and the first difference found."""

    steps: int
    episodes: int
    successes: int
    difference: str | None


def is_installed() -> bool:
    return importlib.util.find_spec("minigrid") is not None


def make_reference(env_id: str) -> gymnasium.Env:
    """The package's environment. Importing the package registers it."""
    importlib.import_module("minigrid")
    return gymnasium.make(env_id, disable_env_checker=True).unwrapped


def compare_environment(env_id: str, steps: int, seed: int = 0, reset_every: int = 200) -> ParityResult:
    """Play `steps` steps with both: random actions, the expert's, and mixtures of them, from episode to episode.

    Args:
        reset_every: Begin a new episode after this many steps even if the old one has not ended. Every fourth reset
            sets a new seed; the others continue the random stream.
    """
    reference = make_reference(env_id)
    envs = MiniGridVectorEnv(1, package_level(env_id), "symbols", threads=1, autoreset_mode="Disabled")
    rng = np.random.default_rng([seed, 1])
    total = episodes = successes = 0
    while total < steps:
        new_seed = seed + episodes if episodes % 4 == 0 else None
        expected, _ = reference.reset(seed=new_seed)
        symbols, _ = envs.reset(seed=new_seed)
        episodes += 1
        if difference := _first_difference(reference, envs, expected, symbols[0]):
            return ParityResult(total, episodes, successes, f"{env_id}, reset {episodes}: {difference}")
        expert_share = EXPERT_SHARES[episodes % len(EXPERT_SHARES)]
        for step in range(1, reset_every + 1):
            action = int(rng.choice(len(ACTIONS), p=ACTION_PROBABILITIES))
            if rng.random() < expert_share:
                action = int(expert_actions(envs.engine)[0])
            expected, reward, terminated, truncated, _ = reference.step(action)
            symbols, rewards, all_terminated, all_truncated, _ = envs.step(np.array([action]))
            total += 1
            difference = _first_difference(reference, envs, expected, symbols[0])
            results = (float(reward), bool(terminated), bool(truncated))
            actual = (float(rewards[0]), bool(all_terminated[0]), bool(all_truncated[0]))
            if results != actual:
                difference = f"reward, terminated and truncated are {actual}, not {results}"
            if difference:
                where = f"{env_id}, reset {episodes}, step {step}, action {ACTIONS[action]}"
                return ParityResult(total, episodes, successes, f"{where}: {difference}")
            successes += float(reward) > 0
            if terminated or truncated:
                break
    return ParityResult(total, episodes, successes, None)


def _first_difference(reference: gymnasium.Env, envs: MiniGridVectorEnv, expected: dict, symbols: np.ndarray) -> str:
    actual = decode_symbols(symbols)
    for name in ("mission", "direction"):
        if actual[name] != expected[name]:
            return f"{name} is {actual[name]!r}, not {expected[name]!r}"
    if not np.array_equal(actual["image"], expected["image"]):
        column, row, plane = (int(k) for k in np.argwhere(actual["image"] != expected["image"])[0])
        return f"the image differs in column {column}, row {row}, plane {plane}"
    position = to_position(envs.engine.envs["cell"][0])
    wanted = tuple(int(k) for k in reference.get_wrapper_attr("agent_pos"))
    return "" if position == wanted else f"the agent is at {position}, not {wanted}"
