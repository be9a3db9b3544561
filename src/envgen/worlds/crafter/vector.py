"""Many Crafters at once as a Gymnasium vector environment, each with a level of its own."""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ..validation import check_all_used, check_count, check_render_mode, choose_threads
from ..vector import BatchVectorEnv
from . import observations
from .checks import RENDER_SIZE, check_observation, levels_of
from .constants import ACTIONS
from .engine import Engine
from .level import CrafterLevel
from .observations import OBSERVATION_MODES, make_observation_space, read_observation, read_observations
from .render import parse_image_size


class CrafterVectorEnv(BatchVectorEnv[Engine]):
    __doc__ = BatchVectorEnv.__doc__

    title, action_names = "Crafter", ACTIONS

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
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        check_observation(observation)
        check_render_mode(render_mode)
        num_envs = check_count("num_envs", num_envs)
        self.observation, self.size, self.render_size = (
            observation,
            parse_image_size(size),
            parse_image_size(render_size),
        )
        self._prepare(
            num_envs, make_observation_space(observation, self.size), autoreset_mode, render_mode, frames_per_second=10
        )
        if observation == "symbols":
            self.metadata["symbol_map"] = observations.SYMBOL_MAP
        threads = choose_threads(threads, num_envs, observation)
        levels = check_all_used(levels_of(level), num_envs, draw_levels)
        self.engine = Engine(num_envs, levels, draw_levels, OBSERVATION_MODES[observation], self.size, threads)

    def _levels_of(self, level: Any) -> list[CrafterLevel]:
        return levels_of(level)

    def _read(self, row: np.ndarray) -> Any:
        return read_observation(self.observation, self.size, row)

    def _read_all(self, rows: np.ndarray) -> Any:
        return read_observations(self.observation, self.size, rows)

    def _told(self, report: np.ndarray) -> dict[str, Any]:
        return {
            "level": report["level"],
            "episode_number": report["episode"],
            "seed": report["world_seed"],
            "player_pos": report["position"],
            "inventory": report["inventory"],
            "achievements": report["achievements"],
            "discount": report["discount"],
            "episode_length": report["step"],
            "episode_return": report["episode_return"],
        }
