"""One environment of a world as Gymnasium has it: what is the same for all worlds."""

from typing import Any, ClassVar, Generic, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from . import validation as checks
from .engine import BatchEngine
from .render_window import RenderWindow

E = TypeVar("E", bound=BatchEngine)


class SingleEnv(gymnasium.Env[Any, Any], Generic[E]):
    """A world's single environment makes its engine of one and its spaces, and says what is observed and told."""

    title: ClassVar[str]
    engine: E
    action_names: tuple[str, ...]
    render_size: tuple[int, int]
    _running = False
    _window: RenderWindow | None = None

    def _levels_of(self, level: Any) -> list[Any]:
        """Levels from whatever a user may give."""
        raise NotImplementedError

    def _observation(self) -> Any:
        raise NotImplementedError

    def _info(self, reward: float) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def level(self):
        """The level of this episode."""
        return self.engine.levels[self.engine.envs["level"][0]]

    def set_level(self, level: Any) -> None:
        """The level of the next episodes; of a list, each episode plays one drawn at random."""
        self.engine.set_levels(self._levels_of(level), True)

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
        return self._observation(), self._info(0.0)

    def step(self, action: Any):
        if not self._running:
            raise ResetNeeded("call reset() before the first step() and after an episode has ended")
        ends = self.engine.step(np.array([checks.check_action(action, self.action_names)]))
        reward, terminated, truncated = float(ends.reward[0]), bool(ends.terminated[0]), bool(ends.truncated[0])
        self._running = not (terminated or truncated)
        if self.render_mode == "human":
            self.render()
        return self._observation(), reward, terminated, truncated, self._info(reward)

    def render(self):
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode draws nothing; make(..., render_mode='rgb_array')")
            return None
        picture = self.engine.render(0, self.render_size)
        if self.render_mode == "rgb_array":
            return picture
        self._window = self._window or RenderWindow(self.title, self.metadata["render_fps"])
        self._window.show(picture)
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None
