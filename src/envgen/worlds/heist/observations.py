"""The three observations: their Gymnasium spaces, and how an engine's bytes become what a user gets."""

import string
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from . import kernel as play
from . import symbols
from .engine import ORIGINAL_SIZE

VIEWS = {"pixels": play.PIXELS, "symbols": play.SYMBOLS, "text": play.SYMBOLS}
TEXT_LENGTH = 2000
CHARACTERS = frozenset(string.ascii_letters + string.digits + string.punctuation + " \n")
SHAPE = (*ORIGINAL_SIZE, 3)


def space_of(observation: str) -> gymnasium.Space:
    if observation == "pixels":
        return spaces.Box(0, 255, SHAPE, np.uint8)
    if observation == "symbols":
        return spaces.Box(np.zeros_like(symbols.HIGHEST), symbols.HIGHEST, dtype=np.uint8)
    return spaces.Text(max_length=TEXT_LENGTH, min_length=1, charset=CHARACTERS)


def read(observation: str, row: np.ndarray) -> Any:
    """One environment's observation, a copy of its bytes."""
    if observation == "pixels":
        return row.reshape(SHAPE).copy()
    return row.copy() if observation == "symbols" else symbols.describe(row)


def read_all(observation: str, rows: np.ndarray) -> Any:
    """All environments' observations as one batch; `rows` are the caller's own."""
    if observation == "pixels":
        return rows.reshape(len(rows), *SHAPE)
    return rows if observation == "symbols" else tuple(symbols.describe(row) for row in rows)
