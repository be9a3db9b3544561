"""The textures of a Heist, ready for the kernels: ours (`envgen`), or the original's (`procgen`).

The original's are not ours to pass on: they are read from the package `procgen-mirror`, installed or as its wheel.
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

from . import sprites
from .constants import BACKGROUNDS, COLOURS, KEYS

# Textures by number.
FLOORS, WALL, AGENT, GEM = 0, BACKGROUNDS, BACKGROUNDS + 1, BACKGROUNDS + 2
KEY, DOOR = BACKGROUNDS + 3, BACKGROUNDS + 3 + KEYS  # + colour
TEXTURES = DOOR + KEYS

CELL = 10  # texels to a cell, in pictures where a cell has 5 to 8 pixels: finer ones would only flicker
VARIABLE = "ENVGEN_PROCGEN"
HOW_TO = (
    "pip download --no-deps --only-binary :all: --python-version 3.11 procgen-mirror==0.10.7, "
    f"and set {VARIABLE} to that wheel"
)

SKINS = ("envgen", "procgen")
ASSETS = "procgen/data/assets/"
FILES = (
    "topdown_backgrounds/floortiles.png",
    *(f"topdown_backgrounds/backgrounddetailed{k}.png" for k in range(1, BACKGROUNDS)),
    "kenney/Ground/Dirt/dirtCenter.png",
    "misc_assets/spaceAstronauts_008.png",
    "misc_assets/gemYellow.png",
    *(f"misc_assets/key{colour.capitalize()}.png" for colour in COLOURS),
    *(f"misc_assets/lock_{colour}.png" for colour in COLOURS),
)


class Skin(NamedTuple):
    """All textures of a skin, one after another, row by row."""

    texels: np.ndarray  # (count,) uint32, see sampler.py; the last one is black and of no texture
    textures: np.ndarray  # (TEXTURES, 3) int64: first texel, width, height


class MissingTextures(Exception):
    """The original's textures are not on this machine; the message says what to do."""


def skin(name: str = "envgen", textures: str | Path | None = None) -> Skin:
    """A skin for the 64 x 64 picture. `textures`: where procgen's are, see `find_textures`."""
    return _packed(name, find_textures(textures) if name == "procgen" else None)


@cache
def _packed(name: str, place: Path | None) -> Skin:
    return pack(images(name, place))


def images(name: str = "envgen", textures: str | Path | None = None, cell: int = CELL) -> tuple[np.ndarray, ...]:
    """The images of a skin, (height, width, 4) uint8 each; ours are drawn with `cell` texels to a cell."""
    if name not in SKINS:
        raise ValueError(f"skin {name!r} is not one of {', '.join(SKINS)}")
    return sprites.images(cell) if name == "envgen" else _originals(find_textures(textures))


def find_textures(given: str | Path | None = None) -> Path:
    """What holds procgen's textures: a wheel, or a folder with the package `procgen` in it.

    That is what is `given`, else named by the environment variable ENVGEN_PROCGEN, else where the package is installed;
    the package itself is never imported.
    """
    if place := given or os.environ.get(VARIABLE):
        return Path(place)
    found = importlib.util.find_spec("procgen")
    if found is None or not found.submodule_search_locations:
        raise MissingTextures(f"the skin procgen needs the textures of procgen-mirror: {HOW_TO}")
    return Path(found.submodule_search_locations[0]).parent


@cache
def _originals(place: Path) -> tuple[np.ndarray, ...]:
    try:
        if place.is_dir():
            return tuple(_decode((place / ASSETS / file).read_bytes()) for file in FILES)
        with zipfile.ZipFile(place) as wheel:
            return tuple(_decode(wheel.read(ASSETS + file)) for file in FILES)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise MissingTextures(f"{place} does not hold procgen's textures ({error}): {HOW_TO}") from None


def _decode(raw: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(raw)) as image:
        return np.array(image.convert("RGBA"))


def pack(drawn: Sequence[np.ndarray]) -> Skin:
    """TEXTURES images as a skin."""
    assert len(drawn) == TEXTURES
    assert all((image[..., 3] == 255).all() for image in drawn[: WALL + 1]), "floors and wall let nothing through"
    textures = np.zeros((TEXTURES, 3), np.int64)
    textures[:, 1:] = [image.shape[1::-1] for image in drawn]
    textures[1:, 0] = np.cumsum(textures[:, 1] * textures[:, 2])[:-1]
    colours = np.concatenate([image.reshape(-1, 4) for image in drawn]).astype(np.uint32)
    alpha = colours[:, 3]
    texels = alpha << 24
    for c in range(3):
        t = colours[:, c] * alpha
        texels |= ((t + (t >> 8) + 128) >> 8) << (8 * c)
    return Skin(np.append(texels, np.uint32(0xFF000000)), textures)
