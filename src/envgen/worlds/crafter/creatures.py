"""The turns of cows, zombies, skeletons, arrows and plants, drawing from the world's stream in the original's order.

A thing whose health is gone removes itself first and then still takes its turn: a dying skeleton may shoot.
"""

import numpy as np

from ..kernels import mt19937
from ..kernels.jit import jit
from . import tables as t
from .things import add, ground_at, hurt, inside, is_free, lay, move, remove, thing_at


@jit
def distance(s, i, row):
    """From the player, along the axes."""
    me, thing = s.things[i, 0], s.things[i, row]
    return abs(np.int64(me.x) - thing.x) + abs(np.int64(me.y) - thing.y)


@jit
def _toward(s, i, row, long_axis):
    """One step (dx, dy) from a thing to the player, along the longer or the shorter axis; may be (0, 0)."""
    me, thing = s.things[i, 0], s.things[i, row]
    dx, dy = np.int64(me.x) - thing.x, np.int64(me.y) - thing.y
    if (abs(dx) > abs(dy)) == long_axis:
        return (dx > 0) - (dx < 0), 0
    return 0, (dy > 0) - (dy < 0)


@jit
def _any_direction(mt):
    k = mt19937.randint(mt, 0, 4)
    if k == t.LEFT:
        return -1, 0
    if k == t.RIGHT:
        return 1, 0
    if k == t.UP:
        return 0, -1
    return 0, 1


@jit
def update_cow(s, i, row):
    if s.things[i, row].health <= 0:
        remove(s, i, row)
    if mt19937.uniform(s.mt[i]) < 0.5:
        move(s, i, row, _any_direction(s.mt[i]), t.WALKABLE)


@jit
def update_zombie(s, i, row):
    thing = s.things[i, row]
    if thing.health <= 0:
        remove(s, i, row)
    mt = s.mt[i]
    if distance(s, i, row) <= 8 and mt19937.uniform(mt) < 0.9:
        move(s, i, row, _toward(s, i, row, mt19937.uniform(mt) < 0.8), t.WALKABLE)
    else:
        move(s, i, row, _any_direction(mt), t.WALKABLE)
    if distance(s, i, row) <= 1:
        if thing.clock > 0:
            thing.clock -= 1
        else:
            hurt(s, i, 0, 7 if s.body[i].sleeping else 2)
            thing.clock = 5


@jit
def update_skeleton(s, i, row):
    thing = s.things[i, row]
    if thing.health <= 0:
        remove(s, i, row)
    thing.clock = max(0, thing.clock - 1)
    mt = s.mt[i]
    away = distance(s, i, row)
    if away <= 3:
        dx, dy = _toward(s, i, row, mt19937.uniform(mt) < 0.6)
        if move(s, i, row, (-dx, -dy), t.WALKABLE):
            return
    if away <= 5 and mt19937.uniform(mt) < 0.5:
        _shoot(s, i, row)
    elif away <= 8 and mt19937.uniform(mt) < 0.3:
        move(s, i, row, _toward(s, i, row, mt19937.uniform(mt) < 0.6), t.WALKABLE)
    elif mt19937.uniform(mt) < 0.2:
        move(s, i, row, _any_direction(mt), t.WALKABLE)


@jit
def _shoot(s, i, row):
    thing = s.things[i, row]
    dx, dy = _toward(s, i, row, True)
    if thing.clock > 0 or (dx == 0 and dy == 0):
        return
    x, y = thing.x + dx, thing.y + dy
    if is_free(s, i, x, y, t.ARROW_WALKABLE):
        arrow = add(s, i, t.ARROW, x, y, 0)
        s.things[i, arrow].facing = t.LEFT + (dx > 0) if dx != 0 else t.UP + (dy > 0)
        thing.clock = 4


@jit
def update_arrow(s, i, row):
    thing = s.things[i, row]
    sign = 1 if thing.facing == t.RIGHT or thing.facing == t.DOWN else -1
    direction = (sign, 0) if thing.facing <= t.RIGHT else (0, sign)
    x, y = thing.x + direction[0], thing.y + direction[1]
    target = thing_at(s, i, x, y)
    if target >= 0:
        hurt(s, i, target, 2)
        remove(s, i, row)
    elif not is_free(s, i, x, y, t.ARROW_WALKABLE):
        remove(s, i, row)
        material = ground_at(s, i, x, y)
        if material == t.TABLE or material == t.FURNACE:
            lay(s, i, x, y, t.PATH)
    else:
        move(s, i, row, direction, t.ARROW_WALKABLE)


@jit
def update_plant(s, i, row):
    thing = s.things[i, row]
    thing.clock += 1
    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if inside(thing.x + dx, thing.y + dy):
            near = thing_at(s, i, thing.x + dx, thing.y + dy)
            if near >= 0 and t.COW <= s.things[i, near].kind <= t.SKELETON:
                hurt(s, i, row, 1)
                break
    if thing.health <= 0:
        remove(s, i, row)
