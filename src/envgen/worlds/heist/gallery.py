"""Whole worlds as pictures for people, several side by side with their names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from ..image_grid import image_grid
from .constants import OBS_NONE
from .engine import Engine
from .level import HeistLevel
from .render import render_hd

SIDE = 384  # pixels of a world


def gallery(levels: Mapping[str, Any], columns: int = 4, seed: int = 0, side: int = SIDE) -> Image.Image:
    """Worlds of several levels by title, in rows, as they are at the start."""

    def draw(k: int, level: Any) -> np.ndarray:
        engine = Engine(1, [HeistLevel.parse(level)], False, OBS_NONE, threads=1)
        engine.seed(0, seed + k)
        engine.reset(np.ones(1, np.bool_))
        return render_hd(engine.envs[0], side, full_view=True)

    return image_grid(levels, columns, side, draw)
