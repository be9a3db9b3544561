"""Images of MiniGrid: tiles of simple shapes, drawn three times as large and averaged.

`view_tiles` returns the tiles of the observation, `render_grid` draws the whole grid with the agent's view highlighted.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from . import constants as const
from .observations import TILE_SIZE, TILE_WORDS, write_view
from .state import grid_view, to_position

RGB = np.array(
    [(255, 0, 0), (0, 255, 0), (0, 0, 255), (112, 39, 195), (255, 255, 0), (100, 100, 100)], np.uint8
)  # of const.COLORS
LAVA_RGB, GRID_LINE_RGB, AGENT_RGB = (255, 128, 0), (100, 100, 100), (255, 0, 0)
HIGHLIGHT = 0.3  # how far visible cells are blended with white
SUPERSAMPLING = 3
MIN_RENDER_SIZE, MAX_RENDER_SIZE = 32, 4096  # pixels along a side
MIN_TILE, MAX_TILE = 4, 32  # pixels along a side of a drawn tile; larger images are enlarged

Shape = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (x, y) in [0, 1]: where the shape is


def _rectangle(left: float, right: float, top: float, bottom: float) -> Shape:
    return lambda x, y: (x >= left) & (x <= right) & (y >= top) & (y <= bottom)


def _circle(center_x: float, center_y: float, radius: float) -> Shape:
    return lambda x, y: (x - center_x) ** 2 + (y - center_y) ** 2 <= radius * radius


def _line(x0: float, y0: float, x1: float, y1: float, radius: float) -> Shape:
    def is_inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        length = math.hypot(x1 - x0, y1 - y0)
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        along = np.clip((x - x0) * dx + (y - y0) * dy, 0, length)
        return np.hypot(x - x0 - along * dx, y - y0 - along * dy) <= radius

    return is_inside


def _arrow(direction: int) -> Shape:
    """The agent: a triangle that points to the right, rotated."""
    (ax, ay), (bx, by), (cx, cy) = (0.12, 0.19), (0.87, 0.50), (0.12, 0.81)

    def is_inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        angle = -0.5 * math.pi * direction
        x, y = x - 0.5, y - 0.5
        x, y = (
            0.5 + x * math.cos(angle) - y * math.sin(angle),
            0.5 + y * math.cos(angle) + x * math.sin(angle),
        )
        sides = [
            (qx - px) * (y - py) - (qy - py) * (x - px)
            for (px, py), (qx, qy) in (((ax, ay), (bx, by)), ((bx, by), (cx, cy)), ((cx, cy), (ax, ay)))
        ]
        return (sides[0] >= 0) & (sides[1] >= 0) & (sides[2] >= 0)

    return is_inside


def _object_shapes(cell: const.Cell) -> list[tuple[Shape, np.ndarray]]:
    """The shapes of a cell with their colors, in the order in which they are drawn."""
    color, black = RGB[cell.color], np.zeros(3)
    match const.OBJECTS[cell.object]:
        case "wall" | "goal":
            return [(_rectangle(0, 1, 0, 1), color)]
        case "floor":
            return [(_rectangle(0.031, 1, 0.031, 1), color / 2)]
        case "lava":
            waves = []
            for k in range(3):
                low, high = 0.3 + 0.2 * k, 0.4 + 0.2 * k
                points = ((0.1, low), (0.3, high), (0.5, low), (0.7, high), (0.9, low))
                waves += [(_line(*points[n], *points[n + 1], 0.03), black) for n in range(4)]
            return [(_rectangle(0, 1, 0, 1), np.array(LAVA_RGB)), *waves]
        case "door" if cell.state == 0:
            return [(_rectangle(0.88, 1, 0, 1), color), (_rectangle(0.92, 0.96, 0.04, 0.96), black)]
        case "door" if cell.state == 2:
            return [
                (_rectangle(0, 1, 0, 1), color), (_rectangle(0.06, 0.94, 0.06, 0.94), 0.45 * color),
                (_rectangle(0.52, 0.75, 0.5, 0.56), color),
            ]  # fmt: skip
        case "door":
            frames = [(_rectangle(k, 1 - k, k, 1 - k), black if n % 2 else color)
                      for n, k in enumerate((0, 0.04, 0.08, 0.12))]  # fmt: skip
            return [*frames, (_circle(0.75, 0.5, 0.08), color)]
        case "key":
            return [
                (_rectangle(0.5, 0.63, 0.31, 0.88), color), (_rectangle(0.38, 0.5, 0.59, 0.66), color),
                (_rectangle(0.38, 0.5, 0.81, 0.88), color), (_circle(0.56, 0.28, 0.19), color),
                (_circle(0.56, 0.28, 0.064), black),
            ]  # fmt: skip
        case "ball":
            return [(_circle(0.5, 0.5, 0.31), color)]
        case "box":
            return [
                (_rectangle(0.12, 0.88, 0.12, 0.88), color), (_rectangle(0.18, 0.82, 0.18, 0.82), black),
                (_rectangle(0.16, 0.84, 0.47, 0.53), color),
            ]  # fmt: skip
    return []


@cache
def draw_tile(code: int, direction: int | None, is_highlighted: bool, size: int) -> np.ndarray:
    """A cell, (size, size, 3) uint8, with the agent on it if `direction` is given."""
    pixels = size * SUPERSAMPLING
    y, x = (np.indices((pixels, pixels)) + 0.5) / pixels
    image = np.zeros((pixels, pixels, 3), np.uint8)
    shapes = [
        (_rectangle(0, 0.031, 0, 1), np.array(GRID_LINE_RGB)),
        (_rectangle(0, 1, 0, 0.031), np.array(GRID_LINE_RGB)),
    ]
    shapes += _object_shapes(const.CELLS[code])
    if direction is not None:
        shapes.append((_arrow(direction), np.array(AGENT_RGB)))
    for is_inside, color in shapes:
        image[is_inside(x, y)] = color
    if is_highlighted:
        image = (image + HIGHLIGHT * (255.0 - image)).clip(0, 255).astype(np.uint8)
    tile = image.reshape(size, SUPERSAMPLING, size, SUPERSAMPLING, 3).mean(3).mean(1).astype(np.uint8)
    tile.setflags(write=False)
    return tile


@cache
def view_tiles() -> np.ndarray:
    """The tiles of the observation by code and look (observations.HIDDEN, VISIBLE and AGENT)."""
    tiles = np.zeros((const.NUM_CELLS, 3, TILE_SIZE, TILE_WORDS), np.uint64)
    for code in range(const.NUM_CELLS):
        looks = ((None, False), (None, True), (const.UP, True))
        for look, (direction, is_highlighted) in enumerate(looks):
            tile = draw_tile(code, direction, is_highlighted, TILE_SIZE)
            tiles[code, look] = tile.reshape(TILE_SIZE, -1).view(np.uint64)
    return tiles


def visible_cells(env: np.void) -> np.ndarray:
    """Which cells of the grid the agent sees, (height, width) bool."""
    view = np.zeros(const.VIEW_CELLS, np.uint8)
    write_view(env, view)
    ahead, right = const.STEPS[env["direction"]], const.STEPS[(env["direction"] + 1) % 4]
    mask = np.zeros((env["height"], env["width"]), np.bool_)
    for k in np.flatnonzero(view != const.UNSEEN):
        steps_ahead, steps_right = (
            const.VIEW_SIZE - 1 - k // const.VIEW_SIZE,
            k % const.VIEW_SIZE - const.VIEW_SIZE // 2,
        )
        x, y = to_position(env["cell"] + steps_ahead * ahead + steps_right * right)
        if 0 <= x < env["width"] and 0 <= y < env["height"]:
            mask[y, x] = True
    return mask


def draw_grid(env: np.void, tile_size: int, is_highlighted: bool = True) -> np.ndarray:
    """The whole grid, (height * tile_size, width * tile_size, 3), with what the agent sees highlighted."""
    grid = grid_view(env)
    visible = visible_cells(env) if is_highlighted else np.zeros(grid.shape, np.bool_)
    agent_x, agent_y = to_position(env["cell"])
    image = np.zeros((*grid.shape, tile_size, tile_size, 3), np.uint8)
    for (y, x), code in np.ndenumerate(grid):
        direction = int(env["direction"]) if (x, y) == (agent_x, agent_y) else None
        image[y, x] = draw_tile(int(code), direction, bool(visible[y, x]), tile_size)
    height, width = grid.shape
    return image.transpose(0, 2, 1, 3, 4).reshape(height * tile_size, width * tile_size, 3)


def render_grid(env: np.void, size: tuple[int, int], is_highlighted: bool = True) -> np.ndarray:
    """An image (height, width, 3) of this size with the grid in its center."""
    width, height = size
    scale = min(width / env["width"], height / env["height"])
    image = Image.fromarray(draw_grid(env, int(min(max(scale, MIN_TILE), MAX_TILE)), is_highlighted))
    fitted = image.resize((max(1, round(env["width"] * scale)), max(1, round(env["height"] * scale))))
    canvas = Image.new("RGB", size)
    canvas.paste(fitted, ((width - fitted.width) // 2, (height - fitted.height) // 2))
    return np.asarray(canvas)
