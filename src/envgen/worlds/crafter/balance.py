"""Every tenth step creatures are added and removed, chunk by chunk, towards numbers that follow the daylight."""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as t
from .creatures import distance
from .entities import add, chunk_of, remove

# By kind: the ground it appears on, its health, how near the player it may appear and vanish.
_GROUND = np.zeros(len(t.THINGS), np.int64)
_HEALTH = np.zeros(len(t.THINGS), np.int64)
_APPEAR_AWAY = np.zeros(len(t.THINGS), np.int64)
_VANISH_AWAY = np.zeros(len(t.THINGS), np.int64)
# And how likely it does, in a chunk that holds too few or too many.
_APPEAR = np.zeros(len(t.THINGS))
_VANISH = np.zeros(len(t.THINGS))
for _kind, *_row in (
    (t.ZOMBIE, t.GRASS, t.ZOMBIE_HEALTH, 6, 0, 0.3, 0.4),
    (t.SKELETON, t.PATH, t.SKELETON_HEALTH, 7, 7, 0.1, 0.1),
    (t.COW, t.GRASS, t.COW_HEALTH, 5, 5, 0.01, 0.1),
):
    for _table, _value in zip((_GROUND, _HEALTH, _APPEAR_AWAY, _VANISH_AWAY, _APPEAR, _VANISH), _row, strict=True):
        _table[_kind] = _value


@jit
def balance(e, things):
    """One round over all chunks that ever held a thing, in the order in which they first did.

    A level's density scales the numbers; below 1 they stay at least 1, and creatures appear the more slowly.
    """
    dial = e.params
    herds = e.herds
    herds[:] = 0
    for row in range(e.count):
        thing = things[row]
        herds[chunk_of(thing.x, thing.y), thing.kind] += 1
    zombie, skeleton, cow = dial.zombie_density, dial.skeleton_density, dial.cow_density
    for c in range(e.chunks):
        chunk = np.int64(e.chunk_order[c])
        if zombie > 0:
            most = zombie * (3.5 - 3 * e.light)
            _balance(e, things, chunk, t.ZOMBIE, zombie, most if e.grass[chunk] >= 50 else 0.0, most)
        if skeleton > 0:
            least = max(1.0, skeleton) if e.path[chunk] >= 6 else 0.0
            _balance(e, things, chunk, t.SKELETON, skeleton, least, max(1.0, skeleton * 2))
        if cow > 0:
            least = max(1.0, cow) if e.grass[chunk] >= 30 else 0.0
            _balance(e, things, chunk, t.COW, cow, least, max(1.0, cow * (1.5 + e.light)))


@jit
def _balance(e, things, chunk, kind, density, least, most):
    """Perhaps add one creature to a chunk that holds fewer than `least`, or remove one where there are over `most`."""
    mt, herd = e.mt, np.int64(e.herds[chunk, kind])
    if herd < int(least) and mt19937.uniform(mt) < _APPEAR[kind] * e.params.respawn * min(1.0, density):
        space = e.grass[chunk] if _GROUND[kind] == t.GRASS else e.path[chunk]
        x, y = _nth_cell(e, chunk, _GROUND[kind], mt19937.randint(mt, 0, space))
        me = things[0]
        if e.slots[x, y] == 0 and abs(me.x - x) + abs(me.y - y) >= _APPEAR_AWAY[kind]:
            add(e, things, kind, x, y, _HEALTH[kind])
            e.herds[chunk, kind] += 1
    elif herd > int(most) and mt19937.uniform(mt) < _VANISH[kind]:
        row = _nth_arrival(e, things, chunk, kind, mt19937.randint(mt, 0, herd))
        if distance(things, row) >= _VANISH_AWAY[kind]:
            remove(e, things, row)
            e.herds[chunk, kind] -= 1


@jit
def _nth_cell(e, chunk, material, n):
    """The n-th cell of a material in a chunk, column by column."""
    x0, y0 = chunk // t.CHUNKS * t.CHUNK, chunk % t.CHUNKS * t.CHUNK
    for x in range(x0, min(x0 + t.CHUNK, t.SIDE)):
        for y in range(y0, min(y0 + t.CHUNK, t.SIDE)):
            if e.ground[x, y] == material:
                if n == 0:
                    return x, y
                n -= 1
    return x0, y0  # not reached: n is below the chunk's count


@jit
def _nth_arrival(e, things, chunk, kind, n):
    """The row of the chunk's n-th creature of a kind, in order of arrival."""
    latest = -1
    best = 0
    for _ in range(n + 1):
        earliest = np.int64(2**31)
        for row in range(e.count):
            thing = things[row]
            if thing.kind == kind and latest < thing.arrival < earliest and chunk_of(thing.x, thing.y) == chunk:
                earliest, best = np.int64(thing.arrival), row
        latest = earliest
    return best
