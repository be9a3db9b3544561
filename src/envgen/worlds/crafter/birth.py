"""How an episode begins: the stream is seeded, the world made, and what the level asks for is put near the start."""

from ..kernels import mt19937
from ..kernels.jit import jit
from . import tables as t
from .terrain import make_ground, populate
from .things import add, lay

HOME = 3  # cells around the start, along the axes, that nothing is put on


@jit
def begin(s, i, w, k, episode):
    """Start an episode of environment i. False, and to be called again, if the list of things is too short for it."""
    body = s.body[i]
    dial = s.dial[i]
    seed = mt19937.episode_seed(body.seed_hash, episode)
    mt19937.seed(s.mt[i], seed)
    s.slots[i] = 0
    s.achievements[i] = 0
    body.world_seed = seed
    body.step = 0
    body.length = dial.length
    body.dawn = dial.dawn
    body.things = 0
    body.chunks = 0
    body.arrivals = 0
    body.facing = t.DOWN
    body.sleeping = 0
    body.hunger = 0
    body.thirst = 0
    body.fatigue = 0
    body.recover = 0
    body.unlocked = 0
    body.over = 0
    body.total = 0.0
    for item in range(len(t.ITEMS)):
        s.inventory[i, item] = dial.inventory[item]
    body.felt_health = s.inventory[i, t.HEALTH]
    body.paid_health = s.inventory[i, t.HEALTH]
    add(s, i, t.PLAYER, t.CENTER, t.CENTER, 0)
    make_ground(s, i, dial, w, k)
    if dial.near_cave > 0:
        _dig_cave(s, i, w.tunnels[k])
    if not populate(s, i, dial, w.tunnels[k]) or not _furnish(s, i, dial):
        return False
    body.episode = episode
    return True


@jit
def _dig_cave(s, i, tunnels):
    """A rocky hill of 7 x 7 on one side of the start, with a cave of 5 x 5 that opens towards it."""
    side = mt19937.randint(s.mt[i], 0, 4)
    sign = 1 if side == t.RIGHT or side == t.DOWN else -1
    for along in range(6, 13):
        for across in range(-3, 4):
            x, y = (sign * along, across) if side <= t.RIGHT else (across, sign * along)
            x, y = t.CENTER + x, t.CENTER + y
            hollow = 7 <= along <= 11 and -2 <= across <= 2
            mouth = along == 6 and across == 0
            if hollow or mouth:
                lay(s, i, x, y, t.PATH)
                tunnels[x, y] = True
            else:
                lay(s, i, x, y, t.STONE)


@jit
def _furnish(s, i, dial):
    """Put what the level asks for on free grass near the start. None of it counts as the player's doing."""
    if dial.near_water > 0 or (dial.pond > 0 and not _has(s, i, t.WATER)):
        x, y = _free_cell(s, i)
        lay(s, i, x, y, t.WATER)
    if dial.near_table > 0:
        x, y = _free_cell(s, i)
        lay(s, i, x, y, t.TABLE)
    if dial.near_furnace > 0:
        x, y = _free_cell(s, i)
        lay(s, i, x, y, t.FURNACE)
    if dial.near_plant > 0:
        x, y = _free_cell(s, i)
        row = add(s, i, t.PLANT, x, y, t.PLANT_HEALTH)
        if row < 0:
            return False
        s.things[i, row].clock = t.RIPE + 1 if dial.near_plant == 2 else 0
    for _ in range(dial.near_cows):
        x, y = _free_cell(s, i)
        if add(s, i, t.COW, x, y, t.COW_HEALTH) < 0:
            return False
    return True


@jit
def _has(s, i, material):
    for x in range(t.SIDE):
        for y in range(t.SIDE):
            if s.ground[i, x, y] == material:
                return True
    return False


@jit
def _free_cell(s, i):
    """A random free cell of grass at the smallest distance from HOME on at which there is one, along the axes.

    There are always some: the original keeps grass around the start.
    """
    for away in range(HOME, t.SIDE):
        free = 0
        for again in range(2):  # count them, then find the chosen one
            chosen = mt19937.randint(s.mt[i], 0, free) if again else -1
            free = 0
            for dx in range(-away, away + 1):
                for sign in (-1, 1):
                    if sign > 0 and abs(dx) == away:  # the corner that both signs share
                        continue
                    x, y = t.CENTER + dx, t.CENTER + sign * (away - abs(dx))
                    if 0 <= x < t.SIDE and 0 <= y < t.SIDE and s.ground[i, x, y] == t.GRASS and s.slots[i, x, y] == 0:
                        if free == chosen:
                            return x, y
                        free += 1
            if free == 0:
                break
    return t.CENTER, t.CENTER + 1
