"""Heist as Gymnasium environments: one, or many stepped together.

With the default level an environment equals Procgen's, step for step and bit for bit.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ..envs import EngineVectorEnv, EnvConfig, InfoField, SingleEnv, env_metadata
from ..observations import RENDER_SIZE
from ..validation import check_choice, check_seed, parse_image_size
from .constants import ACTIONS, COLORS, NUM_MOVES, SKILLS
from .engine import ALL_SEEDS, Engine
from .observations import SYMBOL_MAP, observation_format
from .render import MAX_RENDER_SIZE, MIN_RENDER_SIZE
from .textures import SKINS

ACTION_SETS = {"procgen": ACTIONS, "moves": ACTIONS[:NUM_MOVES]}
METADATA = env_metadata(fps=15)
_SKILL_NAMES = tuple(skill.name for skill in SKILLS)
INFO_FIELDS = {
    "level": InfoField("level"),
    "episode_number": InfoField("episode"),
    "seed": InfoField("level_seed"),
    "player_pos": InfoField("position"),
    "held_keys": InfoField("has_key", COLORS, is_bool=True),
    "achievements": InfoField("achievements", _SKILL_NAMES),
    "possible": InfoField("possible", _SKILL_NAMES, is_bool=True),
    "shortest_path": InfoField("shortest_path"),
    "bonus": InfoField("bonus"),
    "episode_length": InfoField("step"),
    "episode_return": InfoField("episode_return"),
}


def check_seed_range(num_levels: Any, start_level: Any) -> None:
    """Check Procgen's `num_levels` (0 for all) and `start_level` (the first one)."""
    for name, value in (("num_levels", num_levels), ("start_level", start_level)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ValueError(f"{name} must be an integer of at least 0, not {value!r}")
    if start_level + num_levels > ALL_SEEDS:
        raise ValueError(f"start_level {start_level} + num_levels {num_levels} must not exceed {ALL_SEEDS}")


def _make_config(
    observation: str, num_levels: int, start_level: int, actions: str, skin: str,
    render_size: int | tuple[int, int],
) -> EnvConfig[Engine]:  # fmt: skip
    check_choice("actions", actions, ACTION_SETS)
    check_choice("skin", skin, SKINS)
    check_seed_range(num_levels, start_level)
    fmt = observation_format(observation)
    return EnvConfig(
        observation=fmt,
        actions=ACTION_SETS[actions],
        render_size=parse_image_size(render_size, MIN_RENDER_SIZE, MAX_RENDER_SIZE),
        make_engine=partial(
            Engine, observation=fmt.mode, num_levels=int(num_levels), start_level=int(start_level), skin=skin
        ),
        symbol_map=SYMBOL_MAP,
    )


class HeistEnv(SingleEnv[Engine]):
    """A Heist environment.

    `reset(seed=s)` begins the first episode of `ProcgenEnv(num_envs=1, rand_seed=s)`; `reset()` begins the next one.

    Args:
        level: The level to play; of a list, each episode plays a random one. None is the original.
        observation: "pixels", "symbols", "symbols+unlocked" or "text"; see `ObservationFormat`.
        num_levels: As in Procgen: the number of different mazes; 0 for all.
        start_level: As in Procgen: the seed of the first of these mazes.
        actions: "procgen" has Procgen's 15 actions, "moves" only the 9 that do something.
        skin: The textures of pixel observations and of `render()`: "envgen" or "procgen".
        render_mode: "rgb_array" or "human".
        render_size: Width and height of the images of `render()`, or a pair (width, height).
    """

    metadata = METADATA
    engine_class, info_fields = Engine, INFO_FIELDS

    def __init__(
        self,
        level: Any = None,
        observation: str = "pixels",
        num_levels: int = 0,
        start_level: int = 0,
        actions: str = "procgen",
        skin: str = "envgen",
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        super().__init__(
            _make_config(observation, num_levels, start_level, actions, skin, render_size), level, render_mode
        )


class HeistVectorEnv(EngineVectorEnv[Engine]):
    """A vector of Heist environments, stepped together. See `EngineVectorEnv` for levels and infos.

    After `reset(seed=s)`, environment i equals `ProcgenEnv(num_envs=1, rand_seed=s + i)`. After
    `reset(options={"rand_seed": s})`, all environments together equal `ProcgenEnv(num_envs=num_envs, rand_seed=s)`, if
    the autoreset mode is same-step, the default.

    Args:
        num_envs: The number of environments.
        levels: A level or a list of levels: environment i plays `levels[i % len(levels)]`. None is the original.
        observation: "pixels", "symbols", "symbols+unlocked" or "text"; see `ObservationFormat`.
        sample_levels: Each episode plays a random one of the levels instead.
        num_levels: As in Procgen: the number of different mazes; 0 for all.
        start_level: As in Procgen: the seed of the first of these mazes.
        actions: "procgen" has Procgen's 15 actions, "moves" only the 9 that do something.
        skin: The textures of pixel observations and of `render()`: "envgen" or "procgen".
        threads: Threads to step with; by default as many as speed up stepping.
        autoreset_mode: One of Gymnasium's modes.
        render_mode: "rgb_array" or "human".
        render_size: Width and height of the images of `render()`, or a pair (width, height).
    """

    metadata = METADATA
    engine_class, info_fields = Engine, INFO_FIELDS
    reset_options = ("reset_mask", "rand_seed")

    def __init__(
        self,
        num_envs: int = 1,
        levels: Any = None,
        observation: str = "pixels",
        sample_levels: bool = False,
        num_levels: int = 0,
        start_level: int = 0,
        actions: str = "procgen",
        skin: str = "envgen",
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        config = _make_config(observation, num_levels, start_level, actions, skin, render_size)
        super().__init__(config, num_envs, levels, sample_levels, threads, autoreset_mode, render_mode)

    def _seed_envs(self, seed: Any, mask: np.ndarray, options: Mapping[str, Any]) -> None:
        if "rand_seed" not in options:
            super()._seed_envs(seed, mask, options)
            return
        if seed is not None or "reset_mask" in options:
            raise ValueError(
                "the option rand_seed seeds all environments; it cannot be combined with seed or reset_mask"
            )
        self.engine.seed_like_procgen(check_seed(options["rand_seed"]))
