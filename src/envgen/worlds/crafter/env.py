"""Crafter as Gymnasium environments: one, or many stepped together.

With the default level an environment equals `crafter.Env`, step for step and bit for bit.
"""

from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode

from ..envs import EngineVectorEnv, EnvConfig, InfoField, SingleEnv, env_metadata
from ..observations import RENDER_SIZE
from .constants import ACTIONS, ITEMS, SKILLS
from .engine import Engine
from .observations import SYMBOL_MAP, observation_format, semantic_map
from .render import make_tile_grid, parse_image_size

METADATA = env_metadata(fps=10)
INFO_FIELDS = {
    "level": InfoField("level"),
    "episode_number": InfoField("episode"),
    "seed": InfoField("episode_seed"),
    "player_pos": InfoField("position"),
    "inventory": InfoField("inventory", ITEMS),
    "achievements": InfoField("achievements", tuple(skill.name for skill in SKILLS)),
    "discount": InfoField("discount"),
    "episode_length": InfoField("step"),
    "episode_return": InfoField("episode_return"),
}


def _make_config(
    observation: str, size: int | tuple[int, int], render_size: int | tuple[int, int]
) -> EnvConfig[Engine]:
    image_size = parse_image_size(size)
    fmt = observation_format(observation, image_size)
    return EnvConfig(
        observation=fmt,
        actions=ACTIONS,
        render_size=parse_image_size(render_size),
        make_engine=partial(Engine, observation=fmt.mode, image_size=image_size),
        symbol_map=SYMBOL_MAP,
        tile_grid=make_tile_grid(image_size),
    )


class CrafterEnv(SingleEnv[Engine]):
    """A Crafter environment. `reset(seed=s)` begins the first episode of `crafter.Env(seed=s)`, `reset()` the next one.

    Args:
        level: The level to play; of a list, each episode plays a random one. None is the original.
        observation: "pixels", "symbols", "symbols+unlocked" or "text"; see `ObservationFormat`.
        size: Width and height of the image in pixels, or a pair (width, height).
        render_mode: "rgb_array" or "human".
        render_size: As `size`, for `render()`.
    """

    metadata = METADATA
    engine_class, info_fields = Engine, INFO_FIELDS

    def __init__(
        self,
        level: Any = None,
        observation: str = "pixels",
        size: int | tuple[int, int] = 64,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        super().__init__(_make_config(observation, size, render_size), level, render_mode)

    def _extra_info(self) -> dict[str, Any]:
        return {"semantic": semantic_map(self.engine, 0)}


class CrafterVectorEnv(EngineVectorEnv[Engine]):
    """A vector of Crafter environments, stepped together. See `EngineVectorEnv` for levels, seeds and infos.

    Args:
        num_envs: The number of environments.
        levels: A level or a list of levels: environment i plays `levels[i % len(levels)]`. None is the original.
        observation: "pixels", "symbols", "symbols+unlocked" or "text"; see `ObservationFormat`.
        size: Width and height of the image in pixels, or a pair (width, height).
        sample_levels: Each episode plays a random one of the levels instead.
        threads: Threads to step with; by default as many as speed up stepping.
        autoreset_mode: One of Gymnasium's modes.
        render_mode: "rgb_array" or "human".
        render_size: As `size`, for `render()`.
    """

    metadata = METADATA
    engine_class, info_fields = Engine, INFO_FIELDS

    def __init__(
        self,
        num_envs: int = 1,
        levels: Any = None,
        observation: str = "pixels",
        size: int | tuple[int, int] = 64,
        sample_levels: bool = False,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        config = _make_config(observation, size, render_size)
        super().__init__(config, num_envs, levels, sample_levels, threads, autoreset_mode, render_mode)
