"""Gymnasium's bipedal walker with the terrain of a level.

Gymnasium uses one Box2D world for all episodes of an environment. In it, contacts are solved in an order that depends
on earlier episodes, so a later episode may differ from that of a new environment with the same random numbers. Here,
each episode has a new Box2D world and depends on nothing else; every episode equals the first of a new
`BipedalWalker-v3` with the same state of its random generator.

This module can be imported only with Box2D: pip install "envgen[box2d]".
"""

import itertools
import math
from typing import Any, Literal

import Box2D
import numpy as np
from gymnasium.envs.box2d.bipedal_walker import (
    FPS,
    LIDAR_RANGE,
    MOTORS_TORQUE,
    SCALE,
    SPEED_HIP,
    SPEED_KNEE,
    VIEWPORT_H,
    VIEWPORT_W,
    BipedalWalker,
    BipedalWalkerHeuristics,
)

from .level import WalkerLevel
from .terrain import END_X, START_X, Obstacle, Points, Terrain, classify_boxes, generate_terrain

OBSTACLE_COLORS = (255, 255, 255), (153, 153, 153)
GRASS_COLORS = (76, 255, 76), (76, 204, 76)  # of even and odd columns
SOIL_COLOR = (102, 153, 76)
MOTOR_SPEEDS = SPEED_HIP, SPEED_KNEE, SPEED_HIP, SPEED_KNEE
RAYS = [(math.sin(0.15 * k) * LIDAR_RANGE, math.cos(0.15 * k) * LIDAR_RANGE) for k in range(10)]  # m ahead and down


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

    def step(self, action: np.ndarray) -> tuple[np.ndarray, Any, bool, Literal[False], dict[str, Any]]:
        """Gymnasium's step, with the same results, in about three quarters of the time.

        Its arithmetic is that of Gymnasium in type and order, because rewards are rounded to the type of the actions.
        """
        hull: Any = self.hull
        joints: list[Any] = self.joints
        legs: list[Any] = self.legs
        effort = np.minimum(np.abs(action), 1)
        signs, torques = np.sign(action).tolist(), (MOTORS_TORQUE * effort).tolist()
        for joint, speed, sign, torque in zip(joints, MOTOR_SPEEDS, signs, torques, strict=True):
            joint.motorSpeed, joint.maxMotorTorque = float(speed * sign), float(torque)
        self.world.Step(1 / FPS, 180, 60)

        position, velocity, angle = hull.position, hull.linearVelocity, hull.angle
        x, y = position.x, position.y
        self.scroll = x - VIEWPORT_W / SCALE / 5
        joint_values = [
            value
            for joint, speed, offset in zip(joints, MOTOR_SPEEDS, (0.0, 1.0, 0.0, 1.0), strict=True)
            for value in (joint.angle + offset, joint.speed / speed)
        ]
        obs = [
            angle,
            2.0 * hull.angularVelocity / FPS,
            0.3 * velocity.x * (VIEWPORT_W / SCALE) / FPS,
            0.3 * velocity.y * (VIEWPORT_H / SCALE) / FPS,
            *joint_values[:4],
            float(legs[1].ground_contact),
            *joint_values[4:],
            float(legs[3].ground_contact),
            *self._cast_rays(x, y),
        ]
        shaping = 130 * x / SCALE - 5.0 * abs(angle)
        reward: Any = 0 if self.prev_shaping is None else shaping - self.prev_shaping
        self.prev_shaping = shaping
        for cost in 0.00035 * MOTORS_TORQUE * effort:
            reward -= cost
        terminated = x > END_X
        if self.game_over or x < 0:
            reward, terminated = -100, True
        return np.array(obs, np.float32), reward, terminated, False, {}

    def _cast_rays(self, x: float, y: float) -> list[float]:
        """The distances to the terrain, as parts of the length of the rays."""
        fractions = []
        for lidar, (ahead, down) in zip(self.lidar, RAYS, strict=True):
            lidar.fraction = 1.0
            lidar.p1, lidar.p2 = (x, y), (x + ahead, y - down)  # for `render`, too
            self.world.RayCast(lidar, lidar.p1, lidar.p2)
            fractions.append(lidar.fraction)
        return fractions

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
