"""Whole worlds as pictures for people, several side by side with their names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from .engine import Engine
from .level import HeistLevel
from .play import NO_VIEW
from .portrait import portrait

MARGIN = 6  # pixels around a world
TITLE = 14  # pixels of height
SIDE = 384  # pixels of a world


def gallery(levels: Mapping[str, Any], columns: int = 4, seed: int = 0, side: int = SIDE) -> Image.Image:
    """Worlds of several levels by title, in rows, as they are at the start."""
    rows = -(-len(levels) // columns)
    sheet = Image.new("RGB", (columns * (side + MARGIN) + MARGIN, rows * (side + TITLE + MARGIN) + MARGIN), "white")
    pen = ImageDraw.Draw(sheet)
    for k, (title, level) in enumerate(levels.items()):
        x, y = MARGIN + k % columns * (side + MARGIN), MARGIN + k // columns * (side + TITLE + MARGIN)
        engine = Engine(1, [HeistLevel.parse(level)], False, NO_VIEW, threads=1)
        engine.seed(0, seed + k)
        engine.reset(np.ones(1, np.bool_))
        pen.text((x, y), title, fill="black")
        sheet.paste(Image.fromarray(portrait(engine.envs[0], side, whole=True)), (x, y + TITLE))
    return sheet
