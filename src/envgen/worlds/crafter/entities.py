"""Entities on the map and the ground below them: the operations through which the rules change a map.

An entity is a row of the array `entities`. Rows are in order of creation, the order in which the reference updates
entities. The reference keeps the entities of a chunk in a set, whose order is undefined; here it is the order of
`arrival`.
"""

import numpy as np

from envgen.jit import jit

from .constants import CHUNK_SIZE, CHUNKS_PER_SIDE, GRASS, HEALTH, MAP_SIZE, NO_ENTITY, OUTSIDE, PATH, PLAYER


@jit
def is_inside(x, y):
    return 0 <= x < MAP_SIZE and 0 <= y < MAP_SIZE


@jit
def ground_at(env, x, y):
    """The material at (x, y); OUTSIDE off the map."""
    if not is_inside(x, y):
        return OUTSIDE
    return np.int64(env.ground[x, y])


@jit
def entity_at(env, x, y):
    """The row of the entity at (x, y), or -1."""
    if not is_inside(x, y):
        return -1
    return np.int64(env.entity_slots[x, y]) - 1


@jit
def has_ground(env, material):
    """Whether any cell has this material."""
    for x in range(MAP_SIZE):
        for y in range(MAP_SIZE):
            if env.ground[x, y] == material:
                return True
    return False


@jit
def chunk_of(x, y):
    return x // CHUNK_SIZE * CHUNKS_PER_SIDE + y // CHUNK_SIZE


@jit
def count_ground(env):
    """Count the grass and path cells of every chunk."""
    for chunk in range(CHUNKS_PER_SIDE * CHUNKS_PER_SIDE):
        x0, y0 = chunk // CHUNKS_PER_SIDE * CHUNK_SIZE, chunk % CHUNKS_PER_SIDE * CHUNK_SIZE
        grass = path = 0
        for x in range(x0, min(x0 + CHUNK_SIZE, MAP_SIZE)):
            for y in range(y0, min(y0 + CHUNK_SIZE, MAP_SIZE)):
                grass += env.ground[x, y] == GRASS
                path += env.ground[x, y] == PATH
        env.grass_count[chunk] = grass
        env.path_count[chunk] = path


@jit
def set_ground(env, x, y, material):
    """Change the material of a cell and update the grass and path counts of its chunk."""
    chunk = chunk_of(x, y)
    old = env.ground[x, y]
    if old == GRASS:
        env.grass_count[chunk] -= 1
    elif old == PATH:
        env.path_count[chunk] -= 1
    if material == GRASS:
        env.grass_count[chunk] += 1
    elif material == PATH:
        env.path_count[chunk] += 1
    env.ground[x, y] = material


@jit
def is_free(env, x, y, materials):
    """Whether an entity that walks on `materials` (a bit mask) can move to (x, y)."""
    return (materials >> ground_at(env, x, y)) & 1 == 1 and env.entity_slots[x, y] == 0


@jit
def _enter_chunk(env, entities, row, chunk):
    entities[row].arrival = env.next_arrival
    env.next_arrival += 1
    for i in range(env.num_chunks):
        if env.chunk_order[i] == chunk:
            return
    env.chunk_order[env.num_chunks] = chunk
    env.num_chunks += 1


@jit
def add_entity(env, entities, kind, x, y, health):
    """Create an entity at the free cell (x, y). Returns its row, or -1 if the array is full."""
    row = env.num_entities
    if row >= entities.size:
        return -1
    env.num_entities += 1
    entity = entities[row]
    entity.kind = kind
    entity.facing = 0
    entity.x = x
    entity.y = y
    entity.health = health
    entity.counter = 0
    env.entity_slots[x, y] = row + 1
    _enter_chunk(env, entities, row, chunk_of(x, y))
    return row


@jit
def remove_entity(env, entities, row):
    """Take an entity off the map. Its row stays in use, and it may finish its turn, until `compact`."""
    entity = entities[row]
    if entity.kind != NO_ENTITY:
        env.entity_slots[entity.x, entity.y] = 0
        entity.kind = NO_ENTITY


@jit
def move_entity(env, entities, row, direction, materials):
    """Move by `direction` (dx, dy) if that cell is free, and return whether it was, even for a removed entity."""
    entity = entities[row]
    x, y = entity.x + direction[0], entity.y + direction[1]
    if not is_free(env, x, y, materials):
        return False
    if entity.kind != NO_ENTITY:
        old_chunk = chunk_of(entity.x, entity.y)
        env.entity_slots[entity.x, entity.y] = 0
        env.entity_slots[x, y] = row + 1
        entity.x = x
        entity.y = y
        if chunk_of(x, y) != old_chunk:
            _enter_chunk(env, entities, row, chunk_of(x, y))
    return True


@jit
def damage_entity(env, entities, row, amount):
    entity = entities[row]
    if entity.kind == PLAYER:
        env.inventory[HEALTH] = max(0, env.inventory[HEALTH] - amount)
    else:
        entity.health = max(0, entity.health - amount)


@jit
def compact(env, entities):
    """Close the gaps that removed entities left, keeping the order."""
    count = 0
    for row in range(env.num_entities):
        entity = entities[row]
        if entity.kind != NO_ENTITY:
            if count != row:
                entities[count] = entity
                env.entity_slots[entity.x, entity.y] = count + 1
            count += 1
    env.num_entities = count
