"""One Crafter as a Gymnasium environment. With the default level it is `crafter.Env`, step for step and bit for bit."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from . import checks
from .atlas import picture_size
from .engine import Engine
from .tables import ACTIONS, ITEMS, SKILLS
from .views import VIEWS, read, semantic_map, space_of
from .window import Window


class CrafterEnv(gymnasium.Env):
    """`reset(seed=s)` is `crafter.Env(seed=s)`'s first episode; `reset()` its next one."""

    metadata = {"render_modes": list(checks.RENDER_MODES), "render_fps": 10}  # noqa: RUF012  as Gymnasium has it

    def __init__(
        self,
        level: Any = None,
        observation: str = "pixels",
        size: int | tuple[int, int] = 64,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = checks.RENDER_SIZE,
    ):
        checks.check_observation(observation)
        checks.check_render_mode(render_mode)
        self.observation, self.size, self.render_mode = observation, picture_size(size), render_mode
        self.render_size = picture_size(render_size)
        self.observation_space = space_of(observation, self.size)
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.engine = Engine(1, checks.levels_of(level), True, VIEWS[observation], self.size, threads=1)
        self._running = False
        self._window: Window | None = None

    @property
    def level(self):
        """The level of this episode."""
        return self.engine.levels[self.engine.state.envs["level"][0]]

    def set_level(self, level: Any) -> None:
        """The level of the next episodes; of a list, each episode plays one drawn at random."""
        self.engine.set_levels(checks.levels_of(level), True)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        seed = None if seed is None else checks.check_seed(seed)
        super().reset(seed=seed)
        if seed is not None:
            self.engine.seed(0, seed)
        elif not self.engine.seeded[0]:
            self.engine.seed(0, int(self.np_random.integers(2**31 - 1)))
        self.engine.reset(np.ones(1, np.bool_))
        self._running = True
        if self.render_mode == "human":
            self.render()
        return read(self.observation, self.size, self.engine.out[0]), self._info(0.0)

    def step(self, action: Any):
        if not self._running:
            raise ResetNeeded("call reset() before the first step() and after an episode has ended")
        ends = self.engine.step(np.array([checks.check_action(action)]))
        reward, terminated, truncated = float(ends.reward[0]), bool(ends.terminated[0]), bool(ends.truncated[0])
        self._running = not (terminated or truncated)
        if self.render_mode == "human":
            self.render()
        return read(self.observation, self.size, self.engine.out[0]), reward, terminated, truncated, self._info(reward)

    def _info(self, reward: float) -> dict[str, Any]:
        now = self.engine.ends.now[0]
        return {
            "inventory": dict(zip(ITEMS, now["inventory"].tolist(), strict=True)),
            "achievements": dict(zip((skill.name for skill in SKILLS), now["achievements"].tolist(), strict=True)),
            "discount": float(now["discount"]),
            "semantic": semantic_map(self.engine, 0),
            "player_pos": now["position"].copy(),
            "reward": reward,
            "level": int(now["level"]),
            "episode_number": int(now["episode"]),
            "seed": int(now["world_seed"]),
        }

    def render(self):
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode draws nothing; make(..., render_mode='rgb_array')")
            return None
        picture = self.engine.render(0, self.render_size)
        if self.render_mode == "rgb_array":
            return picture
        self._window = self._window or Window("Crafter", self.metadata["render_fps"])
        self._window.show(picture)
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None
