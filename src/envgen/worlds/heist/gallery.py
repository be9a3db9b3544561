"""Whole worlds as pictures for people, several side by side with their names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from ..image_grid import image_grid
from .engine import Engine
from .kernel import NO_VIEW
from .level import HeistLevel
from .render_hd import portrait

SIDE = 384  # pixels of a world


def gallery(levels: Mapping[str, Any], columns: int = 4, seed: int = 0, side: int = SIDE) -> Image.Image:
    """Worlds of several levels by title, in rows, as they are at the start."""

    def draw(k: int, level: Any) -> np.ndarray:
        engine = Engine(1, [HeistLevel.parse(level)], False, NO_VIEW, threads=1)
        engine.seed(0, seed + k)
        engine.reset(np.ones(1, np.bool_))
        return portrait(engine.envs[0], side, whole=True)

    return image_grid(levels, columns, side, draw)
