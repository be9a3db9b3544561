"""Things on the map and the ground under them: the few operations through which all rules change a world.

A thing is a row of the list `things`. Row order is the order of creation, in which the original updates them. The
original keeps the things of a chunk in a set, whose order is undefined; here it is the order of `arrival`.
"""

import numpy as np

from envgen.jit import jit

from .constants import CHUNK, CHUNKS, GRASS, HEALTH, NOTHING, OUTSIDE, PATH, PLAYER, SIDE


@jit
def inside(x, y):
    return 0 <= x < SIDE and 0 <= y < SIDE


@jit
def ground_at(e, x, y):
    """The material at (x, y); OUTSIDE off the map."""
    if not inside(x, y):
        return OUTSIDE
    return np.int64(e.ground[x, y])


@jit
def thing_at(e, x, y):
    """The row of the thing at (x, y), or -1."""
    if not inside(x, y):
        return -1
    return np.int64(e.slots[x, y]) - 1


@jit
def has_ground(e, material):
    """Is there a cell of this material?"""
    for x in range(SIDE):
        for y in range(SIDE):
            if e.ground[x, y] == material:
                return True
    return False


@jit
def chunk_of(x, y):
    return x // CHUNK * CHUNKS + y // CHUNK


@jit
def survey(e):
    """Count every chunk's grass and path."""
    for chunk in range(CHUNKS * CHUNKS):
        x0, y0 = chunk // CHUNKS * CHUNK, chunk % CHUNKS * CHUNK
        grass = path = 0
        for x in range(x0, min(x0 + CHUNK, SIDE)):
            for y in range(y0, min(y0 + CHUNK, SIDE)):
                grass += e.ground[x, y] == GRASS
                path += e.ground[x, y] == PATH
        e.grass[chunk] = grass
        e.path[chunk] = path


@jit
def lay(e, x, y, material):
    """Change the ground; keeps the chunk's counts of grass and path."""
    chunk = chunk_of(x, y)
    old = e.ground[x, y]
    if old == GRASS:
        e.grass[chunk] -= 1
    elif old == PATH:
        e.path[chunk] -= 1
    if material == GRASS:
        e.grass[chunk] += 1
    elif material == PATH:
        e.path[chunk] += 1
    e.ground[x, y] = material


@jit
def is_free(e, x, y, materials):
    """Can a thing that walks on `materials` (a bit mask) step onto (x, y)?"""
    return (materials >> ground_at(e, x, y)) & 1 == 1 and e.slots[x, y] == 0


@jit
def _arrive(e, things, row, chunk):
    things[row].arrival = e.arrivals
    e.arrivals += 1
    for c in range(e.chunks):
        if e.chunk_order[c] == chunk:
            return
    e.chunk_order[e.chunks] = chunk
    e.chunks += 1


@jit
def add(e, things, kind, x, y, health):
    """A new thing at the free cell (x, y): its row, or -1 if the list is full."""
    row = e.count
    if row >= things.size:
        return -1
    e.count += 1
    thing = things[row]
    thing.kind = kind
    thing.facing = 0
    thing.x = x
    thing.y = y
    thing.health = health
    thing.clock = 0
    e.slots[x, y] = row + 1
    _arrive(e, things, row, chunk_of(x, y))
    return row


@jit
def remove(e, things, row):
    """Take a thing off the map. It keeps its row, and may finish its turn, until `compact`."""
    thing = things[row]
    if thing.kind != NOTHING:
        e.slots[thing.x, thing.y] = 0
        thing.kind = NOTHING


@jit
def move(e, things, row, direction, materials):
    """Step in a direction (dx, dy) if the cell is free. True if it was, also for a thing that is already removed."""
    thing = things[row]
    x, y = thing.x + direction[0], thing.y + direction[1]
    if not is_free(e, x, y, materials):
        return False
    if thing.kind != NOTHING:
        old = chunk_of(thing.x, thing.y)
        e.slots[thing.x, thing.y] = 0
        e.slots[x, y] = row + 1
        thing.x = x
        thing.y = y
        if chunk_of(x, y) != old:
            _arrive(e, things, row, chunk_of(x, y))
    return True


@jit
def hurt(e, things, row, damage):
    thing = things[row]
    if thing.kind == PLAYER:
        e.inventory[HEALTH] = max(0, e.inventory[HEALTH] - damage)
    else:
        thing.health = max(0, thing.health - damage)


@jit
def compact(e, things):
    """Close the gaps that removed things left, keeping the order."""
    kept = 0
    for row in range(e.count):
        thing = things[row]
        if thing.kind != NOTHING:
            if kept != row:
                things[kept] = thing
                e.slots[thing.x, thing.y] = kept + 1
            kept += 1
    e.count = kept
