"""What one step does: the agent moves, walls and locked doors stop it, and it takes what it touches.

Positions and velocities are float32 and every operation is one that the original does, in its order: the results are
its own, bit for bit. Nothing here may be regrouped.
"""

import math

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as t

PLAYER = np.float32(0.375)  # half the agent's side
CORNER = np.float32(0.98) * PLAYER  # half the side of the square whose corners must be free
TOUCH = np.float32(0.001)  # two things this little into each other do not push
KEPT = np.float32(0.5)  # of the velocity, before the push
FRICTION = 0.9
QUARTER = np.float32(0.25)  # a step is taken in four parts
STILL = np.float32(0)


@jit
def step(e, action):
    """Do `action` and all that follows from it. Returns the reward."""
    dx, dy = 0, 0
    if action < t.MOVES:
        dx, dy = action // 3 - 1, action % 3 - 1
    even = mt19937.next_word(e.mt) % np.uint32(1000000) % np.uint32(2) == 0
    e.vx = _faster(e.vx, e.params.push, dx)
    e.vy = _faster(e.vy, e.params.push, dy)
    _move(e, dy != 0, dx != 0, even)
    if dx != 0 or dy != 0:
        e.rotation = np.float32(0.0 - math.atan2(np.float64(dy), np.float64(dx)))  # never -0
        e.facing = action
    e.step += 1
    reward = _touch(e)
    e.total += reward
    return reward


@jit
def _faster(v, push, direction):
    v = KEPT * v
    v = v + push * np.float32(direction)
    return np.float32(FRICTION * np.float64(v))


@jit
def _move(e, up, across, even):
    """Four quarters of a step along both axes. One that a wall stops costs a quarter of the speed, a door all of it."""
    if up or across:
        x_first = not up
    elif abs(e.vx) == abs(e.vy):
        x_first = even
    else:
        x_first = abs(e.vx) > abs(e.vy)
    free_x, free_y = 0, 0
    for _ in range(4):
        if x_first:
            stopped_x = _shift(e, e.vx * QUARTER, STILL)
            stopped_y = _shift(e, STILL, e.vy * QUARTER)
        else:
            stopped_y = _shift(e, STILL, e.vy * QUARTER)
            stopped_x = _shift(e, e.vx * QUARTER, STILL)
        free_x += not stopped_x
        free_y += not stopped_y
        if stopped_x and stopped_y:
            break
    e.vx = e.vx * (np.float32(free_x) * QUARTER)
    e.vy = e.vy * (np.float32(free_y) * QUARTER)


@jit
def is_wall(e, x, y):
    """Whether a point lies in a wall or outside the world."""
    i, j = math.floor(x), math.floor(y)
    return i < 0 or j < 0 or i >= e.side or j >= e.side or e.grid[np.int64(j), np.int64(i)] == t.WALL


@jit
def _shift(e, dx, dy):
    """Move along one axis, not into walls and locked doors. Returns whether something stopped the agent.

    The original looks for doors again after each push, up to five deep. No two doors are so near that a second one
    could push: they stand at even cells of a maze.
    """
    stopped = _slide(e, dx, dy)
    for k in range(e.count - 1, -1, -1):
        door = e.things[k]
        if door.kind != t.A_DOOR or not door.alive or e.has_key[door.colour] or not _overlap(e, door, TOUCH):
            continue
        if dx != 0:
            away = PLAYER + door.rx
            e.vx = STILL
            _slide(e, door.x + (-away if dx > 0 else away) - e.x, STILL)
        else:
            away = PLAYER + door.ry
            e.vy = STILL
            _slide(e, STILL, door.y + (-away if dy > 0 else away) - e.y)
        return True
    return stopped


@jit
def _slide(e, dx, dy):
    """Move along one axis, not into walls. Returns whether one stopped the agent."""
    x, y = e.x + dx, e.y + dy
    stopped = (
        is_wall(e, x - CORNER, y - CORNER)
        or is_wall(e, x - CORNER, y + CORNER)
        or is_wall(e, x + CORNER, y - CORNER)
        or is_wall(e, x + CORNER, y + CORNER)
    )
    if stopped:
        if dx != 0:
            x = _flush(x, dx)
        else:
            y = _flush(y, dy)
    e.x, e.y = x, y
    return stopped


@jit
def _flush(p, d):
    """The place right before the wall that something moving by `d` has got into."""
    if d > 0:
        return np.float32(math.floor(p + PLAYER)) - PLAYER
    return np.float32(math.ceil(p - PLAYER)) + PLAYER


@jit
def _overlap(e, thing, margin):
    return abs(e.x - thing.x) < PLAYER + thing.rx - margin and abs(e.y - thing.y) < PLAYER + thing.ry - margin


@jit
def _touch(e):
    """Take what the agent touches, last things first. Returns the reward."""
    reward = 0.0
    for k in range(e.count - 1, -1, -1):
        thing = e.things[k]
        if not thing.alive or not _overlap(e, thing, STILL):
            continue
        colour = np.int64(thing.colour)
        if thing.kind == t.A_GEM:
            e.won = 1
            e.achievements[t.STEAL] += 1
            reward += t.GEM_REWARD
        elif thing.kind == t.A_KEY:
            e.has_key[colour] = 1
            e.achievements[t.TAKE + 2 * colour] += 1
            reward += _remove(e, thing, e.params.key_reward)
        elif e.has_key[colour]:
            e.achievements[t.OPEN + 2 * colour] += 1
            reward += _remove(e, thing, e.params.door_reward)
    return reward


@jit
def _remove(e, thing, bonus):
    """A key or a door is gone; returns the level's reward for it, which the original does not know."""
    thing.alive = 0
    e.grid[np.int64(thing.y), np.int64(thing.x)] = t.FLOOR
    e.redraw = 1
    e.bonus += bonus
    return np.float64(bonus)
