"""Pictures of a report: maps of levels, and clips of what a policy does. Each is stored once."""

import base64
import hashlib
import inspect
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from envgen.worlds.world import Level, LevelError, World

from .html import Html

MAP_SEED = 0  # all maps are of this seed, so that they differ only in what the levels change
CELL_SIZE = 6  # pixels of a cell, in worlds that can draw their cells in any size
MAX_SIDE = 448  # pixels of a map
SMALL_BYTES = 24_000  # up to this size, a lossless encoding is not compared with a lossy one


class PictureStore:
    """Pictures as data URLs by name, of `max_bytes` in all. From the first that does not fit, all are left out."""

    def __init__(self, max_bytes: int):
        self.max_bytes, self.num_bytes = max_bytes, 0
        self.urls: dict[str, str] = {}
        self.left_out: set[str] = set()  # names

    def add(self, key: str, create: Callable[[], bytes]) -> str | None:
        """The name of the picture with this key, which `create` makes as WebP if it is new; None if it does not fit."""
        name = hashlib.sha256(key.encode()).hexdigest()[:12]
        if name not in self.urls:
            url = "" if self.left_out else f"data:image/webp;base64,{base64.b64encode(create()).decode()}"
            if self.left_out or self.num_bytes + len(url) > self.max_bytes:
                self.left_out.add(name)
                return None
            self.urls[name] = url
            self.num_bytes += len(url)
        return name

    def add_map(self, world: World, level: Level, seed: int = MAP_SEED) -> str | None:
        """The name of the picture of a level from above."""
        key = f"map {world.name} {seed} {json.dumps(level.model_dump(mode='json'), sort_keys=True)}"
        return self.add(key, lambda: to_webp(draw_map(world, level, seed)))


class LevelMaps:
    """Maps of the levels of one world, from above."""

    def __init__(self, world: World, store: PictureStore):
        self.world, self.store = world, store

    def add(self, overrides: Any) -> str | None:
        """The name of the picture of a level; None if there is no such level."""
        try:
            level = self.world.Level.parse(overrides if isinstance(overrides, Mapping) else {})
        except LevelError:
            return None
        return self.store.add_map(self.world, level)

    def links(self, overrides: Any) -> Html | None:
        """Links shown with a level; none in a report."""
        return None

    def legend(self) -> list[tuple[str, str]]:
        """Icons of the maps, as names of pictures, with what they mean."""
        entries = getattr(self.world, "map_legend", tuple)()
        named = [
            (self.store.add(f"legend {self.world.name} {text}", lambda icon=icon: to_webp(Image.fromarray(icon))), text)
            for icon, text in entries
        ]
        return [(name, text) for name, text in named if name is not None]


def draw_map(world: World, level: Level, seed: int = MAP_SEED) -> Image.Image:
    """A level from above."""
    render_map = getattr(world, "render_map", None)
    if render_map is None:
        image = world.render_levels({"": level}, columns=1, seed=seed)
    else:
        sized = {"cell_size": CELL_SIZE} if "cell_size" in inspect.signature(render_map).parameters else {}
        image = Image.fromarray(render_map(level, seed, **sized))
    if max(image.size) > MAX_SIDE:
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    return image


def to_webp(image: Image.Image) -> bytes:
    """A lossless encoding if it is small, as of maps with few colors, else the smaller of lossless and lossy."""
    lossless = _encode(image, lossless=True, quality=30, method=3)
    return lossless if len(lossless) <= SMALL_BYTES else min(lossless, _encode(image, quality=60, method=3), key=len)


def _encode(image: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    image.convert("RGB").save(out, "WEBP", **options)
    return out.getvalue()


def to_animation(frames: list[np.ndarray], milliseconds: int) -> bytes:
    """Frames (height, width, 3) as an animated WebP that repeats."""
    first, *rest = map(Image.fromarray, frames)
    out = io.BytesIO()
    options = {"save_all": True, "duration": milliseconds, "loop": 0, "quality": 45, "method": 2}
    first.save(out, "WEBP", append_images=rest, **options)
    return out.getvalue()
