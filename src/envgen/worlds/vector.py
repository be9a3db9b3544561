"""Many environments of one world as a Gymnasium vector environment, each with a level of its own.

A world's vector environment makes its engine and spaces, and says how observations and reports are read.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import validation as checks
from .engine import ENDED, NOT_STARTED, RUNNING, BatchEngine, FinishedEpisodes
from .render_window import RenderWindow

E = TypeVar("E", bound=BatchEngine)


class BatchVectorEnv(VectorEnv[Any, Any, Any], Generic[E]):
    """`num_envs` environments stepped together.

    Environment i plays `level[i % len(level)]`; with `draw_levels`, every episode draws one of them, repeatably from
    the environment's seed. `set_levels` replaces them for the episodes to come. Every info carries, for each
    environment, the level (its number in `levels`), the seed and what happened so far; with same-step autoreset,
    `final_obs` and `final_info` hold the end of the episodes that ended in this step.
    """

    title: ClassVar[str]
    engine: E
    action_names: tuple[str, ...]
    render_size: tuple[int, int]

    def _prepare(
        self, num_envs: int, space: gymnasium.Space, autoreset_mode: AutoresetMode | str, render_mode: str | None,
        frames_per_second: int,
    ) -> None:  # fmt: skip
        """What every world's constructor does before it makes its engine."""
        self.num_envs, self.render_mode = num_envs, render_mode
        self.autoreset_mode = checks.check_autoreset_mode(autoreset_mode)
        self.metadata = {
            "render_modes": list(checks.RENDER_MODES),
            "render_fps": frames_per_second,
            "autoreset_mode": self.autoreset_mode,
        }
        self.single_observation_space = space
        self.single_action_space = spaces.Discrete(len(self.action_names))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._window: RenderWindow | None = None

    def _levels_of(self, level: Any) -> list[Any]:
        """Levels from whatever a user may give."""
        raise NotImplementedError

    def _read(self, row: np.ndarray) -> Any:
        """One environment's observation from its bytes."""
        raise NotImplementedError

    def _read_all(self, rows: np.ndarray) -> Any:
        """All environments' observations as one batch; `rows` are the caller's own."""
        raise NotImplementedError

    def _told(self, report: np.ndarray) -> dict[str, Any]:
        """What an info says, from the engine's reports."""
        raise NotImplementedError

    @property
    def levels(self) -> list[Any]:
        """Every level this environment was ever given; `info["level"]` counts in it."""
        return self.engine.levels

    def set_levels(self, level: Any, draw_levels: bool = False) -> None:
        """The levels of all episodes that begin from now on. Nothing is compiled again."""
        levels = checks.check_all_used(self._levels_of(level), self.num_envs, draw_levels)
        self.engine.set_levels(levels, draw_levels)

    def reset(self, *, seed: int | Iterable[int | None] | None = None, options: dict | None = None):
        self._check_open()
        which = np.ones(self.num_envs, np.bool_)
        if options and "reset_mask" in options:
            which = np.asarray(options["reset_mask"], np.bool_)
            if which.shape != (self.num_envs,) or not which.any():
                raise ValueError(f"reset_mask must mark some of {self.num_envs} environments, not {which!r}")
        if seed is not None:
            for i, one in enumerate(checks.check_seeds(seed, self.num_envs)):
                if which[i] and one is not None:
                    self.engine.seed(i, one)
        for i in np.flatnonzero(which & ~self.engine.seeded):
            self.engine.seed(int(i), int(self.np_random.integers(2**31 - 1)))
        self.engine.reset(which)
        return self._observations(), self._infos()

    def step(self, actions: Any):
        self._check_open()
        begin = self._to_begin()
        ends = self.engine.step(checks.check_actions(actions, self.num_envs, self.action_names), begin)
        final = self.engine.autoreset() if self.autoreset_mode == AutoresetMode.SAME_STEP else None
        infos = self._infos()
        if final is not None:
            infos.update(self._finals(final))
        return self._observations(), ends.reward.copy(), ends.terminated.copy(), ends.truncated.copy(), infos

    def _to_begin(self) -> np.ndarray | None:
        """The mask of environments in which a step begins an episode; None if in none."""
        phase = self.engine.results.phase
        if np.count_nonzero(phase == RUNNING) == self.num_envs:  # as good as always, and quickly said
            return None
        if phase.min() == NOT_STARTED:
            raise ResetNeeded(f"environment {phase.argmin()} has not begun: call reset() before the first step()")
        over = phase == ENDED
        if self.autoreset_mode == AutoresetMode.DISABLED:
            raise ResetNeeded(
                f"environment {int(over.argmax())} has ended; reset it with options={{'reset_mask': ...}}"
            )
        return over

    def _observations(self) -> Any:
        return self._read_all(self.engine.observations())

    def _infos(self) -> dict[str, Any]:
        now = self.engine.results.report
        reports = now.view(np.uint8).copy().view(now.dtype)  # as bytes: records are copied field by field
        return self._named(reports, np.ones(self.num_envs, np.bool_))

    def _finals(self, final: FinishedEpisodes) -> dict[str, Any]:
        """How the episodes that ended in this step looked, as Gymnasium's final_obs and final_info."""
        ended = np.zeros(self.num_envs, np.bool_)
        seen = np.full(self.num_envs, None, dtype=object)
        last = np.zeros(self.num_envs, final.reports.dtype)
        ended[final.env_ids] = True
        last[final.env_ids] = final.reports
        for i, row in zip(final.env_ids, final.obs_bytes, strict=True):
            seen[i] = self._read(row)
        return {
            "final_obs": seen,
            "_final_obs": ended,
            "final_info": self._named(last, ended),
            "_final_info": ended.copy(),
        }

    def _named(self, report: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        """Reports as a Gymnasium info, each field with the mask of environments it holds for."""
        values = self._told(report)
        for name in tuple(values):
            values["_" + name] = mask
        return values

    def render(self):
        self._check_open()
        if self.render_mode is None:
            return None
        count = self.num_envs if self.render_mode == "rgb_array" else 1
        pictures = tuple(self.engine.render(i, self.render_size) for i in range(count))
        if self.render_mode == "rgb_array":
            return pictures
        self._window = self._window or RenderWindow(self.title, self.metadata["render_fps"])
        self._window.show(pictures[0])
        return None

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that decides what happens next, as arrays of bytes and numbers; `set_state` continues from it."""
        return self.engine.snapshot()

    def set_state(self, state: dict[str, np.ndarray]) -> Any:
        """Continue from a `get_state` of an environment made with the same arguments; returns the observations."""
        self.engine.restore(state)
        return self._observations()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("this environment was closed")

    def close_extras(self, **kwargs: Any) -> None:
        self.engine.close()
        if self._window is not None:
            self._window.close()
