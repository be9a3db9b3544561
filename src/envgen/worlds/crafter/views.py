"""The three observations: their Gymnasium spaces, and how an engine's bytes become what a user gets."""

import string
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from . import play, symbols
from .engine import Engine
from .tables import MATERIALS, SIDE

VIEWS = {"pixels": play.PIXELS, "symbols": play.SYMBOLS, "text": play.SYMBOLS}
TEXT_LENGTH = 2000
CHARACTERS = frozenset(string.ascii_letters + string.digits + string.punctuation + " \n")


def space_of(observation: str, size: tuple[int, int]) -> gymnasium.Space:
    if observation == "pixels":
        return spaces.Box(0, 255, (size[1], size[0], 3), np.uint8)
    if observation == "symbols":
        return spaces.Box(np.zeros_like(symbols.HIGHEST), symbols.HIGHEST, dtype=np.uint8)
    return spaces.Text(max_length=TEXT_LENGTH, min_length=1, charset=CHARACTERS)


def read(observation: str, size: tuple[int, int], row: np.ndarray) -> Any:
    """One environment's observation, a copy of its bytes."""
    if observation == "pixels":
        return row.reshape(size[1], size[0], 3).copy()
    return row.copy() if observation == "symbols" else symbols.describe(row)


def read_all(observation: str, size: tuple[int, int], rows: np.ndarray) -> Any:
    """All environments' observations as one batch; `rows` are the caller's own."""
    if observation == "pixels":
        return rows.reshape(len(rows), size[1], size[0], 3)
    return rows if observation == "symbols" else tuple(symbols.describe(row) for row in rows)


def semantic_map(engine: Engine, i: int) -> np.ndarray:
    """The original's semantic map of environment i, at [x, y]: materials, and things above them."""
    env = engine.state.envs[i]
    canvas = env["ground"].copy()
    things = engine.state.things[i][: env["count"]]
    canvas[things["x"], things["y"]] = things["kind"].astype(np.uint8) + len(MATERIALS) - 1
    assert canvas.shape == (SIDE, SIDE)
    return canvas
