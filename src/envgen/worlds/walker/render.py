"""Pictures of whole terrains, for previews and reports."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from .terrain import END_X, LENGTH, START_X, STEP, Obstacle

TERRAIN_IMAGE_SIZE = 320  # pixels along each side
NUM_STRIPS = 4  # the terrain is cut into parts, one below the other
STRIP_LENGTH = LENGTH * STEP / NUM_STRIPS  # m
PIXELS_PER_M = TERRAIN_IMAGE_SIZE / STRIP_LENGTH
STRIP_HEIGHT = TERRAIN_IMAGE_SIZE // NUM_STRIPS
SKY, SOIL, GRASS, LINE = (215, 222, 255), (102, 153, 76), (40, 110, 40), (120, 120, 140)
OBSTACLE_COLORS = {"pits": (90, 60, 140), "stumps": (150, 90, 40), "stairs": (110, 110, 110)}
FLAG_COLORS = {"start": (230, 51, 0), "end of the course": (20, 90, 220)}


def _icon(color: tuple[int, int, int]) -> np.ndarray:
    return np.full((12, 12, 3), color, np.uint8)


LEGEND = [(_icon(color), name) for name, color in {**OBSTACLE_COLORS, **FLAG_COLORS}.items()]


def render_terrain(xs: Sequence[float], ys: Sequence[float], obstacles: Sequence[Obstacle]) -> np.ndarray:
    """A terrain from the side, cut into four strips that follow each other from top to bottom."""
    image = Image.new("RGB", (TERRAIN_IMAGE_SIZE, TERRAIN_IMAGE_SIZE), SKY)
    for k in range(NUM_STRIPS):
        image.paste(_draw_strip(k * STRIP_LENGTH, xs, ys, obstacles), (0, k * STRIP_HEIGHT))
    return np.asarray(image)


def _draw_strip(left: float, xs: Sequence[float], ys: Sequence[float], obstacles: Sequence[Obstacle]) -> Image.Image:
    strip = Image.new("RGB", (TERRAIN_IMAGE_SIZE, STRIP_HEIGHT), SKY)
    canvas = ImageDraw.Draw(strip)
    inside = [y for x, y in zip(xs, ys, strict=True) if left - STEP <= x <= left + STRIP_LENGTH + STEP]
    middle = (min(inside) + max(inside)) / 2
    scale = min(PIXELS_PER_M, 0.7 * STRIP_HEIGHT / max(max(inside) - min(inside), 1e-9))  # pixels per m of height

    def position(x: float, y: float) -> tuple[float, float]:
        return (x - left) * PIXELS_PER_M, STRIP_HEIGHT * 0.6 - (y - middle) * scale

    ground = [position(x, y) for x, y in zip(xs, ys, strict=True)]
    canvas.polygon([*ground, (ground[-1][0], STRIP_HEIGHT), (ground[0][0], STRIP_HEIGHT)], fill=SOIL)
    for obstacle in obstacles:
        for polygon in obstacle.polygons:
            canvas.polygon([position(*point) for point in polygon], fill=OBSTACLE_COLORS[obstacle.kind])
    canvas.line(ground, fill=GRASS, width=2)
    for x, color in zip((START_X, END_X), FLAG_COLORS.values(), strict=True):
        y = float(np.interp(x, xs, ys))
        canvas.line([position(x, y), (position(x, y)[0], 4)], fill=color, width=2)
    canvas.line([(0, STRIP_HEIGHT - 1), (TERRAIN_IMAGE_SIZE, STRIP_HEIGHT - 1)], fill=LINE)
    return strip
