"""The terrain of a level: a line of ground, and obstacles. The parametrization is POET's.

Where a level has no obstacles, the ground is that of `BipedalWalker-v3`, with the same random numbers; `roughness`
multiplies its slopes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .level import WalkerLevel

# Of gymnasium.envs.box2d.bipedal_walker, which can only be imported with Box2D; a test compares them.
SCALE = 30.0
STEP = 14 / SCALE  # m
LENGTH = 200  # columns, one step apart
HEIGHT = 400 / SCALE / 4  # of the ground at the start, in m
START_COLUMNS, MAX_GRASS_COLUMNS = 20, 10

PIT_DEPTH = 4  # steps; also in Gymnasium's hardcore terrain
STUMP_WIDTH = 1  # steps
STAIR_DEPTH = 4  # steps; also in Gymnasium's hardcore terrain
MIN_HEIGHT = 0.01  # of stumps and stairs, in steps; Box2D needs polygons with an area

START_X = START_COLUMNS * STEP / 2  # where the walker starts, in m
END_X = (LENGTH - MAX_GRASS_COLUMNS) * STEP  # in m; beyond it, the walker has arrived

Points = tuple[tuple[float, float], ...]


class Obstacle(NamedTuple):
    kind: str  # "pits", "stumps" or "stairs"
    start: float  # x in m
    end: float
    size: float  # width of a pit, height of a stump or of a stair, in steps
    polygons: tuple[Points, ...] = ()


class Terrain(NamedTuple):
    xs: tuple[float, ...]  # of the corners of the ground, in m
    ys: tuple[float, ...]
    obstacles: tuple[Obstacle, ...]


def generate_terrain(level: WalkerLevel, rng: np.random.Generator) -> Terrain:
    """The terrain of a level that is not hardcore."""
    builder = _Builder(level.roughness, rng)
    kinds, length = level.obstacle_kinds, START_COLUMNS
    while builder.add_grass(length):
        if kinds:
            kind = kinds[rng.integers(len(kinds))]
            builder.add_obstacle(kind, float(rng.uniform(*level.size_range(kind))), level.stair_steps)
        length = int(rng.integers(MAX_GRASS_COLUMNS // 2, MAX_GRASS_COLUMNS))
    return Terrain(tuple(builder.xs[:LENGTH]), tuple(builder.ys[:LENGTH]), tuple(builder.obstacles))


class _Builder:
    """Adds columns from left to right."""

    def __init__(self, roughness: float, rng: np.random.Generator):
        self.roughness, self.rng = roughness, rng
        self.xs: list[float] = []
        self.ys: list[float] = []
        self.y, self.velocity = HEIGHT, 0.0
        self.obstacles: list[Obstacle] = []

    def add_column(self, y: float, shift: float = 0.0) -> None:
        self.xs.append(len(self.xs) * STEP + shift)
        self.ys.append(y)

    def add_grass(self, columns: int) -> bool:
        """Add ground. Returns whether the terrain had room for it."""
        for k in range(columns):
            column = len(self.ys)
            if column >= LENGTH:
                return False
            if column < START_COLUMNS or k > 0:  # the first column after an obstacle is level
                self.velocity = 0.8 * self.velocity + 0.01 * np.sign(HEIGHT - self.y)
                if column > START_COLUMNS:
                    self.velocity += self.rng.uniform(-1, 1) / SCALE
                self.y += self.roughness * self.velocity
            self.add_column(self.y)
        return True

    def add_obstacle(self, kind: str, size: float, max_stairs: int) -> None:
        if kind == "pits":
            self.add_pit(size)
        elif kind == "stumps":
            self.add_stump(max(size, MIN_HEIGHT))
        else:
            is_up = self.rng.random() > 0.5
            self.add_stairs(max(size, MIN_HEIGHT), is_up, int(self.rng.integers(1, max_stairs + 1)))

    @property
    def next_x(self) -> float:
        return len(self.xs) * STEP

    def add_pit(self, gap: float) -> None:
        x, y, bottom = self.next_x, self.y, self.y - PIT_DEPTH * STEP
        walls = tuple(_box(left, bottom, left + STEP, y) for left in (x, x + (1 + gap) * STEP))
        self.obstacles.append(Obstacle("pits", x + STEP, x + (1 + gap) * STEP, gap, walls))
        columns = math.ceil(1 + gap)
        self.add_column(y)
        for _ in range(columns):
            self.add_column(bottom)
        self.add_column(y, (1 + gap - columns) * STEP)

    def add_stump(self, height: float) -> None:
        x, y = self.next_x, self.y
        right = x + STUMP_WIDTH * STEP
        self.obstacles.append(Obstacle("stumps", x, right, height, (_box(x, y, right, y + height * STEP),)))
        for _ in range(STUMP_WIDTH):
            self.add_column(y)

    def add_stairs(self, height: float, is_up: bool, stairs: int) -> None:
        x, y = self.next_x, self.y
        slope = 1 if is_up else -1
        tops = [y + slope * k * height * STEP for k in range(stairs)]
        polygons = tuple(
            _box(x + k * STAIR_DEPTH * STEP, top - height * STEP, x + (k + 1) * STAIR_DEPTH * STEP, top)
            for k, top in enumerate(tops)
        )
        self.obstacles.append(Obstacle("stairs", x, x + stairs * STAIR_DEPTH * STEP, height, polygons))
        self.add_column(y)
        for top in tops:
            for _ in range(STAIR_DEPTH):
                self.y = top if is_up else top - height * STEP
                self.add_column(self.y)


def _box(left: float, bottom: float, right: float, top: float) -> Points:
    return (left, top), (right, top), (right, bottom), (left, bottom)


def classify_boxes(boxes: Sequence[Points]) -> tuple[Obstacle, ...]:
    """Group the boxes of Gymnasium's hardcore terrain, in the order of their creation, into obstacles."""
    obstacles: list[Obstacle] = []
    open_pit: Points | None = None
    for box in boxes:
        left, right = min(x for x, _ in box), max(x for x, _ in box)
        width, height = ((max(values) - min(values)) / STEP for values in zip(*box, strict=True))
        if round(height) == PIT_DEPTH:  # a wall of a pit: first the left one, then the right one
            if open_pit is None:
                open_pit = box
                continue
            start = max(x for x, _ in open_pit)
            obstacles.append(Obstacle("pits", start, left, (left - start) / STEP, (open_pit, box)))
            open_pit = None
        elif round(width) == STAIR_DEPTH:
            last = obstacles[-1] if obstacles else None
            if last and last.kind == "stairs" and abs(last.end - left) < STEP / 2:
                obstacles[-1] = last._replace(end=right, polygons=(*last.polygons, box))
            else:
                obstacles.append(Obstacle("stairs", left, right, height, (box,)))
        else:
            obstacles.append(Obstacle("stumps", left, right, height, (box,)))
    return tuple(obstacles)
