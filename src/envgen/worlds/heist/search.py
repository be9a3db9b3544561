"""The proof that a maze can be solved: a search over where one can stand with which keys."""

import numpy as np

from ..kernels.jit import jit
from . import tables as t
from .maze import steps_of

UNSOLVABLE = -1


@jit
def shortest_way(cells, row, start, held, queue, away):
    """The least number of moves from cell to cell that leads from `start` to the gem, or UNSOLVABLE.

    A state is a cell and a bit mask of keys. A door is passed with its key; a key is taken where it lies.
    """
    size = row * row
    away[: size << t.KEYS] = -1
    first = held * size + start
    away[first] = 0
    queue[0] = first
    count, k = 1, 0
    while k < count:
        state = np.int64(queue[k])
        k += 1
        mask, cell = state // size, state % size
        for step in steps_of(row):
            beside = cell + step
            what = np.int64(cells[beside])
            if what == t.WALL:
                continue
            if what == t.GEM:
                return np.int64(away[state]) + 1
            keys = mask
            if t.DOOR <= what < t.GEM and (mask >> (what - t.DOOR)) & 1 == 0:
                continue
            if t.KEY <= what < t.DOOR:
                keys = mask | (1 << (what - t.KEY))
            after = keys * size + beside
            if away[after] < 0:
                away[after] = away[state] + 1
                queue[count] = after
                count += 1
    return UNSOLVABLE
