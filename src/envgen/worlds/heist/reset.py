"""A new episode: its level's seed, maze and things, drawing from the streams in the original's order.

What a level changes is drawn after, or instead of, what the original draws: without changes no number differs.
"""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as t
from .maze import NEW, OLD, START, UNSEEN, below, carve, choose_place, choose_start, measure, put_doors, spread
from .rules import PLAYER
from .search import shortest_way

SMALLEST_MAZE = 5
TRIES = 100  # to put a thing where it overlaps no other
NEAR = 2  # moves from the start to what it is near
HALF, ONE, TWO = np.float32(0.5), np.float32(1), np.float32(2)
SLACK = ONE - TWO * PLAYER  # how far apart in one cell the middles of two keys can be
KEY_HEIGHT = PLAYER / (np.float32(84) / np.float32(52))  # half of it
GEM_HEIGHT = PLAYER / (np.float32(70) / np.float32(48))


@jit
def begin(e, w, episode):
    """The next episode of an environment; `w` is a record of scratch."""
    e.level_seed = e.first_seed + below(e.chain, np.int64(e.seeds))
    mt19937.seed(e.mt, e.level_seed)
    e.episode, e.step, e.won, e.redraw, e.facing = episode, 0, 0, 1, t.NOOP
    e.total, e.bonus = 0.0, 0.0
    e.vx = e.vy = e.rotation = np.float32(0)
    e.achievements[:] = 0
    mt, dial = e.mt, e.params
    mt19937.skip(mt, 1)  # where a floor that is not square would begin
    e.background = below(mt, t.BACKGROUNDS)
    mt19937.skip(mt, 2)  # a place for the agent, which gets another one
    e.mode, e.side = dial.mode, dial.side
    difficulty = below(mt, (e.side - SMALLEST_MAZE) // 2 + 1)
    drawn = below(mt, t.KEYS + 1) if e.mode == t.MEMORY else difficulty + below(mt, 2)
    e.num_keys = min(drawn, t.KEYS) if dial.keys < 0 else dial.keys
    row = (SMALLEST_MAZE + 2 * difficulty if dial.maze == 0 else dial.maze) + 2
    cells = w.cells
    carve(cells, w.walls, w.group, row, mt, dial.loops)
    e.num_doors = put_doors(cells, w.picks, row, mt, e.num_keys)
    start = _hide(e, w, row)
    held = dial.held & ((1 << e.num_keys) - 1)
    if dial.start >= 0:
        near = min(dial.start, e.num_doors)
        target = t.KEY + near if near < e.num_doors else t.GEM
        start = _start_near(cells, w.picks, w.queue, w.away, row, mt, start, target)
        held |= (1 << near) - 1
    _grant(cells, row, held, dial.open)
    _lay(e, cells, row, start)
    for colour in range(t.KEYS):
        e.has_key[colour] = held >> colour & 1
        e.possible[t.TAKE + 2 * colour] = 0
        e.possible[t.OPEN + 2 * colour] = 0
    e.possible[t.STEAL] = 1
    for n in range(e.count):
        thing = e.things[n]
        if thing.kind != t.A_GEM:
            e.possible[(t.TAKE if thing.kind == t.A_KEY else t.OPEN) + 2 * thing.colour] = 1
    e.shortest = shortest_way(cells, row, start, held, w.queue, w.away)


@jit
def _hide(e, w, row):
    """Put the agent, then each key where the doors before it lead to, and the gem behind all. Returns the start."""
    cells, zone, picks, queue, away = w.cells, w.zone, w.picks, w.queue, w.away
    mt, dial = e.mt, e.params
    start = choose_start(cells, picks, row, mt)
    if dial.keys_away != 0 or dial.gem_away != 0:
        measure(cells, away, queue, row, start, True)
    cells[start] = START
    zone[: row * row] = UNSEEN
    zone[start] = OLD
    for n in range(e.num_doors + 1):
        door = -1
        if n < e.num_doors:
            door = spread(cells, zone, queue, row, True)
            cells[door] = t.DOOR + n
        spread(cells, zone, queue, row, False)
        how_far = dial.keys_away if n < e.num_doors else dial.gem_away
        place = choose_place(cells, zone, picks, away, row, mt, how_far)
        cells[place] = t.KEY + n if n < e.num_doors else t.GEM
        for cell in range(row * row):
            if zone[cell] == NEW:
                zone[cell] = OLD
        if door >= 0:
            zone[door] = OLD
    cells[start] = t.FLOOR
    return start


@jit
def _start_near(cells, picks, queue, away, row, mt, start, target):
    """A start some moves from the target, of which there is one."""
    for cell in range(row * row):
        if cells[cell] == target:
            measure(cells, away, queue, row, cell, False)
    for moves in range(NEAR, 0, -1):
        count = 0
        for cell in range(row * row):
            if away[cell] == moves and cells[cell] == t.FLOOR:
                picks[count] = cell
                count += 1
        if count > 0:
            return np.int64(picks[below(mt, count)])
    return start


@jit
def _grant(cells, row, held, opened):
    """Take away the keys in the mask `held`, and the doors in the mask `opened`."""
    for cell in range(row * row):
        what = np.int64(cells[cell])
        if (t.KEY <= what < t.DOOR and held >> (what - t.KEY) & 1) or (
            t.DOOR <= what < t.GEM and opened >> (what - t.DOOR) & 1
        ):
            cells[cell] = t.FLOOR


@jit
def _lay(e, cells, row, start):
    """Put the maze somewhere in the world, column by column, and everything in it on its place."""
    mt, d = e.mt, row - 2
    right = below(mt, e.side - d + 1)
    up = below(mt, e.side - d + 1)
    e.grid[:] = t.WALL
    e.count = 0
    e.x = np.float32(right + start % row - 1) + HALF
    e.y = np.float32(up + start // row - 1) + HALF
    for x in range(d):
        for y in range(d):
            what = np.int64(cells[(y + 1) * row + x + 1])
            e.grid[up + y, right + x] = what
            if what <= t.FLOOR:
                continue
            thing = e.things[e.count]
            left, bottom = np.float32(right + x), np.float32(up + y)
            thing.alive = 1
            if what < t.DOOR:
                thing.kind, thing.colour = t.A_KEY, what - t.KEY
                _scatter(e, thing, left, bottom)
                thing.ry = KEY_HEIGHT
            elif what < t.GEM:
                thing.kind, thing.colour = t.A_DOOR, what - t.DOOR
                thing.x, thing.y = left + HALF, bottom + HALF
                thing.rx = thing.ry = HALF
            else:
                thing.kind, thing.colour = t.A_GEM, 0
                _scatter(e, thing, left, bottom)
                thing.ry = GEM_HEIGHT
            e.count += 1


@jit
def _scatter(e, thing, left, bottom):
    """Somewhere in a cell, where it overlaps nothing if that can be had. Things are square until they lie."""
    thing.rx = thing.ry = PLAYER
    for _ in range(TRIES):
        thing.x = SLACK * fraction(e.mt) + PLAYER + left
        thing.y = SLACK * fraction(e.mt) + PLAYER + bottom
        free = abs(thing.x - e.x) >= PLAYER + PLAYER or abs(thing.y - e.y) >= PLAYER + PLAYER
        for n in range(e.count):
            other = e.things[n]
            free &= abs(thing.x - other.x) >= PLAYER + other.rx or abs(thing.y - other.y) >= PLAYER + other.ry
        if free:
            return


@jit
def fraction(mt):
    """A float32 from 0 to 1, both included, as the original draws it."""
    return np.float32(mt19937.next_word(mt) / 4294967296.0)
