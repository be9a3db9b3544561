"""Many Crafters at once as a Gymnasium vector environment, each with a level of its own."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import checks, symbols
from .atlas import picture_size
from .engine import Engine, Final
from .level import CrafterLevel
from .play import NOT_BEGUN, OVER, REPORT
from .tables import ACTIONS
from .views import VIEWS, read, read_all, space_of
from .window import Window


class CrafterVectorEnv(VectorEnv):
    """`num_envs` environments stepped together.

    Environment i plays `level[i % len(level)]`; with `draw_levels`, every episode draws one of them, repeatably from
    the environment's seed. `set_levels` replaces them for the episodes to come. Every info carries, for each
    environment, the level (its number in `levels`), the seed and what happened so far; with same-step autoreset,
    `final_obs` and `final_info` hold the end of the episodes that ended in this step.
    """

    def __init__(
        self,
        num_envs: int = 1,
        level: Any = None,
        observation: str = "pixels",
        size: int | tuple[int, int] = 64,
        draw_levels: bool = False,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = checks.RENDER_SIZE,
    ):
        checks.check_observation(observation)
        checks.check_render_mode(render_mode)
        self.num_envs = checks.check_count("num_envs", num_envs)
        self.observation, self.size, self.render_mode = observation, picture_size(size), render_mode
        self.render_size = picture_size(render_size)
        self.autoreset_mode = checks.check_autoreset_mode(autoreset_mode)
        self.metadata = {
            "render_modes": list(checks.RENDER_MODES),
            "render_fps": 10,
            "autoreset_mode": self.autoreset_mode,
        }
        if observation == "symbols":
            self.metadata["symbol_map"] = symbols.MAP
        self.single_observation_space = space_of(observation, self.size)
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        threads = checks.choose_threads(threads, self.num_envs, observation)
        levels = checks.levels_for(level, self.num_envs, draw_levels)
        self.engine = Engine(self.num_envs, levels, draw_levels, VIEWS[observation], self.size, threads)
        self._window: Window | None = None

    @property
    def levels(self) -> list[CrafterLevel]:
        """Every level this environment was ever given; `info["level"]` counts in it."""
        return self.engine.levels

    def set_levels(self, level: Any, draw_levels: bool = False) -> None:
        """The levels of all episodes that begin from now on. Nothing is compiled again."""
        self.engine.set_levels(checks.levels_for(level, self.num_envs, draw_levels), draw_levels)

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
        phase = self.engine.ends.phase
        if phase.min() == NOT_BEGUN:
            raise ResetNeeded(f"environment {phase.argmin()} has not begun: call reset() before the first step()")
        actions = checks.check_actions(actions, self.num_envs)
        over = phase == OVER
        if self.autoreset_mode == AutoresetMode.DISABLED and over.any():
            raise ResetNeeded(
                f"environment {int(over.argmax())} has ended; reset it with options={{'reset_mask': ...}}"
            )
        ends = self.engine.step(actions, over)
        final = self.engine.begin_ended() if self.autoreset_mode == AutoresetMode.SAME_STEP else None
        infos = self._infos()
        if final is not None:
            infos.update(self._finals(final))
        return self._observations(), ends.reward.copy(), ends.terminated.copy(), ends.truncated.copy(), infos

    def _observations(self) -> Any:
        return read_all(self.observation, self.size, self.engine.seen())

    def _infos(self) -> dict[str, Any]:
        reports = self.engine.ends.now.view(np.uint8).copy().view(REPORT)  # as bytes: records are copied field by field
        return _named(reports, np.ones(self.num_envs, np.bool_))

    def _finals(self, final: Final) -> dict[str, Any]:
        """How the episodes that ended in this step looked, as Gymnasium's final_obs and final_info."""
        ended = np.zeros(self.num_envs, np.bool_)
        seen = np.full(self.num_envs, None, dtype=object)
        last = np.zeros(self.num_envs, REPORT)
        ended[final.which] = True
        last[final.which] = final.reports
        for i, row in zip(final.which, final.out, strict=True):
            seen[i] = read(self.observation, self.size, row)
        return {
            "final_obs": seen,
            "_final_obs": ended,
            "final_info": _named(last, ended),
            "_final_info": ended.copy(),
        }

    def render(self):
        self._check_open()
        if self.render_mode is None:
            return None
        count = self.num_envs if self.render_mode == "rgb_array" else 1
        pictures = tuple(self.engine.render(i, self.render_size) for i in range(count))
        if self.render_mode == "rgb_array":
            return pictures
        self._window = self._window or Window("Crafter", self.metadata["render_fps"])
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


def _named(report: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    """The fields of reports as a Gymnasium info, each with the mask of environments it holds for."""
    values = {
        "level": report["level"],
        "episode_number": report["episode"],
        "seed": report["world_seed"],
        "player_pos": report["position"],
        "inventory": report["inventory"],
        "achievements": report["achievements"],
        "discount": report["discount"],
        "episode_length": report["step"],
        "episode_return": report["total"],
    }
    return {**values, **{f"_{name}": mask for name in values}}
