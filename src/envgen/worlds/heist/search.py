"""The proof that a maze can be solved: a search over where one can stand with which keys.

A state is `mask * row * row + cell`, a bit mask of keys held and a cell of an array with a border of walls.
"""

import numpy as np

from envgen.jit import jit

from . import constants as t
from .maze import steps_of

NO_WAY = -1


@jit
def lay_out(e, cells, row):
    """Copy an environment's maze into an array with a border, and return the state its agent is in."""
    for y in range(t.SIDE):
        for x in range(t.SIDE):
            cells[(y + 1) * row + x + 1] = e.grid[y, x]
    held = 0
    for colour in range(t.KEYS):
        held |= (e.has_key[colour] != 0) << colour
    return held * row * row + (np.int64(e.y) + 1) * row + np.int64(e.x) + 1


@jit
def entered(what, mask, cell, size):
    """The state after a step onto a cell on which stands `what`, or NO_WAY. A door is passed with its key; a key is
    taken where it lies."""
    if what == t.WALL or (t.DOOR <= what < t.GEM and mask >> (what - t.DOOR) & 1 == 0):
        return NO_WAY
    if t.KEY <= what < t.DOOR:
        mask |= 1 << (what - t.KEY)
    return mask * size + cell


@jit
def find_gem(cells, row, start, queue, origin):
    """The state in which the gem is reached first from the state `start`, or NO_WAY.

    origin[state] is the state before it, of the first one itself.
    """
    size = row * row
    origin[: size << t.KEYS] = NO_WAY
    queue[0] = start
    origin[start] = start
    count, k = 1, 0
    while k < count:
        state = np.int64(queue[k])
        k += 1
        mask, cell = state // size, state % size
        for step in steps_of(row):
            beside = cell + step
            what = np.int64(cells[beside])
            after = entered(what, mask, beside, size)
            if after != NO_WAY and origin[after] == NO_WAY:
                origin[after] = state
                if what == t.GEM:
                    return after
                queue[count] = after
                count += 1
    return NO_WAY


@jit
def shortest_way(cells, row, start, held, queue, origin):
    """The least number of moves from cell to cell that leads to the gem, or NO_WAY."""
    state = find_gem(cells, row, held * row * row + start, queue, origin)
    moves = 0 if state != NO_WAY else NO_WAY
    while state != NO_WAY and origin[state] != state:
        state = np.int64(origin[state])
        moves += 1
    return moves


@jit
def measure_ways(e, cells, queue, away, moves):
    """moves[what] = the fewest moves to what stands on a cell: KEY + colour, DOOR + colour, GEM; NO_WAY if to none.

    `e` is an environment at the start of its episode, the rest but `moves` scratch.
    """
    row = t.SIDE + 2
    size = row * row
    queue[0] = lay_out(e, cells, row)
    moves[:] = NO_WAY
    away[: size << t.KEYS] = NO_WAY
    away[queue[0]] = 0
    count, k = 1, 0
    while k < count:
        state = np.int64(queue[k])
        k += 1
        mask, cell = state // size, state % size
        for step in steps_of(row):
            beside = cell + step
            what = np.int64(cells[beside])
            after = entered(what, mask, beside, size)
            if after == NO_WAY:
                continue
            if moves[what] == NO_WAY:
                moves[what] = away[state] + 1
            if away[after] == NO_WAY:
                away[after] = away[state] + 1
                queue[count] = after
                count += 1
