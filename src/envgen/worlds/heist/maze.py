"""The maze of a level: its ways, its doors, and which cells a locked door keeps apart.

A maze of `d` x `d` cells is made inside a border of walls, in an array of (d + 2) x (d + 2) cells that is read row by
row. All draws are the original's, in its order; what a level changes draws further numbers, and only then.
"""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as t

MOST_CELLS = (t.SIDE + 2) ** 2
MOST_WALLS = (t.SIDE - 1) * (t.SIDE + 1) // 2
MASKS = 1 << t.KEYS
UNNAMED = t.GEM + 1  # a door that has no colour yet
START = t.GEM + 2
UNSEEN, OLD, NEW = 0, 1, 2  # cells that nobody reached, that were reached with fewer keys, that are reached now


SCRATCH = np.dtype(  # what making a level needs for the moment; an array of them has one per thread
    [
        ("cells", np.uint8, MOST_CELLS),  # the maze in its border: WALL, FLOOR, KEY + colour, ...
        ("walls", np.int32, (2, MOST_WALLS)),  # cells of walls: those to be taken, those that stayed
        ("group", np.int32, MOST_CELLS),  # for every cell another one of its part of the maze, or itself
        ("zone", np.uint8, MOST_CELLS),  # UNSEEN, OLD or NEW
        ("queue", np.int32, MASKS * MOST_CELLS),
        ("away", np.int32, MASKS * MOST_CELLS),  # moves
        ("picks", np.int32, MOST_CELLS),  # cells to choose from
    ],
    align=True,
)


@jit
def below(mt, n):
    """A number from 0 to n - 1 as the original draws it."""
    return np.int64(mt19937.next_word(mt)) % n


@jit
def steps_of(row):
    """The four neighbours of a cell in a maze with `row` cells in a row: left, below, above, right."""
    return (-1, -row, row, 1)


@jit
def carve(cells, walls, group, row, mt, loops):
    """A tree that joins all even cells, in random order (Kruskal's); then `loops` percent of the other walls go."""
    d = row - 2
    cells[: row * row] = t.WALL
    for cell in range(row * row):
        group[cell] = cell
    left = 0
    for x in range(1, d, 2):  # walls between neighbours in a row
        for y in range(0, d, 2):
            walls[0, left] = (y + 1) * row + x + 1
            left += 1
    for x in range(0, d, 2):  # ... and in a column
        for y in range(1, d, 2):
            walls[0, left] = (y + 1) * row + x + 1
            left += 1
    stayed = 0
    while left > 0:
        wall = np.int64(_take(walls[0], left, below(mt, left)))
        left -= 1
        between = 1 if wall % row % 2 == 0 else row
        a, b = _root(group, wall - between), _root(group, wall + between)
        if a == b:
            walls[1, stayed] = wall
            stayed += 1
        else:
            group[a] = b
            cells[wall - between] = cells[wall] = cells[wall + between] = t.FLOOR
    if loops > 0:
        for k in range(stayed):
            if below(mt, 100) < loops:
                cells[walls[1, k]] = t.FLOOR


@jit
def _root(group, cell):
    while group[cell] != cell:
        group[cell] = group[group[cell]]
        cell = np.int64(group[cell])
    return cell


@jit
def put_doors(cells, picks, row, mt, wanted):
    """Doors, UNNAMED, where ways part: `wanted`, or as many as there are places. Returns how many."""
    forks = 0
    for cell in range(row, row * row - row):
        if cells[cell] == t.FLOOR:
            ways = 0
            for step in steps_of(row):
                ways += cells[cell + step] != t.WALL
            if ways > 2:
                picks[forks] = cell
                forks += 1
    if wanted > forks:  # nothing is drawn
        for k in range(forks):
            cells[picks[k]] = UNNAMED
        return forks
    for _ in range(wanted):
        cells[_take(picks, forks, below(mt, forks))] = UNNAMED
        forks -= 1
    return wanted


@jit
def _take(picks, count, n):
    """Take the n-th of `count` cells out; the others keep their order."""
    cell = picks[n]
    for k in range(np.uint64(n), np.uint64(count - 1)):  # unsigned: it becomes one move of memory
        picks[k] = picks[k + np.uint64(1)]
    return cell


@jit
def choose_start(cells, picks, row, mt):
    """A cell without a door in it or beside it."""
    count = 0
    for cell in range(row, row * row - row):
        if cells[cell] == t.FLOOR:
            picks[count] = cell
            count += 1
    while True:
        cell = np.int64(picks[below(mt, count)])
        free = True
        for step in steps_of(row):
            free &= cells[cell + step] != UNNAMED
        if free:
            return cell


@jit
def spread(cells, zone, queue, row, to_door):
    """Reach, from all cells seen so far, those that no door keeps apart; they become NEW.

    With `to_door` only until an UNNAMED door is met; returns its cell. All cells at one distance are visited in order
    before the next, as the original does.
    """
    count = 0
    for cell in range(row * row):
        if zone[cell] != UNSEEN:
            queue[count] = cell
            count += 1
    first = 0
    while first < count:
        last = count
        for k in range(first, last):
            cell = np.int64(queue[k])
            for step in steps_of(row):
                beside = cell + step
                if zone[beside] == UNSEEN and t.FLOOR <= cells[beside] < t.DOOR:
                    zone[beside] = NEW
                    queue[count] = beside
                    count += 1
            if to_door:
                for step in steps_of(row):
                    if cells[cell + step] == UNNAMED:
                        return cell + step
        _sort(queue, last, count)
        first = last
    return -1


@jit
def _sort(queue, first, last):
    """By insertion: few cells are at one distance, and they come nearly in order."""
    for k in range(first + 1, last):
        cell = queue[k]
        n = k
        while n > first and queue[n - 1] > cell:
            queue[n] = queue[n - 1]
            n -= 1
        queue[n] = cell


@jit
def measure(cells, away, queue, row, start, through_doors):
    """away[cell] = moves from `start`; -1 where nobody comes."""
    away[: row * row] = -1
    away[start] = 0
    queue[0] = start
    count = 1
    k = 0
    while k < count:
        cell = np.int64(queue[k])
        k += 1
        for step in steps_of(row):
            beside = cell + step
            what = cells[beside]
            if away[beside] < 0 and what != t.WALL and (through_doors or what < t.DOOR or what == t.GEM):
                away[beside] = away[cell] + 1
                queue[count] = beside
                count += 1


@jit
def choose_place(cells, zone, picks, away, row, mt, how_far):
    """A NEW cell; of the nearest third for `how_far` -1, of the farthest for 1. Any empty one where none is NEW."""
    count = _empty(cells, zone, picks, row, NEW)
    if count == 0:  # a way round the last door leads to all that lies behind it
        count = _empty(cells, zone, picks, row, OLD)
    if how_far == 0:
        return np.int64(picks[below(mt, count)])
    for k in range(1, count):  # in order of distance
        cell = picks[k]
        n = k
        while n > 0 and how_far * away[picks[n - 1]] < how_far * away[cell]:
            picks[n] = picks[n - 1]
            n -= 1
        picks[n] = cell
    return np.int64(picks[below(mt, (count + 2) // 3)])


@jit
def _empty(cells, zone, picks, row, kind):
    count = 0
    for cell in range(row, row * row - row):
        if zone[cell] == kind and cells[cell] == t.FLOOR:
            picks[count] = cell
            count += 1
    return count
