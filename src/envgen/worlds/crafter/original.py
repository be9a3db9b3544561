"""The game of the `crafter` package as a vector environment: where an agent trained here shows what it can do there.

Nothing of our engine runs. `symbols` are read off the package's own map and creatures. It plays at the package's own
pace, a few hundred steps a second.
"""

from typing import Any

import crafter
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import checks, observations
from . import constants as const
from .reference import make_original

_SIGN_OF = {"Cow": "cow", "Zombie": "zombie", "Skeleton": "skeleton"}


class OriginalCrafterVectorEnv(VectorEnv):
    """`num_envs` games of the package, seeded `seed`, `seed + 1`, ... as `Crafter.make` seeds ours.

    Each plays `episodes` episodes, then stands still: slow environments should not play what nobody counts. With
    `ordered`, the package's sets are in order of insertion, which makes it repeatable and equal to our engine.
    """

    def __init__(
        self, num_envs: int, seed: int, observation: str = "symbols", episodes: int = 1, ordered: bool = False
    ):
        checks.check_observation(observation)
        self.num_envs, self.observation = checks.check_count("num_envs", num_envs), observation
        self.episodes = checks.check_count("episodes", episodes)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "symbol_map": observations.SYMBOL_MAP}
        self.single_observation_space = observations.make_observation_space(observation, (64, 64))
        self.single_action_space = spaces.Discrete(len(const.ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        make = make_original if ordered else lambda seed: crafter.Env(seed=seed)
        self.games = [make(seed=checks.check_seed(seed) + i) for i in range(num_envs)]

    def reset(self, *, seed: Any = None, options: dict | None = None):
        if seed is not None:
            raise ValueError("the package takes its seed when it is made: PublishedCrafter(seed=...)")
        self._left = np.full(self.num_envs, self.episodes)
        self._seen = [self._read(game, game.reset()) for game in self.games]
        return self._batch(), {}

    def step(self, actions: Any):
        actions = checks.check_actions(actions, self.num_envs)
        rewards, terminated = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        truncated, achieved = terminated.copy(), np.zeros((self.num_envs, len(const.SKILLS)), np.int64)
        for i in np.flatnonzero(self._left):
            game = self.games[i]
            picture, rewards[i], done, info = game.step(int(actions[i]))
            if done:
                achieved[i] = [info["achievements"][skill.name] for skill in const.SKILLS]
                terminated[i] = info["discount"] == 0
                truncated[i] = not terminated[i]
                self._left[i] -= 1
                if self._left[i]:
                    picture = game.reset()
            self._seen[i] = self._read(game, picture)
        infos = {"final_info": {"achievements": achieved}, "_final_info": terminated | truncated}
        return self._batch(), rewards, terminated, truncated, infos

    def _read(self, game: crafter.Env, picture: np.ndarray) -> Any:
        if self.observation == "pixels":
            return picture
        seen = symbols_of_original(game)
        return seen if self.observation == "symbols" else observations.describe_symbols(seen)

    def _batch(self) -> Any:
        return tuple(self._seen) if self.observation == "text" else np.stack(self._seen)


def symbols_of_original(game: crafter.Env) -> np.ndarray:
    """What our `symbols` would say of a game of the package, (SIZE,) uint8."""
    world, player = game._world, game._player
    assert player is not None, "the game has not begun"
    out = np.zeros(observations.SIZE, np.uint8)
    for cell in range(observations.CELLS):
        dx, dy = (
            cell % observations.COLUMNS - observations.COLUMNS // 2,
            cell // observations.COLUMNS - observations.ROWS // 2,
        )
        material, entity = world[player.pos + np.array([dx, dy])]
        out[cell] = const.MATERIALS.index(material) if material else const.OUTSIDE
        if entity is not None and entity is not player:
            out[observations.SIGN_AT + cell] = observations.SIGNS.index(_sign(entity))
    out[observations.ITEM_AT : observations.FACING_AT] = [player.inventory[item] for item in const.ITEMS]
    out[observations.FACING_AT] = 0 if player.sleeping else 1 + const.DIRECTION_OFFSETS.index(tuple(player.facing))
    out[observations.ASLEEP_AT] = player.sleeping
    out[observations.LIGHT_AT] = int(255 * world.daylight)
    return out


def _sign(entity: Any) -> str:
    kind = type(entity).__name__
    if kind == "Arrow":
        return f"arrow {const.DIRECTIONS[const.DIRECTION_OFFSETS.index(tuple(entity.facing))]}"
    if kind == "Plant":
        return "ripe plant" if entity.ripe else "sapling"
    return _SIGN_OF[kind]
