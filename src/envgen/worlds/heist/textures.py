"""The textures of a skin: our own (`envgen`), drawn here at any resolution, or the reference's (`procgen`).

The reference's textures may not be redistributed. They are read from the package `procgen-mirror`, either installed or
as a wheel.

Our own are floors, wall, thief, gem, keys and locked doors. Each texel is the average of several samples. Colors are
integers and sums of them are exact, so the textures are the same bytes on every machine.
"""

import importlib.util
import io
import os
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from envgen.errors import EnvgenError

from .constants import COLORS, NUM_BACKGROUNDS, NUM_COLORS

# Indices of textures.
FLOOR_TEXTURE = 0  # + background
WALL_TEXTURE, AGENT_TEXTURE, GEM_TEXTURE = NUM_BACKGROUNDS, NUM_BACKGROUNDS + 1, NUM_BACKGROUNDS + 2
KEY_TEXTURE = NUM_BACKGROUNDS + 3  # + color
DOOR_TEXTURE = KEY_TEXTURE + NUM_COLORS  # + color
NUM_TEXTURES = DOOR_TEXTURE + NUM_COLORS

CELL_TEXELS = 10  # along a side; cells are 5 to 8 pixels wide in the 64 x 64 image, and finer textures flicker
PROCGEN_VARIABLE = "ENVGEN_PROCGEN"
PROCGEN_HINT = (
    "pip download --no-deps --only-binary :all: --python-version 3.11 procgen-mirror==0.10.7, "
    f"and set {PROCGEN_VARIABLE} to the wheel"
)

SKINS = ("envgen", "procgen")
ASSETS = "procgen/data/assets/"
ASSET_FILES = (
    "topdown_backgrounds/floortiles.png",
    *(f"topdown_backgrounds/backgrounddetailed{k}.png" for k in range(1, NUM_BACKGROUNDS)),
    "kenney/Ground/Dirt/dirtCenter.png",
    "misc_assets/spaceAstronauts_008.png",
    "misc_assets/gemYellow.png",
    *(f"misc_assets/key{color.capitalize()}.png" for color in COLORS),
    *(f"misc_assets/lock_{color}.png" for color in COLORS),
)


class TextureAtlas(NamedTuple):
    """All textures of a skin in one array, one after another, each row by row."""

    texels: np.ndarray  # (num_texels,) uint32, see blit.py; the last texel is black and belongs to no texture
    regions: np.ndarray  # (NUM_TEXTURES, 3) int64: first texel, width, height


class MissingTexturesError(EnvgenError):
    """The reference's textures were not found; the message explains how to install them."""


def load_atlas(skin: str = "envgen", procgen_path: str | Path | None = None) -> TextureAtlas:
    """The textures for the 64 x 64 image. For `procgen_path` see `find_procgen_textures`."""
    return _load_atlas(skin, find_procgen_textures(procgen_path) if skin == "procgen" else None)


@cache
def _load_atlas(skin: str, procgen_path: Path | None) -> TextureAtlas:
    return pack_atlas(load_images(skin, procgen_path))


def load_images(
    skin: str = "envgen", procgen_path: str | Path | None = None, cell_texels: int = CELL_TEXELS
) -> tuple[np.ndarray, ...]:
    """The images of a skin, each (height, width, 4) uint8. Ours are drawn with `cell_texels` texels per cell."""
    if skin not in SKINS:
        raise ValueError(f"skin {skin!r} is not one of {', '.join(SKINS)}")
    return draw_all(cell_texels) if skin == "envgen" else _load_procgen(find_procgen_textures(procgen_path))


def find_procgen_textures(path: str | Path | None = None) -> Path:
    """The wheel, or the folder with the package `procgen`, that holds the reference's textures.

    This is `path`, else the environment variable ENVGEN_PROCGEN, else the folder where the package is installed. The
    package is not imported.
    """
    if path := path or os.environ.get(PROCGEN_VARIABLE):
        return Path(path)
    spec = importlib.util.find_spec("procgen")
    if spec is None or not spec.submodule_search_locations:
        raise MissingTexturesError(f"the skin 'procgen' needs the textures of procgen-mirror: {PROCGEN_HINT}")
    return Path(spec.submodule_search_locations[0]).parent


@cache
def _load_procgen(path: Path) -> tuple[np.ndarray, ...]:
    try:
        if path.is_dir():
            return tuple(_decode_png((path / ASSETS / file).read_bytes()) for file in ASSET_FILES)
        with zipfile.ZipFile(path) as wheel:
            return tuple(_decode_png(wheel.read(ASSETS + file)) for file in ASSET_FILES)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise MissingTexturesError(f"{path} does not contain procgen's textures ({error}): {PROCGEN_HINT}") from None


def _decode_png(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.array(image.convert("RGBA"))


def pack_atlas(images: Sequence[np.ndarray]) -> TextureAtlas:
    """Pack NUM_TEXTURES images into an atlas."""
    assert len(images) == NUM_TEXTURES
    assert all((image[..., 3] == 255).all() for image in images[: WALL_TEXTURE + 1]), "floors and walls must be opaque"
    regions = np.zeros((NUM_TEXTURES, 3), np.int64)
    regions[:, 1:] = [image.shape[1::-1] for image in images]
    regions[1:, 0] = np.cumsum(regions[:, 1] * regions[:, 2])[:-1]
    rgba = np.concatenate([image.reshape(-1, 4) for image in images]).astype(np.uint32)
    alpha = rgba[:, 3]
    texels = alpha << 24
    for channel in range(3):
        t = rgba[:, channel] * alpha
        texels |= ((t + (t >> 8) + 128) >> 8) << (8 * channel)
    return TextureAtlas(np.append(texels, np.uint32(0xFF000000)), regions)


# --- our own textures

SAMPLES = 6  # along each side of a texel
Rgb = tuple[int, int, int]

KEY_COLORS: dict[str, Rgb] = {"blue": (52, 128, 255), "green": (36, 178, 76), "red": (232, 54, 48)}
FLOOR_COLORS: tuple[Rgb, ...] = (  # muted, and lighter than the walls
    (168, 150, 122), (150, 128, 106), (134, 148, 118), (146, 150, 158), (180, 156, 104),
    (170, 134, 130), (150, 138, 162), (122, 150, 150), (138, 114, 92),
)  # fmt: skip
FLOOR_GRAIN = 48  # cells of the finest noise along a side of a floor
MORTAR_COLOR, BRICK_COLOR = (40, 45, 60), (64, 73, 96)
WHITE, INK = (255, 255, 255), (24, 20, 34)
assert len(FLOOR_COLORS) == NUM_BACKGROUNDS


def shade(color, factor: float) -> np.ndarray:
    """A darker (factor below 1) or lighter (factor up to 2) color."""
    rgb = np.asarray(color, float)
    return np.rint(rgb * factor if factor <= 1 else rgb + (255 - rgb) * (factor - 1))


class Canvas:
    """A transparent image of width x height texels. The coordinates `x` and `y` (down) run from 0 to 1."""

    def __init__(self, width: int, height: int):
        self.x = ((np.arange(width * SAMPLES) + 0.5) / (width * SAMPLES))[None, :]
        self.y = ((np.arange(height * SAMPLES) + 0.5) / (height * SAMPLES))[:, None]
        self.color = np.zeros((height * SAMPLES, width * SAMPLES, 3))
        self.alpha = np.zeros((height * SAMPLES, width * SAMPLES))

    def fill(self, shape, color) -> None:
        """Fill a shape, given as a boolean mask, with a color."""
        self.color[shape] = color
        self.alpha[shape] = 1

    def disc(self, x: float, y: float, rx: float, ry: float | None = None):
        """The mask of an ellipse."""
        return ((self.x - x) / rx) ** 2 + ((self.y - y) / (ry or rx)) ** 2 <= 1

    def box(self, left: float, top: float, right: float, bottom: float, corner: float = 0.0):
        """The mask of a rectangle whose corners are rounded with radius `corner`."""
        dx = np.maximum(np.maximum(left + corner - self.x, self.x - right + corner), 0)
        dy = np.maximum(np.maximum(top + corner - self.y, self.y - bottom + corner), 0)
        inside = (self.x >= left) & (self.x <= right) & (self.y >= top) & (self.y <= bottom)
        return inside & (dx * dx + dy * dy <= corner * corner) if corner else inside

    def polygon(self, *points: tuple[float, float]):
        """The mask of a convex polygon, its points in clockwise order."""
        inside = np.ones(self.alpha.shape, np.bool_)
        for (ax, ay), (bx, by) in zip(points, (*points[1:], points[0]), strict=True):
            inside &= (bx - ax) * (self.y - ay) - (by - ay) * (self.x - ax) >= 0
        return inside

    def to_image(self) -> np.ndarray:
        """(height, width, 4) uint8 with colors that are not premultiplied by alpha."""
        height, width = (side // SAMPLES for side in self.alpha.shape)

        def average(values):
            return values.reshape(height, SAMPLES, width, SAMPLES, -1).mean((1, 3))

        alpha = average(self.alpha)
        color = average(self.color) / np.where(alpha > 0, alpha, 1)
        return np.rint(np.concatenate([color, 255 * alpha], 2)).astype(np.uint8)


def draw_key(color: str, width: int, height: int) -> np.ndarray:
    """A horizontal key with its bow on the left."""
    canvas, hue = Canvas(width, height), KEY_COLORS[color]
    for margin, fill_color in ((0.03, shade(hue, 0.5)), (0.0, hue)):
        margin_y = margin * 84 / 52
        for shape in (
            canvas.disc(0.28, 0.5, 0.25 + margin, 0.40 + margin_y),
            canvas.box(0.45 - margin, 0.38 - margin_y, 0.97 + margin, 0.62 + margin_y),
            canvas.box(0.64 - margin, 0.5, 0.76 + margin, 0.86 + margin_y),
            canvas.box(0.84 - margin, 0.5, 0.96 + margin, 0.92 + margin_y),
        ):
            canvas.fill(shape, fill_color)
    canvas.fill(canvas.disc(0.28, 0.5, 0.11, 0.18), shade(hue, 0.5))
    canvas.fill(canvas.disc(0.28, 0.5, 0.085, 0.14), shade(hue, 0.3))
    canvas.fill(canvas.box(0.5, 0.41, 0.94, 0.47), shade(hue, 1.45))
    return canvas.to_image()


def draw_door(color: str, side: int) -> np.ndarray:
    """A block with a lock, in the color of its key."""
    canvas, hue = Canvas(side, side), KEY_COLORS[color]
    canvas.fill(canvas.box(0, 0, 1, 1), shade(hue, 0.42))
    canvas.fill(canvas.box(0.06, 0.06, 0.94, 0.94, 0.06), shade(hue, 0.95))
    canvas.fill(canvas.polygon((0.06, 0.06), (0.94, 0.06), (0.86, 0.14), (0.14, 0.14)), shade(hue, 1.4))
    canvas.fill(canvas.polygon((0.06, 0.06), (0.14, 0.14), (0.14, 0.86), (0.06, 0.94)), shade(hue, 1.25))
    canvas.fill(canvas.box(0.14, 0.14, 0.86, 0.86), shade(hue, 0.8))
    canvas.fill(canvas.disc(0.5, 0.5, 0.29), shade(hue, 0.42))
    canvas.fill(canvas.disc(0.5, 0.5, 0.25), (244, 232, 200))
    canvas.fill(canvas.disc(0.5, 0.43, 0.09), INK)
    canvas.fill(canvas.polygon((0.46, 0.43), (0.54, 0.43), (0.59, 0.66), (0.41, 0.66)), INK)
    return canvas.to_image()


def draw_gem(width: int, height: int) -> np.ndarray:
    """A cut gem, seen from the side."""
    canvas = Canvas(width, height)
    gold = (255, 208, 40)
    canvas.fill(canvas.polygon((0.22, 0.0), (0.78, 0.0), (1.0, 0.36), (0.5, 1.0), (0.0, 0.36)), (112, 66, 0))
    left, right, a, b = (0.06, 0.36), (0.94, 0.36), (0.25, 0.07), (0.75, 0.07)
    tip, m, n = (0.5, 0.92), (0.34, 0.36), (0.66, 0.36)
    for points, light in (
        ((a, m, left), 1.35),
        ((a, (0.5, 0.07), m), 1.75),
        (((0.5, 0.07), n, m), 1.5),
        (((0.5, 0.07), b, n), 1.2),
        ((b, right, n), 1.0),
        ((left, m, tip), 1.15),
        ((m, n, tip), 1.0),
        ((n, right, tip), 0.8),
    ):
        canvas.fill(canvas.polygon(*points), shade(gold, light))
    return canvas.to_image()


def draw_thief(side: int) -> np.ndarray:
    """The agent from above, facing right: a cloak, a hood, a masked face, and a sack over the shoulder."""
    canvas = Canvas(side, side)
    cloak, skin = (160, 52, 214), (255, 226, 190)
    canvas.fill(canvas.disc(0.22, 0.5, 0.21, 0.25), (74, 46, 24))
    canvas.fill(canvas.disc(0.22, 0.5, 0.18, 0.22), (176, 124, 70))
    canvas.fill(canvas.disc(0.45, 0.5, 0.30, 0.49), INK)
    canvas.fill(canvas.disc(0.45, 0.5, 0.27, 0.46), cloak)
    for y in (0.12, 0.88):
        canvas.fill(canvas.disc(0.72, y, 0.115), INK)
        canvas.fill(canvas.disc(0.72, y, 0.085), skin)
    canvas.fill(canvas.disc(0.60, 0.5, 0.36), INK)
    canvas.fill(canvas.disc(0.60, 0.5, 0.33), shade(cloak, 1.3))
    canvas.fill(canvas.disc(0.71, 0.5, 0.26, 0.29), skin)
    canvas.fill(canvas.box(0.70, 0.24, 0.84, 0.76, 0.05), INK)
    canvas.fill(canvas.disc(0.78, 0.38, 0.05, 0.07), WHITE)
    canvas.fill(canvas.disc(0.78, 0.62, 0.05, 0.07), WHITE)
    return canvas.to_image()


def draw_wall(side: int) -> np.ndarray:
    """Two rows of bricks, one shifted by half a brick."""
    canvas = Canvas(side, side)
    canvas.fill(canvas.box(0, 0, 1, 1), MORTAR_COLOR)
    for top, bricks in (
        (0.0, ((0.0, 0.46, 1.0), (0.54, 1.0, 1.12))),
        (0.5, ((0.0, 0.21, 1.06), (0.29, 0.71, 0.92), (0.79, 1.0, 1.06))),
    ):
        for left, right, light in bricks:
            face = shade(BRICK_COLOR, light)
            canvas.fill(canvas.box(left, top + 0.04, right, top + 0.46), face)
            canvas.fill(canvas.box(left, top + 0.04, right, top + 0.12), shade(face, 1.18))
            canvas.fill(canvas.box(left, top + 0.40, right, top + 0.46), shade(face, 0.78))
    return canvas.to_image()


def _value_noise(side: int, cells: int, seed: int) -> np.ndarray:
    """(side, side) values from -1 to 1, interpolated smoothly between random values on a grid of `cells` cells."""
    grid = np.random.RandomState(seed).randint(-1000, 1001, (cells + 1, cells + 1)) / 1000
    position = (np.arange(side) + 0.5) * cells / side
    cell = position.astype(np.int64)
    t = position - cell
    t = t * t * (3 - 2 * t)
    rows = grid[cell] * (1 - t)[:, None] + grid[cell + 1] * t[:, None]
    return rows[:, cell] * (1 - t) + rows[:, cell + 1] * t


def draw_floor(background: int, side: int) -> np.ndarray:
    """A floor that covers a grid: a muted color with a little noise."""
    noise = (
        10 * _value_noise(side, 6, 3 * background)
        + 8 * _value_noise(side, 18, 3 * background + 1)
        + 7 * _value_noise(side, FLOOR_GRAIN, 3 * background + 2)
    )
    colors = np.clip(np.asarray(FLOOR_COLORS[background]) + noise[..., None], 0, 255)
    return np.concatenate([np.rint(colors), np.full((side, side, 1), 255)], 2).astype(np.uint8)


@cache
def draw_all(cell_texels: int) -> tuple[np.ndarray, ...]:
    """All textures in the order of their indices, with `cell_texels` texels per cell of the grid."""
    entity = -(-3 * cell_texels // 4)  # entities are three quarters of a cell wide
    return (
        *(draw_floor(k, min(16 * cell_texels, 8 * FLOOR_GRAIN)) for k in range(NUM_BACKGROUNDS)),
        draw_wall(cell_texels),
        draw_thief(entity),
        draw_gem(entity, -(-entity * 48 // 70)),
        *(draw_key(color, entity, -(-entity * 52 // 84)) for color in COLORS),
        *(draw_door(color, cell_texels) for color in COLORS),
    )
