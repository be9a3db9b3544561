"""Everything of a picture that can be drawn in advance, for one size: every sprite over every ground, every item with
every count, from the original's own textures and with its own arithmetic.
"""

import importlib.util
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from . import constants as const

SPRITES = (
    "none", "player-left", "player-right", "player-up", "player-down", "player-sleep", "cow", "zombie", "skeleton",
    "arrow-left", "arrow-right", "arrow-up", "arrow-down", "plant", "plant-ripe",
)  # fmt: skip
COUNTS = const.MAX_ITEM_COUNT + 1  # an inventory shows 0 (nothing) to 9
OUTSIDE_GREY = 127
COLUMNS, ROWS = const.LOCAL_VIEW


class Atlas(NamedTuple):
    """Everything drawn in advance for one size. A tile is (unit_y * unit_x * 3) bytes, row by row."""

    tiles: np.ndarray  # (sprites, materials, tile) uint8
    items: np.ndarray  # (items, COUNTS, tile) uint8
    vignette: np.ndarray  # (map_width * map_height) float64, column by column as the noise
    shape: np.ndarray  # (6,) int64: width, height, unit_x, unit_y, border_x, border_y


def parse_image_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """(width, height), or a ValueError that says which sizes there are."""
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or not all(isinstance(s, int | np.integer) and 18 <= s <= 4096 for s in pair):
        raise ValueError(
            f"size {size!r} is not a picture size: a whole number, or two (width, height), from 18 to 4096"
        )
    return int(pair[0]), int(pair[1])


def words_per_night_frame(size: tuple[int, int]) -> int:
    """How many words of the random stream the original draws for a picture at night."""
    return 2 * (size[0] // const.VIEW[0] * COLUMNS) * (size[1] // const.VIEW[1] * ROWS)


@cache
def _textures() -> dict[str, np.ndarray]:
    """The original's images by name, from the installed `crafter` package, as (width, height, channels)."""
    found = importlib.util.find_spec("crafter")
    if found is None or not found.submodule_search_locations:
        raise ImportError("Crafter's textures come from the package `crafter`: pip install crafter==1.8.3")
    folder = Path(found.submodule_search_locations[0]) / "assets"
    images = {}
    for file in sorted(folder.glob("*.png")):
        with Image.open(file) as image:
            images[file.stem] = np.array(image).transpose(1, 0, 2)
    return images


def _texture(name: str, width: int, height: int) -> np.ndarray:
    image = Image.fromarray(_textures()[name])  # transposed, as the original resizes it
    return np.array(image.resize((height, width), resample=Image.Resampling.NEAREST))


def _paste(canvas: np.ndarray, x: int, y: int, texture: np.ndarray) -> None:
    """Blend a texture into a canvas (width, height, 3), in single precision as the original does."""
    width, height = texture.shape[:2]
    if texture.shape[-1] == 4:
        alpha = texture[..., 3:].astype(np.float32) / 255
        colour = texture[..., :3].astype(np.float32) / 255
        below = canvas[x : x + width, y : y + height].astype(np.float32) / 255
        texture = (255 * (alpha * colour + (1 - alpha) * below)).astype(np.uint8)
    canvas[x : x + width, y : y + height] = texture


def _tile(canvas: np.ndarray) -> np.ndarray:
    return canvas.transpose(1, 0, 2).reshape(-1)


@cache
def draw_atlas(size: tuple[int, int]) -> Atlas:
    width, height = size
    ux, uy = width // const.VIEW[0], height // const.VIEW[1]
    tiles = np.zeros((len(SPRITES), len(const.MATERIALS), uy * ux * 3), np.uint8)
    for m, material in enumerate(const.MATERIALS):
        ground = np.full((ux, uy, 3), OUTSIDE_GREY, np.uint8)
        if m != const.OUTSIDE:
            ground = _texture(material, ux, uy)[..., :3]
        tiles[0, m] = _tile(ground)
        for k, sprite in enumerate(SPRITES[1:], 1):
            canvas = ground.copy()
            _paste(canvas, 0, 0, _texture(sprite, ux, uy))
            tiles[k, m] = _tile(canvas)
    return Atlas(
        tiles=tiles,
        items=_draw_items(ux, uy),
        vignette=_vignette(ux * COLUMNS, uy * ROWS),
        shape=np.array([width, height, ux, uy, (width - ux * const.VIEW[0]) // 2, (height - uy * const.VIEW[1]) // 2]),
    )


def _draw_items(ux: int, uy: int) -> np.ndarray:
    unit = np.array([ux, uy])
    items = np.zeros((len(const.ITEMS), COUNTS, uy * ux * 3), np.uint8)
    for k, item in enumerate(const.ITEMS):
        corner = np.array([k % const.VIEW[0], k // const.VIEW[0]])
        icon_at = (corner * unit + 0.1 * unit).astype(np.int32) - corner * unit
        count_at = (corner * unit + 0.4 * unit).astype(np.int32) - corner * unit
        for count in range(1, COUNTS):
            canvas = np.zeros((ux, uy, 3), np.uint8)
            _paste(canvas, icon_at[0], icon_at[1], _texture(item, int(0.8 * ux), int(0.8 * uy)))
            _paste(canvas, count_at[0], count_at[1], _texture(str(count), int(0.6 * ux), int(0.6 * uy)))
            items[k, count] = _tile(canvas)
    return items


def _vignette(width: int, height: int) -> np.ndarray:
    xs, ys = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
    return (1 - np.exp(-0.5 * (xs**2 + ys**2) / (0.5**2)).T).reshape(-1)
