"""Every tenth step the original adds and removes creatures, chunk by chunk, towards numbers that follow the daylight."""

import numpy as np

from ..kernels import mt19937
from ..kernels.jit import jit
from . import tables as t
from .creatures import distance
from .things import add, chunk_of, remove


@jit
def balance(s, i, light):
    """One round over all chunks that ever held a thing, in the order in which they first did."""
    body, dial = s.body[i], s.dial[i]
    counts = s.herds[i]  # live creatures by chunk and kind
    counts[:] = 0
    for row in range(body.things):
        thing = s.things[i, row]
        counts[chunk_of(thing.x, thing.y), thing.kind] += 1
    for c in range(body.chunks):
        chunk = np.int64(s.chunk_order[i, c])
        grass, path = s.grass[i, chunk], s.path[i, chunk]
        pace = dial.respawn

        most = dial.zombie_density * (3.5 - 3 * light)
        least = 0.0 if grass < 50 else most
        change = _balance(
            s, i, chunk, t.ZOMBIE, counts[chunk, t.ZOMBIE], t.GRASS, grass, 6, 0, 0.3 * pace, 0.4, least, most,
            t.ZOMBIE_HEALTH,
        )  # fmt: skip
        counts[chunk, t.ZOMBIE] += change

        least, most = 0.0 if path < 6 else dial.skeleton_density * 1.0, dial.skeleton_density * 2.0
        change = _balance(
            s, i, chunk, t.SKELETON, counts[chunk, t.SKELETON], t.PATH, path, 7, 7, 0.1 * pace, 0.1, least, most,
            t.SKELETON_HEALTH,
        )  # fmt: skip
        counts[chunk, t.SKELETON] += change

        least, most = 0.0 if grass < 30 else dial.cow_density * 1.0, dial.cow_density * (1.5 + light)
        _balance(
            s, i, chunk, t.COW, counts[chunk, t.COW], t.GRASS, grass, 5, 5, 0.01 * pace, 0.1, least, most, t.COW_HEALTH
        )


@jit
def _balance(
    s, i, chunk, kind, count, material, space, spawn_away, remove_away, spawn_chance, remove_chance, least, most, health
):
    """Perhaps add one creature (+1) to a chunk, or remove one (-1), at least so far away from the player."""
    mt = s.mt[i]
    if count < int(least) and mt19937.uniform(mt) < spawn_chance:
        x, y = _nth_cell(s, i, chunk, material, mt19937.randint(mt, 0, space))
        me = s.things[i, 0]
        if s.slots[i, x, y] == 0 and abs(me.x - x) + abs(me.y - y) >= spawn_away:
            add(s, i, kind, x, y, health)
            return 1
    elif count > int(most) and mt19937.uniform(mt) < remove_chance:
        row = _nth_arrival(s, i, chunk, kind, mt19937.randint(mt, 0, count))
        if distance(s, i, row) >= remove_away:
            remove(s, i, row)
            return -1
    return 0


@jit
def _nth_cell(s, i, chunk, material, n):
    """The n-th cell of a material in a chunk, column by column."""
    x0, y0 = chunk // t.CHUNKS * t.CHUNK, chunk % t.CHUNKS * t.CHUNK
    for x in range(x0, min(x0 + t.CHUNK, t.SIDE)):
        for y in range(y0, min(y0 + t.CHUNK, t.SIDE)):
            if s.ground[i, x, y] == material:
                if n == 0:
                    return x, y
                n -= 1
    return x0, y0  # not reached: n is below the chunk's count


@jit
def _nth_arrival(s, i, chunk, kind, n):
    """The row of the chunk's n-th creature of a kind, in order of arrival."""
    latest = -1
    best = 0
    for _ in range(n + 1):
        earliest = np.int64(2**31)
        for row in range(s.body[i].things):
            thing = s.things[i, row]
            if thing.kind == kind and latest < thing.arrival < earliest and chunk_of(thing.x, thing.y) == chunk:
                earliest, best = np.int64(thing.arrival), row
        latest = earliest
    return best
