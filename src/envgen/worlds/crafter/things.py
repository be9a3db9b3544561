"""Things on the map and the ground under them: the few operations through which all rules change a world.

A thing is a row of `State.things`. Row order is the order of creation, in which the original updates them. The original
keeps the things of a chunk in a set, whose order is undefined; here it is the order of arrival (`arrival`).
"""

import numpy as np

from ..kernels.jit import jit
from .tables import CHUNK, CHUNKS, GRASS, HEALTH, NOTHING, OUTSIDE, PATH, PLAYER, SIDE


@jit
def inside(x, y):
    return 0 <= x < SIDE and 0 <= y < SIDE


@jit
def ground_at(s, i, x, y):
    """The material at (x, y); OUTSIDE off the map."""
    if not inside(x, y):
        return OUTSIDE
    return np.int64(s.ground[i, x, y])


@jit
def thing_at(s, i, x, y):
    """The row of the thing at (x, y), or -1."""
    if not inside(x, y):
        return -1
    return np.int64(s.slots[i, x, y]) - 1


@jit
def chunk_of(x, y):
    return x // CHUNK * CHUNKS + y // CHUNK


@jit
def lay(s, i, x, y, material):
    """Change the ground; keeps the chunk's counts of grass and path."""
    chunk = chunk_of(x, y)
    old = s.ground[i, x, y]
    if old == GRASS:
        s.grass[i, chunk] -= 1
    elif old == PATH:
        s.path[i, chunk] -= 1
    if material == GRASS:
        s.grass[i, chunk] += 1
    elif material == PATH:
        s.path[i, chunk] += 1
    s.ground[i, x, y] = material


@jit
def is_free(s, i, x, y, materials):
    """Can a thing that walks on `materials` (a bit mask) step onto (x, y)?"""
    return (materials >> ground_at(s, i, x, y)) & 1 == 1 and s.slots[i, x, y] == 0


@jit
def _arrive(s, i, row, chunk):
    body = s.body[i]
    s.things[i, row].arrival = body.arrivals
    body.arrivals += 1
    for c in range(body.chunks):
        if s.chunk_order[i, c] == chunk:
            return
    s.chunk_order[i, body.chunks] = chunk
    body.chunks += 1


@jit
def add(s, i, kind, x, y, health):
    """A new thing at the free cell (x, y): its row, or -1 if the list is full."""
    body = s.body[i]
    row = body.things
    if row >= s.things.shape[1]:
        return -1
    body.things += 1
    thing = s.things[i, row]
    thing.kind = kind
    thing.facing = 0
    thing.x = x
    thing.y = y
    thing.health = health
    thing.clock = 0
    s.slots[i, x, y] = row + 1
    _arrive(s, i, row, chunk_of(x, y))
    return row


@jit
def remove(s, i, row):
    """Take a thing off the map. It keeps its row, and may finish its turn, until `compact`."""
    thing = s.things[i, row]
    if thing.kind != NOTHING:
        s.slots[i, thing.x, thing.y] = 0
        thing.kind = NOTHING


@jit
def move(s, i, row, direction, materials):
    """Step in a direction (dx, dy) if the cell is free. True if it was, also for a thing that is already removed."""
    thing = s.things[i, row]
    x, y = thing.x + direction[0], thing.y + direction[1]
    if not is_free(s, i, x, y, materials):
        return False
    if thing.kind != NOTHING:
        old = chunk_of(thing.x, thing.y)
        s.slots[i, thing.x, thing.y] = 0
        s.slots[i, x, y] = row + 1
        thing.x = x
        thing.y = y
        if chunk_of(x, y) != old:
            _arrive(s, i, row, chunk_of(x, y))
    return True


@jit
def hurt(s, i, row, damage):
    thing = s.things[i, row]
    if thing.kind == PLAYER:
        s.inventory[i, HEALTH] = max(0, s.inventory[i, HEALTH] - damage)
    else:
        thing.health = max(0, thing.health - damage)


@jit
def compact(s, i):
    """Close the gaps that removed things left, keeping the order."""
    body = s.body[i]
    kept = 0
    for row in range(body.things):
        thing = s.things[i, row]
        if thing.kind != NOTHING:
            if kept != row:
                s.things[i, kept] = thing
                s.slots[i, thing.x, thing.y] = kept + 1
            kept += 1
    body.things = kept
