"""Loads the textures of a skin: our own (`envgen`) or the original's (`procgen`).

The original's textures may not be redistributed. They are read from the package `procgen-mirror`, either installed or
as a wheel.
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

from . import sprites
from .constants import COLORS, NUM_BACKGROUNDS, NUM_COLORS

# Indices of textures.
FLOOR_TEXTURE = 0  # + background
WALL_TEXTURE, AGENT_TEXTURE, GEM_TEXTURE = NUM_BACKGROUNDS, NUM_BACKGROUNDS + 1, NUM_BACKGROUNDS + 2
KEY_TEXTURE = NUM_BACKGROUNDS + 3  # + color
DOOR_TEXTURE = KEY_TEXTURE + NUM_COLORS  # + color
NUM_TEXTURES = DOOR_TEXTURE + NUM_COLORS

CELL_TEXELS = 10  # along a side; cells are 5 to 8 pixels wide in the 64 x 64 picture, and finer textures flicker
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
    """The original's textures were not found; the message explains how to install them."""


def load_atlas(skin: str = "envgen", procgen_path: str | Path | None = None) -> TextureAtlas:
    """The textures for the 64 x 64 picture. For `procgen_path` see `find_procgen_textures`."""
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
    return sprites.draw_all(cell_texels) if skin == "envgen" else _load_procgen(find_procgen_textures(procgen_path))


def find_procgen_textures(path: str | Path | None = None) -> Path:
    """The wheel, or the folder with the package `procgen`, that holds the original's textures.

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
