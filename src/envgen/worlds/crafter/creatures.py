"""The turns of cows, zombies, skeletons, arrows and plants, drawing from the world's stream in the original's order.

An entity whose health is gone removes itself first and then still takes its turn: a dying skeleton may shoot.
"""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .entities import (
    add_entity,
    damage_entity,
    entity_at,
    ground_at,
    inside,
    is_free,
    move_entity,
    remove_entity,
    set_ground,
)


@jit
def distance(entities, row):
    """From the player, along the axes."""
    player, entity = entities[0], entities[row]
    return abs(np.int64(player.x) - entity.x) + abs(np.int64(player.y) - entity.y)


@jit
def _toward(entities, row, long_axis):
    """One step (dx, dy) from an entity to the player, along the longer or the shorter axis; may be (0, 0)."""
    player, entity = entities[0], entities[row]
    dx, dy = np.int64(player.x) - entity.x, np.int64(player.y) - entity.y
    if (abs(dx) > abs(dy)) == long_axis:
        return (dx > 0) - (dx < 0), 0
    return 0, (dy > 0) - (dy < 0)


@jit
def _any_direction(rng):
    k = mt19937.randint(rng, 0, 4)
    if k == const.LEFT:
        return -1, 0
    if k == const.RIGHT:
        return 1, 0
    if k == const.UP:
        return 0, -1
    return 0, 1


@jit
def update_cow(env, entities, row):
    if entities[row].health <= 0:
        remove_entity(env, entities, row)
    if mt19937.uniform(env.rng) < 0.5:
        move_entity(env, entities, row, _any_direction(env.rng), const.WALKABLE)


@jit
def update_zombie(env, entities, row):
    entity = entities[row]
    if entity.health <= 0:
        remove_entity(env, entities, row)
    rng = env.rng
    if distance(entities, row) <= 8 and mt19937.uniform(rng) < 0.9:
        move_entity(env, entities, row, _toward(entities, row, mt19937.uniform(rng) < 0.8), const.WALKABLE)
    else:
        move_entity(env, entities, row, _any_direction(rng), const.WALKABLE)
    if distance(entities, row) <= 1:
        if entity.counter > 0:
            entity.counter -= 1
        else:
            damage_entity(env, entities, 0, 7 if env.sleeping else 2)
            entity.counter = 5


@jit
def update_skeleton(env, entities, row):
    entity = entities[row]
    if entity.health <= 0:
        remove_entity(env, entities, row)
    entity.counter = max(0, entity.counter - 1)
    rng = env.rng
    away = distance(entities, row)
    if away <= 3:
        dx, dy = _toward(entities, row, mt19937.uniform(rng) < 0.6)
        if move_entity(env, entities, row, (-dx, -dy), const.WALKABLE):
            return
    if away <= 5 and mt19937.uniform(rng) < 0.5:
        _shoot(env, entities, row)
    elif away <= 8 and mt19937.uniform(rng) < 0.3:
        move_entity(env, entities, row, _toward(entities, row, mt19937.uniform(rng) < 0.6), const.WALKABLE)
    elif mt19937.uniform(rng) < 0.2:
        move_entity(env, entities, row, _any_direction(rng), const.WALKABLE)


@jit
def _shoot(env, entities, row):
    entity = entities[row]
    dx, dy = _toward(entities, row, True)
    if entity.counter > 0 or (dx == 0 and dy == 0):
        return
    x, y = entity.x + dx, entity.y + dy
    if is_free(env, x, y, const.ARROW_WALKABLE):
        arrow = add_entity(env, entities, const.ARROW, x, y, 0)
        entities[arrow].facing = const.LEFT + (dx > 0) if dx != 0 else const.UP + (dy > 0)
        entity.counter = 4


@jit
def update_arrow(env, entities, row):
    entity = entities[row]
    sign = 1 if entity.facing == const.RIGHT or entity.facing == const.DOWN else -1
    direction = (sign, 0) if entity.facing <= const.RIGHT else (0, sign)
    x, y = entity.x + direction[0], entity.y + direction[1]
    target = entity_at(env, x, y)
    if target >= 0:
        damage_entity(env, entities, target, 2)
        remove_entity(env, entities, row)
    elif not is_free(env, x, y, const.ARROW_WALKABLE):
        remove_entity(env, entities, row)
        material = ground_at(env, x, y)
        if material == const.TABLE or material == const.FURNACE:
            set_ground(env, x, y, const.PATH)
    else:
        move_entity(env, entities, row, direction, const.ARROW_WALKABLE)


@jit
def update_plant(env, entities, row):
    entity = entities[row]
    entity.counter += 1
    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if inside(entity.x + dx, entity.y + dy):
            near = entity_at(env, entity.x + dx, entity.y + dy)
            if near >= 0 and const.COW <= entities[near].kind <= const.SKELETON:
                damage_entity(env, entities, row, 1)
                break
    if entity.health <= 0:
        remove_entity(env, entities, row)
