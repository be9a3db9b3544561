"""Every tenth step creatures are added and removed, chunk by chunk, towards numbers that follow the daylight."""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .creatures import distance
from .entities import add_entity, chunk_of, remove_entity

# By kind: the ground it appears on, its health, how near the player it may appear and vanish.
_GROUND = np.zeros(len(const.ENTITIES), np.int64)
_HEALTH = np.zeros(len(const.ENTITIES), np.int64)
_APPEAR_AWAY = np.zeros(len(const.ENTITIES), np.int64)
_VANISH_AWAY = np.zeros(len(const.ENTITIES), np.int64)
# And how likely it does, in a chunk that holds too few or too many.
_APPEAR = np.zeros(len(const.ENTITIES))
_VANISH = np.zeros(len(const.ENTITIES))
for _kind, *_row in (
    (const.ZOMBIE, const.GRASS, const.ZOMBIE_HEALTH, 6, 0, 0.3, 0.4),
    (const.SKELETON, const.PATH, const.SKELETON_HEALTH, 7, 7, 0.1, 0.1),
    (const.COW, const.GRASS, const.COW_HEALTH, 5, 5, 0.01, 0.1),
):
    for _table, _value in zip((_GROUND, _HEALTH, _APPEAR_AWAY, _VANISH_AWAY, _APPEAR, _VANISH), _row, strict=True):
        _table[_kind] = _value


@jit
def balance_creatures(env, entities):
    """One round over all chunks that ever held an entity, in the order in which they first did.

    A level's density scales the numbers; below 1 they stay at least 1, and creatures appear the more slowly.
    """
    dial = env.params
    herds = env.chunk_counts
    herds[:] = 0
    for row in range(env.num_entities):
        entity = entities[row]
        herds[chunk_of(entity.x, entity.y), entity.kind] += 1
    zombie, skeleton, cow = dial.zombie_density, dial.skeleton_density, dial.cow_density
    for c in range(env.num_chunks):
        chunk = np.int64(env.chunk_order[c])
        if zombie > 0:
            most = zombie * (3.5 - 3 * env.daylight)
            _balance_kind(
                env, entities, chunk, const.ZOMBIE, zombie, most if env.grass_count[chunk] >= 50 else 0.0, most
            )
        if skeleton > 0:
            least = max(1.0, skeleton) if env.path_count[chunk] >= 6 else 0.0
            _balance_kind(env, entities, chunk, const.SKELETON, skeleton, least, max(1.0, skeleton * 2))
        if cow > 0:
            least = max(1.0, cow) if env.grass_count[chunk] >= 30 else 0.0
            _balance_kind(env, entities, chunk, const.COW, cow, least, max(1.0, cow * (1.5 + env.daylight)))


@jit
def _balance_kind(env, entities, chunk, kind, density, least, most):
    """Perhaps add one creature to a chunk that holds fewer than `least`, or remove one where there are over `most`."""
    rng, herd = env.rng, np.int64(env.chunk_counts[chunk, kind])
    if herd < int(least) and mt19937.uniform(rng) < _APPEAR[kind] * env.params.respawn * min(1.0, density):
        space = env.grass_count[chunk] if _GROUND[kind] == const.GRASS else env.path_count[chunk]
        x, y = _nth_cell(env, chunk, _GROUND[kind], mt19937.randint(rng, 0, space))
        player = entities[0]
        if env.entity_slots[x, y] == 0 and abs(player.x - x) + abs(player.y - y) >= _APPEAR_AWAY[kind]:
            add_entity(env, entities, kind, x, y, _HEALTH[kind])
            env.chunk_counts[chunk, kind] += 1
    elif herd > int(most) and mt19937.uniform(rng) < _VANISH[kind]:
        row = _nth_arrival(env, entities, chunk, kind, mt19937.randint(rng, 0, herd))
        if distance(entities, row) >= _VANISH_AWAY[kind]:
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
    return x0, y0  # not reached: n is below the chunk's count


@jit
def _nth_arrival(env, entities, chunk, kind, n):
    """The row of the chunk's n-th creature of a kind, in order of arrival."""
    latest = -1
    best = 0
    for _ in range(n + 1):
        earliest = np.int64(2**31)
        for row in range(env.num_entities):
            entity = entities[row]
            if entity.kind == kind and latest < entity.arrival < earliest and chunk_of(entity.x, entity.y) == chunk:
                earliest, best = np.int64(entity.arrival), row
        latest = earliest
    return best
