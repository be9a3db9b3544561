"""The turns of cows, zombies, skeletons, arrows and plants, drawing from the world's stream in the original's order.

A thing whose health is gone removes itself first and then still takes its turn: a dying skeleton may shoot.
"""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as t
from .entities import add, ground_at, hurt, inside, is_free, lay, move, remove, thing_at


@jit
def distance(things, row):
    """From the player, along the axes."""
    me, thing = things[0], things[row]
    return abs(np.int64(me.x) - thing.x) + abs(np.int64(me.y) - thing.y)


@jit
def _toward(things, row, long_axis):
    """One step (dx, dy) from a thing to the player, along the longer or the shorter axis; may be (0, 0)."""
    me, thing = things[0], things[row]
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
def update_cow(e, things, row):
    if things[row].health <= 0:
        remove(e, things, row)
    if mt19937.uniform(e.mt) < 0.5:
        move(e, things, row, _any_direction(e.mt), t.WALKABLE)


@jit
def update_zombie(e, things, row):
    thing = things[row]
    if thing.health <= 0:
        remove(e, things, row)
    mt = e.mt
    if distance(things, row) <= 8 and mt19937.uniform(mt) < 0.9:
        move(e, things, row, _toward(things, row, mt19937.uniform(mt) < 0.8), t.WALKABLE)
    else:
        move(e, things, row, _any_direction(mt), t.WALKABLE)
    if distance(things, row) <= 1:
        if thing.clock > 0:
            thing.clock -= 1
        else:
            hurt(e, things, 0, 7 if e.sleeping else 2)
            thing.clock = 5


@jit
def update_skeleton(e, things, row):
    thing = things[row]
    if thing.health <= 0:
        remove(e, things, row)
    thing.clock = max(0, thing.clock - 1)
    mt = e.mt
    away = distance(things, row)
    if away <= 3:
        dx, dy = _toward(things, row, mt19937.uniform(mt) < 0.6)
        if move(e, things, row, (-dx, -dy), t.WALKABLE):
            return
    if away <= 5 and mt19937.uniform(mt) < 0.5:
        _shoot(e, things, row)
    elif away <= 8 and mt19937.uniform(mt) < 0.3:
        move(e, things, row, _toward(things, row, mt19937.uniform(mt) < 0.6), t.WALKABLE)
    elif mt19937.uniform(mt) < 0.2:
        move(e, things, row, _any_direction(mt), t.WALKABLE)


@jit
def _shoot(e, things, row):
    thing = things[row]
    dx, dy = _toward(things, row, True)
    if thing.clock > 0 or (dx == 0 and dy == 0):
        return
    x, y = thing.x + dx, thing.y + dy
    if is_free(e, x, y, t.ARROW_WALKABLE):
        arrow = add(e, things, t.ARROW, x, y, 0)
        things[arrow].facing = t.LEFT + (dx > 0) if dx != 0 else t.UP + (dy > 0)
        thing.clock = 4


@jit
def update_arrow(e, things, row):
    thing = things[row]
    sign = 1 if thing.facing == t.RIGHT or thing.facing == t.DOWN else -1
    direction = (sign, 0) if thing.facing <= t.RIGHT else (0, sign)
    x, y = thing.x + direction[0], thing.y + direction[1]
    target = thing_at(e, x, y)
    if target >= 0:
        hurt(e, things, target, 2)
        remove(e, things, row)
    elif not is_free(e, x, y, t.ARROW_WALKABLE):
        remove(e, things, row)
        material = ground_at(e, x, y)
        if material == t.TABLE or material == t.FURNACE:
            lay(e, x, y, t.PATH)
    else:
        move(e, things, row, direction, t.ARROW_WALKABLE)


@jit
def update_plant(e, things, row):
    thing = things[row]
    thing.clock += 1
    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if inside(thing.x + dx, thing.y + dy):
            near = thing_at(e, thing.x + dx, thing.y + dy)
            if near >= 0 and t.COW <= things[near].kind <= t.SKELETON:
                hurt(e, things, row, 1)
                break
    if thing.health <= 0:
        remove(e, things, row)
