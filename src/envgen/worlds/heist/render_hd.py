"""A Heist as people like to see it: the same things at the same places as in the 64 x 64 picture, smooth, at any size.

Not here: exactness. The original's picture is drawn by picture.py.
"""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from . import textures as skins
from .constants import A_DOOR, A_KEY, KEYS, MEMORY, WALL
from .render import RING, VIEW

FINER = 2  # the canvas is this much larger than the portrait, along a side
CELL = 64  # texels to a cell
SMALLEST, LARGEST = 32, 4096  # pixels along a side
RADIUS = 0.375  # of the agent, in cells


@lru_cache(maxsize=1024)
def _scaled(skin: str, place: Path | None, texture: int, width: int, height: int) -> Image.Image:
    image = Image.fromarray(skins.images(skin, place, CELL)[texture])
    return image.resize((width, height), Image.Resampling.LANCZOS)


class Canvas:
    """A square on which textures are laid over boxes of the world; (left, upper) is its corner there."""

    def __init__(self, skin: str, place: Path | None, pixels: int, unit: float, left: float, upper: float):
        self.skin, self.place, self.unit, self.left, self.upper = skin, place, unit, left, upper
        self.image = Image.new("RGB", (pixels, pixels))

    def lay(self, texture: int, x: float, y: float, width: float, height: float) -> None:
        """Lay a texture with its upper left corner at (x, y) of the world."""
        x0, y0 = round((x - self.left) * self.unit), round((self.upper - y) * self.unit)
        x1, y1 = round((x + width - self.left) * self.unit), round((self.upper - y + height) * self.unit)
        if x1 <= 0 or y1 <= 0 or x0 >= self.image.width or y0 >= self.image.height:
            return
        drawn = _scaled(self.skin, self.place, texture, max(x1 - x0, 1), max(y1 - y0, 1))
        self.image.paste(drawn, (x0, y0), drawn)

    def lay_floor(self, texture: int, side: int) -> None:
        """Lay the part that is seen of a texture as large as the world."""
        image = Image.fromarray(skins.images(self.skin, self.place, CELL)[texture])
        seen = self.image.width / self.unit
        x0, x1 = max(self.left, 0.0), min(self.left + seen, side)
        y0, y1 = max(side - self.upper, 0.0), min(side - self.upper + seen, side)  # from the upper edge of the world
        if x0 >= x1 or y0 >= y1:
            return
        size = max(round((x1 - x0) * self.unit), 1), max(round((y1 - y0) * self.unit), 1)
        box = x0 * image.width / side, y0 * image.height / side, x1 * image.width / side, y1 * image.height / side
        drawn = image.resize(size, Image.Resampling.BICUBIC, box=box)
        self.image.paste(drawn, (round((x0 - self.left) * self.unit), round((y0 - side + self.upper) * self.unit)))

    def lay_turned(self, texture: int, x: float, y: float, width: float, height: float, radians: float) -> None:
        """Lay a texture, turned clockwise, with its middle at (x, y) of the canvas; all in pixels."""
        drawn = _scaled(self.skin, self.place, texture, max(round(width), 1), max(round(height), 1))
        drawn = drawn.rotate(-math.degrees(radians), Image.Resampling.BICUBIC, expand=True)
        self.image.paste(drawn, (round(x - drawn.width / 2), round(y - drawn.height / 2)), drawn)


def portrait(
    e: Any,
    size: int | tuple[int, int] = 512,
    skin: str = "envgen",
    textures: str | Path | None = None,
    whole: bool = False,
) -> np.ndarray:
    """A record of state.ENV as a picture (height, width, 3), square in the middle of black where `size` is not.

    `whole`: of all the world in memory mode too.
    """
    wide, high = size if isinstance(size, tuple) else (size, size)
    square = min(wide, high)
    if not (square >= SMALLEST and max(wide, high) <= LARGEST):
        raise ValueError(f"size {size} is not a size of portraits in pixels, {SMALLEST} to {LARGEST}")
    place = skins.find_textures(textures) if skin == "procgen" else None
    side, x, y = int(e["side"]), float(e["x"]), float(e["y"])
    near = e["mode"] == MEMORY and not whole
    seen = VIEW if near else side
    left, lower = (x - VIEW / 2, y - VIEW / 2) if near else (0.0, 0.0)
    pixels = FINER * square
    canvas = Canvas(skin, place, pixels, pixels / seen, left, lower + seen)
    if e["background"] >= 0:
        canvas.lay_floor(skins.FLOORS + int(e["background"]), side)
    for cx in range(math.floor(left), math.ceil(left + seen)):
        for cy in range(math.floor(lower), math.ceil(lower + seen)):
            if not (0 <= cx < side and 0 <= cy < side) or e["grid"][cy, cx] == WALL:
                canvas.lay(skins.WALL, cx, cy + 1, 1, 1)
    for thing in e["things"][: int(e["count"])]:
        if thing["alive"]:
            first = {A_KEY: skins.KEY, A_DOOR: skins.DOOR}.get(int(thing["kind"]), skins.GEM)
            rx, ry = float(thing["rx"]), float(thing["ry"])
            texture = first + int(thing["colour"])
            canvas.lay(texture, float(thing["x"]) - rx, float(thing["y"]) + ry, 2 * rx, 2 * ry)
    unit = canvas.unit
    across, down = (x - left) * unit, (canvas.upper - y) * unit
    canvas.lay_turned(skins.AGENT, across, down, 2 * RADIUS * unit, 2 * RADIUS * unit, float(e["rotation"]))
    for colour in range(min(int(e["num_keys"]), KEYS)):
        if e["has_key"][colour]:
            x, y, rx, ry = (pixels * float(share) for share in RING[colour])
            canvas.lay_turned(skins.KEY + colour, x + rx, y + ry, 2 * rx, 2 * ry, math.pi / 2)
    framed = np.zeros((high, wide, 3), np.uint8)
    x0, y0 = (wide - square) // 2, (high - square) // 2
    framed[y0 : y0 + square, x0 : x0 + square] = np.asarray(canvas.image.reduce(FINER))
    return framed
