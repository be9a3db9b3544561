"""MiniGrid as Gymnasium environments: one, or many stepped together.

With the level of one of the package's environments (package_levels.py), an environment equals the package's, step for
step: grids, missions, observations and rewards of all episodes after a `reset(seed=...)`.
"""

from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode

from ..envs import EngineVectorEnv, EnvConfig, InfoField, SingleEnv, env_metadata
from ..observations import RENDER_SIZE
from ..validation import parse_image_size
from .constants import ACTIONS, SKILLS
from .engine import Engine
from .observations import SYMBOL_MAP, TILE_GRID, mission_text, observation_format
from .render import MAX_RENDER_SIZE, MIN_RENDER_SIZE

METADATA = env_metadata(fps=10)
_SKILL_NAMES = tuple(skill.name for skill in SKILLS)
INFO_FIELDS = {
    "level": InfoField("level"),
    "episode_number": InfoField("episode"),
    "task": InfoField("task"),
    "achievements": InfoField("achievements", _SKILL_NAMES),
    "possible": InfoField("possible", _SKILL_NAMES, is_bool=True),
    "episode_length": InfoField("step"),
    "episode_return": InfoField("episode_return"),
}


def _make_config(observation: str, render_size: int | tuple[int, int]) -> EnvConfig[Engine]:
    fmt = observation_format(observation)
    return EnvConfig(
        observation=fmt,
        actions=ACTIONS,
        render_size=parse_image_size(render_size, MIN_RENDER_SIZE, MAX_RENDER_SIZE),
        make_engine=partial(Engine, observation=fmt.mode),
        symbol_map=SYMBOL_MAP,
        tile_grid=TILE_GRID,
    )


class MiniGridEnv(SingleEnv[Engine]):
    """A MiniGrid environment.

    `reset(seed=s)` begins the episode that the package's environment begins with that seed; `reset()` begins the next.

    Args:
        level: The level to play; of a list, each episode plays a random one. None is the original.
        observation: "pixels", "symbols", "symbols+unlocked" or "text"; see `ObservationFormat`.
        render_mode: "rgb_array" or "human".
        render_size: Width and height of the images of `render()`, or a pair (width, height).
    """

    metadata = METADATA
    engine_class, info_fields = Engine, INFO_FIELDS

    def __init__(
        self,
        level: Any = None,
        observation: str = "pixels",
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        super().__init__(_make_config(observation, render_size), level, render_mode)

    def _extra_info(self) -> dict[str, Any]:
        return {"mission": mission_text(self.engine.envs["mission"][0])}

    @property
    def window_title(self) -> str:
        return f"{self.engine.title}: {mission_text(self.engine.envs['mission'][0])}"


class MiniGridVectorEnv(EngineVectorEnv[Engine]):
    """A vector of MiniGrid environments, stepped together. See `EngineVectorEnv` for levels and infos.

    Args:
        num_envs: The number of environments.
        levels: A level or a list of levels: environment i plays `levels[i % len(levels)]`. None is the original.
        observation: "pixels", "symbols", "symbols+unlocked" or "text"; see `ObservationFormat`.
        sample_levels: Each episode plays a random one of the levels instead.
        threads: Threads to step with; by default as many as speed up stepping.
        autoreset_mode: One of Gymnasium's modes.
        render_mode: "rgb_array" or "human".
        render_size: Width and height of the images of `render()`, or a pair (width, height).
    """

    metadata = METADATA
    engine_class, info_fields = Engine, INFO_FIELDS

    def __init__(
        self,
        num_envs: int = 1,
        levels: Any = None,
        observation: str = "pixels",
        sample_levels: bool = False,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        config = _make_config(observation, render_size)
        super().__init__(config, num_envs, levels, sample_levels, threads, autoreset_mode, render_mode)
