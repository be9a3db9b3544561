"""Pictures of worlds side by side, each under its title, for people."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

MARGIN = 6  # pixels around a world
TITLE = 14  # pixels of height


def image_grid(
    levels: Mapping[str, Any], columns: int, side: int, draw: Callable[[int, Any], np.ndarray]
) -> Image.Image:
    """`draw(k, level)` gives the picture (side, side, 3) of the k-th of the titled levels."""
    rows = -(-len(levels) // columns)
    page = Image.new("RGB", (columns * (side + MARGIN) + MARGIN, rows * (side + TITLE + MARGIN) + MARGIN), "white")
    pen = ImageDraw.Draw(page)
    for k, (title, level) in enumerate(levels.items()):
        x, y = MARGIN + k % columns * (side + MARGIN), MARGIN + k // columns * (side + TITLE + MARGIN)
        pen.text((x, y), title, fill="black")
        page.paste(Image.fromarray(draw(k, level)), (x, y + TITLE))
    return page
