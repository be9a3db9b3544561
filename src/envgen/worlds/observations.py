"""Pixels, symbols and text: how the bytes that a kernel writes become Gymnasium observations."""

import string
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from .validation import check_choice

NO_OBSERVATION, SYMBOLS, PIXELS = 0, 1, 2  # what a kernel writes
OBSERVATION_MODES = {"pixels": PIXELS, "symbols": SYMBOLS, "text": SYMBOLS}
MAX_TEXT_LENGTH = 2000
TEXT_CHARSET = frozenset(string.ascii_letters + string.digits + string.punctuation + " \n")


class ObservationFormat:
    """One of the observations of a world: its space, and how to decode it.

    Args:
        name: "pixels", "symbols" or "text".
        image_size: (width, height) of the pixels.
        max_symbols: The highest value of each symbol, (symbols,) uint8.
        describe: Turns the symbols of one environment into text.
    """

    def __init__(
        self, name: str, image_size: tuple[int, int], max_symbols: np.ndarray, describe: Callable[[np.ndarray], str]
    ):
        self.name = check_choice("observation", name, OBSERVATION_MODES)
        self.mode = OBSERVATION_MODES[name]
        self.image_shape = image_size[1], image_size[0], 3
        self.describe = describe
        self.space: gymnasium.Space[Any]
        if name == "pixels":
            self.space = spaces.Box(0, 255, self.image_shape, np.uint8)
        elif name == "symbols":
            self.space = spaces.Box(np.zeros_like(max_symbols), max_symbols, dtype=np.uint8)
        else:
            self.space = spaces.Text(max_length=MAX_TEXT_LENGTH, min_length=1, charset=TEXT_CHARSET)

    def decode(self, row: np.ndarray) -> Any:
        """The observation of one environment, a copy of its bytes."""
        if self.name == "pixels":
            return row.reshape(self.image_shape).copy()
        return row.copy() if self.name == "symbols" else self.describe(row)

    def decode_batch(self, rows: np.ndarray) -> Any:
        """The observations of all environments as one batch, which shares the memory of `rows`."""
        if self.name == "pixels":
            return rows.reshape(len(rows), *self.image_shape)
        return rows if self.name == "symbols" else tuple(self.describe(row) for row in rows)
