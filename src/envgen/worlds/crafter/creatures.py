"""The updates of cows, zombies, skeletons, arrows and plants, and the spawning and despawning of creatures.

Random numbers are drawn in the reference's order. An entity without health removes itself first and then still
takes its turn: a dying skeleton can shoot.
"""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .entities import (
    add_entity,
    chunk_of,
    damage_entity,
    entity_at,
    ground_at,
    is_free,
    is_inside,
    move_entity,
    remove_entity,
    set_ground,
)

UPDATE_DISTANCE = 2 * max(const.VIEW)  # entities at this distance from the player or farther are not updated


@jit
def distance_to_player(entities, row):
    """The Manhattan distance."""
    player, entity = entities[0], entities[row]
    return abs(np.int64(player.x) - entity.x) + abs(np.int64(player.y) - entity.y)


@jit
def _direction_to_player(entities, row, along_longer_axis):
    """One step (dx, dy) towards the player, along the longer or the shorter axis. Can be (0, 0)."""
    player, entity = entities[0], entities[row]
    dx, dy = np.int64(player.x) - entity.x, np.int64(player.y) - entity.y
    if (abs(dx) > abs(dy)) == along_longer_axis:
        return (dx > 0) - (dx < 0), 0
    return 0, (dy > 0) - (dy < 0)


@jit
def _random_direction(rng):
    direction = mt19937.randint(rng, 0, 4)
    if direction == const.LEFT:
        return -1, 0
    if direction == const.RIGHT:
        return 1, 0
    if direction == const.UP:
        return 0, -1
    return 0, 1


@jit
def update_cow(env, entities, row):
    if entities[row].health <= 0:
        remove_entity(env, entities, row)
    if mt19937.uniform(env.rng) < 0.5:
        move_entity(env, entities, row, _random_direction(env.rng), const.WALKABLE)


@jit
def update_zombie(env, entities, row):
    zombie = entities[row]
    if zombie.health <= 0:
        remove_entity(env, entities, row)
    rng = env.rng
    if distance_to_player(entities, row) <= 8 and mt19937.uniform(rng) < 0.9:
        direction = _direction_to_player(entities, row, mt19937.uniform(rng) < 0.8)
        move_entity(env, entities, row, direction, const.WALKABLE)
    else:
        move_entity(env, entities, row, _random_direction(rng), const.WALKABLE)
    if distance_to_player(entities, row) <= 1:
        if zombie.counter > 0:
            zombie.counter -= 1
        else:
            damage_entity(env, entities, 0, 7 if env.sleeping else 2)
            zombie.counter = 5


@jit
def update_skeleton(env, entities, row):
    skeleton = entities[row]
    if skeleton.health <= 0:
        remove_entity(env, entities, row)
    skeleton.counter = max(0, skeleton.counter - 1)
    rng = env.rng
    distance = distance_to_player(entities, row)
    if distance <= 3:
        dx, dy = _direction_to_player(entities, row, mt19937.uniform(rng) < 0.6)
        if move_entity(env, entities, row, (-dx, -dy), const.WALKABLE):
            return
    if distance <= 5 and mt19937.uniform(rng) < 0.5:
        _shoot_arrow(env, entities, row)
    elif distance <= 8 and mt19937.uniform(rng) < 0.3:
        direction = _direction_to_player(entities, row, mt19937.uniform(rng) < 0.6)
        move_entity(env, entities, row, direction, const.WALKABLE)
    elif mt19937.uniform(rng) < 0.2:
        move_entity(env, entities, row, _random_direction(rng), const.WALKABLE)


@jit
def _shoot_arrow(env, entities, row):
    skeleton = entities[row]
    dx, dy = _direction_to_player(entities, row, True)
    if skeleton.counter > 0 or (dx == 0 and dy == 0):
        return
    x, y = skeleton.x + dx, skeleton.y + dy
    if is_free(env, x, y, const.ARROW_WALKABLE):
        arrow = add_entity(env, entities, const.ARROW, x, y, 0)
        entities[arrow].facing = const.LEFT + (dx > 0) if dx != 0 else const.UP + (dy > 0)
        skeleton.counter = 4


@jit
def update_arrow(env, entities, row):
    arrow = entities[row]
    sign = 1 if arrow.facing == const.RIGHT or arrow.facing == const.DOWN else -1
    direction = (sign, 0) if arrow.facing <= const.RIGHT else (0, sign)
    x, y = arrow.x + direction[0], arrow.y + direction[1]
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
    plant = entities[row]
    plant.counter = min(plant.counter + env.params.growth, const.MAX_PLANT_AGE)
    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if is_inside(plant.x + dx, plant.y + dy):
            neighbor = entity_at(env, plant.x + dx, plant.y + dy)
            if neighbor >= 0 and const.COW <= entities[neighbor].kind <= const.SKELETON:
                damage_entity(env, entities, row, 1)
                break
    if plant.health <= 0:
        remove_entity(env, entities, row)


@jit
def update_entity(env, entities, row):
    """Update an entity other than the player."""
    kind = entities[row].kind
    if kind == const.COW:
        update_cow(env, entities, row)
    elif kind == const.ZOMBIE:
        update_zombie(env, entities, row)
    elif kind == const.SKELETON:
        update_skeleton(env, entities, row)
    elif kind == const.ARROW:
        update_arrow(env, entities, row)
    else:
        update_plant(env, entities, row)


# --- spawning and despawning

BALANCE_EVERY = 10  # steps
MAX_SPAWNS = 3 * const.CHUNKS_PER_SIDE**2  # creatures that one call of balance_creatures can add

# By kind: the ground it spawns on, its health, and the smallest distance to the player for spawning and despawning.
_SPAWN_GROUND = np.zeros(len(const.ENTITIES), np.int64)
_SPAWN_HEALTH = np.zeros(len(const.ENTITIES), np.int64)
_MIN_SPAWN_DISTANCE = np.zeros(len(const.ENTITIES), np.int64)
_MIN_DESPAWN_DISTANCE = np.zeros(len(const.ENTITIES), np.int64)
# The probability of spawning in a chunk with too few, and of despawning in a chunk with too many.
_SPAWN_PROB = np.zeros(len(const.ENTITIES))
_DESPAWN_PROB = np.zeros(len(const.ENTITIES))
for _kind, *_values in (
    (const.ZOMBIE, const.GRASS, const.ZOMBIE_HEALTH, 6, 0, 0.3, 0.4),
    (const.SKELETON, const.PATH, const.SKELETON_HEALTH, 7, 7, 0.1, 0.1),
    (const.COW, const.GRASS, const.COW_HEALTH, 5, 5, 0.01, 0.1),
):
    for _table, _value in zip(
        (_SPAWN_GROUND, _SPAWN_HEALTH, _MIN_SPAWN_DISTANCE, _MIN_DESPAWN_DISTANCE, _SPAWN_PROB, _DESPAWN_PROB),
        _values,
        strict=True,
    ):
        _table[_kind] = _value


@jit
def balance_creatures(env, entities):
    """Spawn and despawn creatures in every chunk that has ever held an entity, in the order of `chunk_order`.

    The limits for the number of creatures in a chunk are multiplied by the level's density; for zombies and cows, they
    depend on the daylight, too. A density below 1 makes all creatures spawn more slowly; the limits for cows and
    skeletons then stay at 1 or more.
    """
    params = env.params
    counts = env.chunk_counts
    counts[:] = 0
    for row in range(env.num_entities):
        entity = entities[row]
        counts[chunk_of(entity.x, entity.y), entity.kind] += 1
    zombie, skeleton, cow = params.zombie_density, params.skeleton_density, params.cow_density
    for i in range(env.num_chunks):
        chunk = np.int64(env.chunk_order[i])
        if zombie > 0:
            high = zombie * (3.5 - 3 * env.daylight)
            low = high if env.grass_count[chunk] >= 50 else 0.0
            _balance_kind(env, entities, chunk, const.ZOMBIE, zombie, low, high)
        if skeleton > 0:
            low = max(1.0, skeleton) if env.path_count[chunk] >= 6 else 0.0
            _balance_kind(env, entities, chunk, const.SKELETON, skeleton, low, max(1.0, skeleton * 2))
        if cow > 0:
            low = max(1.0, cow) if env.grass_count[chunk] >= 30 else 0.0
            _balance_kind(env, entities, chunk, const.COW, cow, low, max(1.0, cow * (1.5 + env.daylight)))


@jit
def _balance_kind(env, entities, chunk, kind, density, low, high):
    """With some probability, add a creature to a chunk with fewer than `low`, or remove one with more than `high`."""
    rng, count = env.rng, np.int64(env.chunk_counts[chunk, kind])
    if count < int(low) and mt19937.uniform(rng) < _SPAWN_PROB[kind] * env.params.respawn * min(1.0, density):
        num_cells = env.grass_count[chunk] if _SPAWN_GROUND[kind] == const.GRASS else env.path_count[chunk]
        x, y = _nth_cell(env, chunk, _SPAWN_GROUND[kind], mt19937.randint(rng, 0, num_cells))
        player = entities[0]
        if env.entity_slots[x, y] == 0 and abs(player.x - x) + abs(player.y - y) >= _MIN_SPAWN_DISTANCE[kind]:
            add_entity(env, entities, kind, x, y, _SPAWN_HEALTH[kind])
            env.chunk_counts[chunk, kind] += 1
    elif count > int(high) and mt19937.uniform(rng) < _DESPAWN_PROB[kind]:
        row = _nth_arrival(env, entities, chunk, kind, mt19937.randint(rng, 0, count))
        if distance_to_player(entities, row) >= _MIN_DESPAWN_DISTANCE[kind]:
            remove_entity(env, entities, row)
            env.chunk_counts[chunk, kind] -= 1


@jit
def _nth_cell(env, chunk, material, n):
    """The n-th cell of a material in a chunk, column by column."""
    x0, y0 = chunk // const.CHUNKS_PER_SIDE * const.CHUNK_SIZE, chunk % const.CHUNKS_PER_SIDE * const.CHUNK_SIZE
    for x in range(x0, min(x0 + const.CHUNK_SIZE, const.MAP_SIZE)):
        for y in range(y0, min(y0 + const.CHUNK_SIZE, const.MAP_SIZE)):
            if env.ground[x, y] == material:
                if n == 0:
                    return x, y
                n -= 1
    return x0, y0  # unreachable: n is below the chunk's count


@jit
def _nth_arrival(env, entities, chunk, kind, n):
    """The row of the n-th creature of a kind in a chunk, in order of arrival."""
    previous = -1
    result = 0
    for _ in range(n + 1):
        earliest = np.int64(2**31)
        for row in range(env.num_entities):
            entity = entities[row]
            if entity.kind == kind and previous < entity.arrival < earliest and chunk_of(entity.x, entity.y) == chunk:
                earliest, result = np.int64(entity.arrival), row
        previous = earliest
    return result
