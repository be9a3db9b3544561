"""Gymnasium's bipedal walker with the terrain of a level.

Gymnasium uses one Box2D world for all episodes of an environment. In it, contacts are solved in an order that depends
on earlier episodes, so a later episode may differ from that of a new environment with the same random numbers. Here,
each episode has a new Box2D world and depends on nothing else; every episode equals the first of a new
`BipedalWalker-v3` with the same state of its random generator.

This module can be imported only with Box2D: pip install "envgen[box2d]".
"""

import itertools
from typing import Any

import Box2D
import numpy as np
from gymnasium.envs.box2d.bipedal_walker import BipedalWalker, BipedalWalkerHeuristics

from .level import WalkerLevel
from .terrain import END_X, START_X, Obstacle, Points, Terrain, classify_boxes, generate_terrain

OBSTACLE_COLORS = (255, 255, 255), (153, 153, 153)
GRASS_COLORS = (76, 255, 76), (76, 204, 76)  # of even and odd columns
SOIL_COLOR = (102, 153, 76)


class WalkerPhysics(BipedalWalker):
    """An environment of Gymnasium. `obstacles` are those of the episode."""

    def __init__(self, level: WalkerLevel, render_mode: str | None = None):
        super().__init__(render_mode, hardcore=level.hardcore)
        self.level = level
        self.obstacles: tuple[Obstacle, ...] = ()

    def begin(self, rng: np.random.Generator) -> np.ndarray:
        """Begin an episode with this random generator; return the first observation."""
        self._np_random = rng
        return self.reset()[0]

    @property
    def x(self) -> float:
        """How far the walker has come, in m from the left end of the terrain."""
        assert self.hull is not None
        return float(self.hull.position[0])

    @property
    def progress(self) -> float:
        """The part of the course that the walker has covered: 0 at the start, 1 where it has arrived."""
        return (self.x - START_X) / (END_X - START_X)

    def _destroy(self) -> None:
        self.world.contactListener = None
        self.world = Box2D.b2World()
        self.terrain: list[Any] = []

    def _generate_terrain(self, hardcore: bool) -> None:
        if self.level.is_gymnasium_terrain:
            super()._generate_terrain(hardcore)
            self.obstacles = classify_boxes(self._boxes())
        else:
            self._build(generate_terrain(self.level, self.np_random))

    def _boxes(self) -> list[Points]:
        """The corners of the boxes in the terrain, in the order in which they were created."""
        shapes = [body.fixtures[0].shape for body in reversed(self.terrain)]
        return [tuple(shape.vertices) for shape in shapes if isinstance(shape, Box2D.b2PolygonShape)]

    def _build(self, terrain: Terrain) -> None:
        """Create the bodies of a terrain, as Gymnasium does for its own."""
        self.terrain_x, self.terrain_y = list(terrain.xs), list(terrain.ys)
        self.obstacles, self.terrain, self.terrain_poly = terrain.obstacles, [], []
        for obstacle in terrain.obstacles:
            for polygon in obstacle.polygons:
                self.fd_polygon.shape.vertices = list(polygon)
                self._add_body(self.fd_polygon, OBSTACLE_COLORS)
        corners = list(zip(terrain.xs, terrain.ys, strict=True))
        for column, (left, right) in enumerate(itertools.pairwise(corners)):
            self.fd_edge.shape.vertices = [left, right]
            color = GRASS_COLORS[column % 2]
            self._add_body(self.fd_edge, (color, color))
            self.terrain_poly.append(([left, right, (right[0], 0), (left[0], 0)], SOIL_COLOR))
        self.terrain.reverse()

    def _add_body(self, fixture: Any, colors: tuple[tuple[int, int, int], ...]) -> None:
        body = self.world.CreateStaticBody(fixtures=fixture)
        body.color1, body.color2 = colors
        self.terrain.append(body)


def new_heuristic() -> BipedalWalkerHeuristics:
    """Gymnasium's scripted walker, at the beginning of an episode."""
    return BipedalWalkerHeuristics()
