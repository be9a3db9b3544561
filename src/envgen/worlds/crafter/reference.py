"""The reference implementation, the PyPI package `crafter`: as a vector environment, and compared with this engine.

`ReferenceCrafterVectorEnv` evaluates agents in the package itself, without this project's engine, at a few hundred
steps per second. `ParityChecker` steps both with the same actions and compares them.

The package keeps the objects of a chunk in a Python set and picks one of them by its position, which depends on memory
addresses, so the package is not repeatable. `make_reference_env` replaces these sets by ones in insertion order, as in
this engine, and changes nothing else.
"""

import collections
from collections.abc import Iterable
from typing import Any

import crafter
import numpy as np
from crafter import engine
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .. import validation as checks
from . import constants as const
from .env import CrafterEnv
from .level import CrafterLevel
from .observations import (
    ASLEEP_INDEX,
    COLUMNS,
    DAYLIGHT_INDEX,
    ENTITY_OFFSET,
    ENTITY_SYMBOLS,
    FACING_INDEX,
    ITEM_OFFSET,
    NUM_CELLS,
    NUM_SYMBOLS,
    ROWS,
    SYMBOL_MAP,
    observation_format,
)
from .render import make_tile_grid, parse_image_size


class OrderedSet(dict):
    """A set in insertion order, with the methods that the package uses."""

    def add(self, item) -> None:
        self[item] = None

    def remove(self, item) -> None:
        del self[item]


class RepeatableWorld(engine.World):
    def reset(self, seed=None) -> None:
        super().reset(seed)
        self._chunks = collections.defaultdict(OrderedSet)


def make_reference_env(
    seed: int, size: int | tuple[int, int] = 64, length: int = const.MAX_EPISODE_STEPS
) -> crafter.Env:
    """`crafter.Env(seed=seed)`, made repeatable."""
    env = crafter.Env(size=parse_image_size(size), length=length, seed=seed)
    env._world.__class__ = RepeatableWorld
    return env


class ReferenceCrafterVectorEnv(VectorEnv):
    """`num_envs` environments of the package, with the seeds `seed`, `seed + 1`, ... that `Crafter.make` also uses.

    Args:
        num_envs: The number of environments.
        seed: The seed of the first environment.
        observation: "pixels", "symbols", "symbols+unlocked" or "text"; see `ObservationFormat`.
        episodes: Episodes per environment. An environment that has finished them is no longer stepped: its
            further episodes would not be counted.
        ordered: Make the package repeatable and equal to this engine; see `make_reference_env`.
    """

    def __init__(
        self, num_envs: int, seed: int, observation: str = "symbols", episodes: int = 1, ordered: bool = False
    ):
        self.num_envs, self.observation = checks.check_count("num_envs", num_envs), observation
        self.episodes = checks.check_count("episodes", episodes)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.format = observation_format(observation, (64, 64))
        if self.format.is_symbols:
            self.metadata["symbol_map"] = SYMBOL_MAP
        elif observation == "pixels":
            self.metadata["tile_grid"] = make_tile_grid((64, 64))
        self.single_observation_space = self.format.space
        self.single_action_space = spaces.Discrete(len(const.ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        make = make_reference_env if ordered else lambda seed: crafter.Env(seed=seed)
        self.envs = [make(seed=checks.check_seed(seed) + i) for i in range(num_envs)]

    def reset(self, *, seed: Any = None, options: dict | None = None):
        if seed is not None:
            raise ValueError(
                "set the seed when the environment is created, ReferenceCrafterVectorEnv(seed=...), not in reset()"
            )
        self._episodes_left = np.full(self.num_envs, self.episodes)
        self._obs = [self._observe(env, env.reset()) for env in self.envs]
        return self._batch_obs(), {}

    def step(self, actions: Any):
        actions = checks.check_actions(actions, self.num_envs, const.ACTIONS)
        rewards, terminated = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        truncated, achievements = terminated.copy(), np.zeros((self.num_envs, len(const.SKILLS)), np.int64)
        for i in np.flatnonzero(self._episodes_left):
            env = self.envs[i]
            image, rewards[i], done, info = env.step(int(actions[i]))
            if done:
                achievements[i] = [info["achievements"][skill.name] for skill in const.SKILLS]
                terminated[i] = info["discount"] == 0
                truncated[i] = not terminated[i]
                self._episodes_left[i] -= 1
                if self._episodes_left[i]:
                    image = env.reset()
            self._obs[i] = self._observe(env, image)
        infos = {"final_info": {"achievements": achievements}, "_final_info": terminated | truncated}
        return self._batch_obs(), rewards, terminated, truncated, infos

    def _observe(self, env: crafter.Env, image: np.ndarray) -> Any:
        if self.observation == "pixels":
            return image
        assert env._player is not None
        counts = env._player.achievements
        return self.format.decode(
            read_reference_symbols(env), lambda: np.array([counts[skill.name] > 0 for skill in const.SKILLS])
        )

    def _batch_obs(self) -> Any:
        return tuple(self._obs) if self.observation == "text" else np.stack(self._obs)


def read_reference_symbols(env: crafter.Env) -> np.ndarray:
    """The `symbols` observation of an environment of the package, (NUM_SYMBOLS,) uint8."""
    world, player = env._world, env._player
    assert player is not None, "call reset() first"
    symbols = np.zeros(NUM_SYMBOLS, np.uint8)
    for cell in range(NUM_CELLS):
        dx, dy = cell % COLUMNS - COLUMNS // 2, cell // COLUMNS - ROWS // 2
        material, entity = world[player.pos + np.array([dx, dy])]
        symbols[cell] = const.MATERIALS.index(material) if material else const.OUTSIDE
        if entity is not None and entity is not player:
            symbols[ENTITY_OFFSET + cell] = ENTITY_SYMBOLS.index(_entity_symbol(entity))
    symbols[ITEM_OFFSET:FACING_INDEX] = [player.inventory[item] for item in const.ITEMS]
    symbols[FACING_INDEX] = 0 if player.sleeping else 1 + const.DIRECTION_OFFSETS.index(tuple(player.facing))
    symbols[ASLEEP_INDEX] = player.sleeping
    symbols[DAYLIGHT_INDEX] = int(255 * world.daylight)
    return symbols


def _entity_symbol(entity: Any) -> str:
    kind = type(entity).__name__
    if kind == "Arrow":
        return f"arrow {const.DIRECTIONS[const.DIRECTION_OFFSETS.index(tuple(entity.facing))]}"
    if kind == "Plant":
        return "ripe plant" if entity.ripe else "sapling"
    return {"Cow": "cow", "Zombie": "zombie", "Skeleton": "skeleton"}[kind]


class ParityError(AssertionError):
    """This engine and the reference differ. The message says in what, when and how."""


class ParityChecker:
    """Steps `env` (this engine) and `reference_env` (the package) with the same actions and compares every step.

    Raises ParityError at the first difference.
    """

    def __init__(self, seed: int, size: int | tuple[int, int] = 64, length: int = const.MAX_EPISODE_STEPS):
        self.seed, self.steps = seed, 0
        self.env = CrafterEnv(CrafterLevel(length=length), size=size)
        self.reference_env = make_reference_env(seed, size, length)
        self._has_reset = False

    def reset(self) -> None:
        expected = self.reference_env.reset()
        obs, info = self.env.reset(seed=None if self._has_reset else self.seed)
        self._has_reset = True
        self._compare("observation", obs, expected)
        self._compare("player_pos", info["player_pos"], self.reference_env._player.pos)  # pyright: ignore[reportOptionalMemberAccess]
        self._compare("semantic", info["semantic"], self.reference_env._sem_view())

    def step(self, action: int) -> bool:
        """Take an action in both. Returns whether the episode ended."""
        self.steps += 1
        expected, expected_reward, done, expected_info = self.reference_env.step(action)
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._compare("observation", obs, expected)
        self._compare("reward", reward, expected_reward)
        self._compare("done", terminated or truncated, bool(done))
        for name in ("discount", "inventory", "achievements", "player_pos", "semantic"):
            self._compare(name, info[name], expected_info[name])
        rng = self.env.engine.state.envs["rng"][0, :-1]
        self._compare("random generator", rng, self.reference_env._world.random.get_state(legacy=False)["state"]["key"])
        return bool(done)

    def step_all(self, actions: Iterable[int]) -> None:
        """Take actions one after another, starting a new episode whenever one ends."""
        if not self._has_reset:
            self.reset()
        for action in actions:
            if self.step(action):
                self.reset()

    def _compare(self, name: str, actual, expected) -> None:
        is_equal = np.array_equal(actual, expected) if isinstance(actual, np.ndarray) else actual == expected
        if not is_equal:
            raise ParityError(
                f"{name} of seed {self.seed} after {self.steps} steps: envgen has {actual}, the reference {expected}"
            )
