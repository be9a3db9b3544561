"""Our own textures of Heist, drawn by code at any resolution: floors, wall, thief, gem, keys and locked doors.

Shapes are tested at many points of each texel and averaged. Colours are whole numbers and what is averaged is summed
without rounding, so these textures are the same bytes on every machine.
"""

from functools import cache

import numpy as np

from .constants import BACKGROUNDS, COLOURS

POINTS = 6  # along a texel
Colour = tuple[int, int, int]

HUES: dict[str, Colour] = {"blue": (52, 128, 255), "green": (36, 178, 76), "red": (232, 54, 48)}
FLOORS: tuple[Colour, ...] = (  # calm, and lighter than the walls
    (168, 150, 122), (150, 128, 106), (134, 148, 118), (146, 150, 158), (180, 156, 104),
    (170, 134, 130), (150, 138, 162), (122, 150, 150), (138, 114, 92),
)  # fmt: skip
GRAIN = 48  # of a floor: the finest grains along a side
MORTAR, BRICK = (40, 45, 60), (64, 73, 96)
WHITE, INK = (255, 255, 255), (24, 20, 34)
assert len(FLOORS) == BACKGROUNDS


def shade(colour, factor: float) -> np.ndarray:
    """Darker (below 1) or lighter (up to 2)."""
    c = np.asarray(colour, float)
    return np.rint(c * factor if factor <= 1 else c + (255 - c) * (factor - 1))


class Sheet:
    """A transparent sheet of width x height texels on which shapes are laid; `x` and `y` (down) run from 0 to 1."""

    def __init__(self, width: int, height: int):
        self.x = ((np.arange(width * POINTS) + 0.5) / (width * POINTS))[None, :]
        self.y = ((np.arange(height * POINTS) + 0.5) / (height * POINTS))[:, None]
        self.colour = np.zeros((height * POINTS, width * POINTS, 3))
        self.alpha = np.zeros((height * POINTS, width * POINTS))

    def lay(self, shape, colour) -> None:
        """Cover a shape (booleans) with a colour."""
        self.colour[shape] = colour
        self.alpha[shape] = 1

    def disc(self, x: float, y: float, rx: float, ry: float | None = None):
        return ((self.x - x) / rx) ** 2 + ((self.y - y) / (ry or rx)) ** 2 <= 1

    def box(self, left: float, top: float, right: float, bottom: float, corner: float = 0.0):
        """A rectangle, its corners rounded off."""
        dx = np.maximum(np.maximum(left + corner - self.x, self.x - right + corner), 0)
        dy = np.maximum(np.maximum(top + corner - self.y, self.y - bottom + corner), 0)
        inside = (self.x >= left) & (self.x <= right) & (self.y >= top) & (self.y <= bottom)
        return inside & (dx * dx + dy * dy <= corner * corner) if corner else inside

    def polygon(self, *points: tuple[float, float]):
        """A convex polygon, its points clockwise as seen."""
        inside = np.ones(self.alpha.shape, np.bool_)
        for (ax, ay), (bx, by) in zip(points, (*points[1:], points[0]), strict=True):
            inside &= (bx - ax) * (self.y - ay) - (by - ay) * (self.x - ax) >= 0
        return inside

    def image(self) -> np.ndarray:
        """(height, width, 4) uint8, colours not multiplied by alpha."""
        height, width = (side // POINTS for side in self.alpha.shape)

        def average(values):
            return values.reshape(height, POINTS, width, POINTS, -1).mean((1, 3))

        alpha = average(self.alpha)
        colour = average(self.colour) / np.where(alpha > 0, alpha, 1)
        return np.rint(np.concatenate([colour, 255 * alpha], 2)).astype(np.uint8)


def key(name: str, width: int, height: int) -> np.ndarray:
    """A key that lies with its bow to the left."""
    sheet, hue = Sheet(width, height), HUES[name]
    for grow, colour in ((0.03, shade(hue, 0.5)), (0.0, hue)):
        ry = grow * 84 / 52
        for shape in (
            sheet.disc(0.28, 0.5, 0.25 + grow, 0.40 + ry),
            sheet.box(0.45 - grow, 0.38 - ry, 0.97 + grow, 0.62 + ry),
            sheet.box(0.64 - grow, 0.5, 0.76 + grow, 0.86 + ry),
            sheet.box(0.84 - grow, 0.5, 0.96 + grow, 0.92 + ry),
        ):
            sheet.lay(shape, colour)
    sheet.lay(sheet.disc(0.28, 0.5, 0.11, 0.18), shade(hue, 0.5))
    sheet.lay(sheet.disc(0.28, 0.5, 0.085, 0.14), shade(hue, 0.3))
    sheet.lay(sheet.box(0.5, 0.41, 0.94, 0.47), shade(hue, 1.45))
    return sheet.image()


def door(name: str, side: int) -> np.ndarray:
    """A block of the key's colour with a lock."""
    sheet, hue = Sheet(side, side), HUES[name]
    sheet.lay(sheet.box(0, 0, 1, 1), shade(hue, 0.42))
    sheet.lay(sheet.box(0.06, 0.06, 0.94, 0.94, 0.06), shade(hue, 0.95))
    sheet.lay(sheet.polygon((0.06, 0.06), (0.94, 0.06), (0.86, 0.14), (0.14, 0.14)), shade(hue, 1.4))
    sheet.lay(sheet.polygon((0.06, 0.06), (0.14, 0.14), (0.14, 0.86), (0.06, 0.94)), shade(hue, 1.25))
    sheet.lay(sheet.box(0.14, 0.14, 0.86, 0.86), shade(hue, 0.8))
    sheet.lay(sheet.disc(0.5, 0.5, 0.29), shade(hue, 0.42))
    sheet.lay(sheet.disc(0.5, 0.5, 0.25), (244, 232, 200))
    sheet.lay(sheet.disc(0.5, 0.43, 0.09), INK)
    sheet.lay(sheet.polygon((0.46, 0.43), (0.54, 0.43), (0.59, 0.66), (0.41, 0.66)), INK)
    return sheet.image()


def gem(width: int, height: int) -> np.ndarray:
    """A cut stone, seen from the side."""
    sheet = Sheet(width, height)
    gold = (255, 208, 40)
    sheet.lay(sheet.polygon((0.22, 0.0), (0.78, 0.0), (1.0, 0.36), (0.5, 1.0), (0.0, 0.36)), (112, 66, 0))
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
        sheet.lay(sheet.polygon(*points), shade(gold, light))
    return sheet.image()


def thief(side: int) -> np.ndarray:
    """From above, looking to the right: a cloak, a hood, a masked face, and a sack over the shoulder."""
    sheet = Sheet(side, side)
    cloak, skin = (160, 52, 214), (255, 226, 190)
    sheet.lay(sheet.disc(0.22, 0.5, 0.21, 0.25), (74, 46, 24))
    sheet.lay(sheet.disc(0.22, 0.5, 0.18, 0.22), (176, 124, 70))
    sheet.lay(sheet.disc(0.45, 0.5, 0.30, 0.49), INK)
    sheet.lay(sheet.disc(0.45, 0.5, 0.27, 0.46), cloak)
    for y in (0.12, 0.88):
        sheet.lay(sheet.disc(0.72, y, 0.115), INK)
        sheet.lay(sheet.disc(0.72, y, 0.085), skin)
    sheet.lay(sheet.disc(0.60, 0.5, 0.36), INK)
    sheet.lay(sheet.disc(0.60, 0.5, 0.33), shade(cloak, 1.3))
    sheet.lay(sheet.disc(0.71, 0.5, 0.26, 0.29), skin)
    sheet.lay(sheet.box(0.70, 0.24, 0.84, 0.76, 0.05), INK)
    sheet.lay(sheet.disc(0.78, 0.38, 0.05, 0.07), WHITE)
    sheet.lay(sheet.disc(0.78, 0.62, 0.05, 0.07), WHITE)
    return sheet.image()


def wall(side: int) -> np.ndarray:
    """Bricks: two courses, one shifted by half a brick."""
    sheet = Sheet(side, side)
    sheet.lay(sheet.box(0, 0, 1, 1), MORTAR)
    for top, bricks in (
        (0.0, ((0.0, 0.46, 1.0), (0.54, 1.0, 1.12))),
        (0.5, ((0.0, 0.21, 1.06), (0.29, 0.71, 0.92), (0.79, 1.0, 1.06))),
    ):
        for left, right, light in bricks:
            face = shade(BRICK, light)
            sheet.lay(sheet.box(left, top + 0.04, right, top + 0.46), face)
            sheet.lay(sheet.box(left, top + 0.04, right, top + 0.12), shade(face, 1.18))
            sheet.lay(sheet.box(left, top + 0.40, right, top + 0.46), shade(face, 0.78))
    return sheet.image()


def _noise(side: int, waves: int, seed: int) -> np.ndarray:
    """(side, side) from -1 to 1: random numbers on a grid of `waves` cells, smoothly joined."""
    grid = np.random.RandomState(seed).randint(-1000, 1001, (waves + 1, waves + 1)) / 1000
    at = (np.arange(side) + 0.5) * waves / side
    cell = at.astype(np.int64)
    t = at - cell
    t = t * t * (3 - 2 * t)
    along = grid[cell] * (1 - t)[:, None] + grid[cell + 1] * t[:, None]
    return along[:, cell] * (1 - t) + along[:, cell + 1] * t


def floor(k: int, side: int) -> np.ndarray:
    """A floor as large as a world: a calm colour, a little uneven."""
    uneven = 10 * _noise(side, 6, 3 * k) + 8 * _noise(side, 18, 3 * k + 1) + 7 * _noise(side, GRAIN, 3 * k + 2)
    colours = np.clip(np.asarray(FLOORS[k]) + uneven[..., None], 0, 255)
    return np.concatenate([np.rint(colours), np.full((side, side, 1), 255)], 2).astype(np.uint8)


@cache
def images(cell: int) -> tuple[np.ndarray, ...]:
    """All textures in the order of skins.py, `cell` texels to a cell of the world."""
    small = -(-3 * cell // 4)  # a thing is three quarters of a cell wide
    return (
        *(floor(k, min(16 * cell, 8 * GRAIN)) for k in range(BACKGROUNDS)),
        wall(cell),
        thief(small),
        gem(small, -(-small * 48 // 70)),
        *(key(name, small, -(-small * 52 // 84)) for name in COLOURS),
        *(door(name, cell) for name in COLOURS),
    )
