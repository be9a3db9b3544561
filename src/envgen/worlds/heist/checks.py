"""What a user passes to make a Heist environment, checked before anything runs."""

from typing import Any

import numpy as np

from envgen.settings import nearest

from .. import validation as checks
from .constants import ACTIONS, NUM_MOVES
from .engine import ALL_SEEDS, Engine
from .level import HeistLevel
from .observations import VIEWS
from .render import MAX_RENDER_SIZE, MIN_RENDER_SIZE
from .textures import SKINS

ACTION_SETS = {"original": ACTIONS, "moves": ACTIONS[:NUM_MOVES]}
RENDER_SIZE = (576, 576)  # of pictures for people


def levels_of(level: Any) -> list[HeistLevel]:
    """A list of levels from a level, a mapping, JSON text, None (the original), or a sequence of these."""
    return checks.parse_levels(HeistLevel, "Heist", level)


def check_names(observation: str, actions: str, skin: str, render_mode: str | None) -> None:
    checks.check_observation(observation, VIEWS)
    checks.check_render_mode(render_mode)
    if actions not in ACTION_SETS:
        raise ValueError(f"actions {nearest(str(actions), list(ACTION_SETS))}")
    if skin not in SKINS:
        raise ValueError(f"skin {nearest(str(skin), list(SKINS))}")


def check_render_size(size: Any) -> tuple[int, int]:
    """(width, height) of a picture for people."""
    pair = (size, size) if isinstance(size, int | np.integer) else tuple(np.atleast_1d(size).tolist())
    if len(pair) != 2 or not all(type(s) is int and MIN_RENDER_SIZE <= s <= MAX_RENDER_SIZE for s in pair):
        raise ValueError(
            f"size {size!r} is not a picture size: a whole number or (width, height), "
            f"{MIN_RENDER_SIZE} to {MAX_RENDER_SIZE}"
        )
    return int(pair[0]), int(pair[1])


def check_seed_range(num_levels: Any, start_level: Any) -> tuple[int, int]:
    """The original's num_levels, 0 for all there are, and start_level, the first of them."""
    for name, value in (("num_levels", num_levels), ("start_level", start_level)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ValueError(f"{name} must be a whole number from 0, not {value!r}")
    if start_level + num_levels > ALL_SEEDS:
        raise ValueError(f"start_level {start_level} + num_levels {num_levels} is more than {ALL_SEEDS}")
    return int(num_levels), int(start_level)


def make_engine(
    n: int, level: Any, draw_levels: bool, observation: str, threads: int | None, num_levels: Any, start_level: Any,
    skin: str,
) -> Engine:  # fmt: skip
    num_levels, start_level = check_seed_range(num_levels, start_level)
    threads = checks.choose_threads(threads, n, observation)
    levels = checks.check_all_used(levels_of(level), n, draw_levels)
    return Engine(n, levels, draw_levels, VIEWS[observation], threads, num_levels, start_level, skin)
