"""Whole worlds as pictures for people: the 64 x 64 map from above, and several side by side with their names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from ..image_grid import image_grid
from . import constants as const
from . import render
from .engine import Engine
from .level import CrafterLevel
from .observations import NO_OBSERVATION


def overview(level: Any = None, seed: int = 0, unit: int = 6) -> np.ndarray:
    """The world of a level and seed from above, (64 * unit, 64 * unit, 3), in full light."""
    if not 2 <= unit <= 64:
        raise ValueError(f"unit {unit} is not a size of cells in pixels, 2 to 64")
    engine = Engine(1, [CrafterLevel.parse(level)], False, NO_OBSERVATION, (64, 64), threads=1)
    engine.seed(0, seed)
    engine.reset(np.ones(1, np.bool_))
    env, entities = engine.state.envs[0], engine.state.entities[0]
    sprites = np.zeros((const.MAP_SIZE, const.MAP_SIZE), np.int64)
    for row in range(env["num_entities"]):
        sprites[entities[row]["x"], entities[row]["y"]] = render.sprite_of(env, entities, row)
    tiles = render.make_atlas((unit * const.VIEW[0], unit * const.VIEW[1])).tiles[sprites, env["ground"]]
    cells = tiles.reshape(const.MAP_SIZE, const.MAP_SIZE, unit, unit, 3)  # (x, y, pixel row, pixel column, colour)
    return cells.transpose(1, 2, 0, 3, 4).reshape(const.MAP_SIZE * unit, const.MAP_SIZE * unit, 3)


def gallery(levels: Mapping[str, Any], columns: int = 4, seed: int = 0, unit: int = 6) -> Image.Image:
    """Worlds of several levels by title, in rows."""
    return image_grid(levels, columns, const.MAP_SIZE * unit, lambda k, level: overview(level, seed + k, unit))
