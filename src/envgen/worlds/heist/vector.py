"""Many Heists at once as a Gymnasium vector environment, each with a level of its own."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ..validation import check_count, check_seed
from ..vector import BatchVectorEnv
from .checks import ACTION_SETS, RENDER_SIZE, check_names, check_render_size, levels_of, make_engine
from .engine import Engine
from .level import HeistLevel
from .observations import SYMBOL_MAP, read, read_all, space_of


class HeistVectorEnv(BatchVectorEnv[Engine]):
    """`num_envs` Heists stepped together.

    Environment i plays `level[i % len(level)]`; with `draw_levels`, every episode draws one of them, repeatably from
    the environment's seed. `set_levels` replaces them for the episodes to come. `num_levels` and `start_level` are the
    original's: with them the mazes' seeds are drawn from `start_level` to `start_level + num_levels - 1`.

    `reset(seed=s)` seeds environment i as the original's only environment with `rand_seed` s + i;
    `reset(options={"rand_seed": s})` all of them as the original's so many environments. Autoreset in the same step is
    the original's order of things; `final_obs` and `final_info` then hold the end of the episodes that ended.
    """

    title = "Heist"

    def __init__(
        self,
        num_envs: int = 1,
        level: Any = None,
        observation: str = "pixels",
        draw_levels: bool = False,
        num_levels: int = 0,
        start_level: int = 0,
        actions: str = "original",
        skin: str = "envgen",
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        check_names(observation, actions, skin, render_mode)
        num_envs = check_count("num_envs", num_envs)
        self.observation, self.action_names = observation, ACTION_SETS[actions]
        self.render_size = check_render_size(render_size)
        self._prepare(num_envs, space_of(observation), autoreset_mode, render_mode, frames_per_second=15)
        if observation == "symbols":
            self.metadata["symbol_map"] = SYMBOL_MAP
        self.engine = make_engine(
            num_envs, level, draw_levels, observation, threads, num_levels, start_level, skin
        )  # fmt: skip

    def reset(self, *, seed: int | Iterable[int | None] | None = None, options: dict | None = None):
        if options and "rand_seed" in options:
            if seed is not None or "reset_mask" in options:
                raise ValueError("the option rand_seed seeds all environments: give no seed or reset_mask beside it")
            self.engine.seed_as_original(check_seed(options["rand_seed"]))
        return super().reset(seed=seed, options=options)

    def _levels_of(self, level: Any) -> list[HeistLevel]:
        return levels_of(level)

    def _read(self, row: np.ndarray) -> Any:
        return read(self.observation, row)

    def _read_all(self, rows: np.ndarray) -> Any:
        return read_all(self.observation, rows)

    def _told(self, report: np.ndarray) -> dict[str, Any]:
        return {
            "level": report["level"],
            "episode_number": report["episode"],
            "seed": report["level_seed"],
            "player_pos": report["position"],
            "keys": report["has_key"].view(np.bool_),
            "achievements": report["achievements"],
            "possible": report["possible"].view(np.bool_),
            "shortest_path": report["shortest_path"],
            "bonus": report["bonus"],
            "episode_length": report["step"],
            "episode_return": report["episode_return"],
        }
