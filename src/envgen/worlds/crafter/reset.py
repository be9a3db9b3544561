"""How an episode begins: the stream is seeded, the world made, and what the level asks for is put near the start."""

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as t
from .entities import add, has_ground, lay
from .terrain import make_ground, populate

HOME = 3  # steps from the start, along the axes, at which things are put
PASTURE = 5  # and cows: not beside a plant, which they would destroy


@jit
def reset_episode(e, things, w, k, episode, daylight):
    """Start an episode of an environment. False, and to be called again, if the list of things is too short for it."""
    dial = e.params
    seed = mt19937.episode_seed(e.seed_hash, episode)
    mt19937.seed(e.mt, seed)
    e.slots[:] = 0
    e.achievements[:] = 0
    e.world_seed = seed
    e.step = 0
    e.light = daylight[dial.dawn]
    e.count = 0
    e.chunks = 0
    e.arrivals = 0
    e.facing = t.DOWN
    e.sleeping = 0
    e.hunger = 0
    e.thirst = 0
    e.fatigue = 0
    e.recover = 0
    e.unlocked = 0
    e.total = 0.0
    for item in range(len(t.ITEMS)):
        e.inventory[item] = dial.inventory[item]
    e.felt_health = e.inventory[t.HEALTH]
    e.paid_health = e.inventory[t.HEALTH]
    add(e, things, t.PLAYER, t.CENTER, t.CENTER, 0)
    make_ground(e, dial, w, k)
    if dial.near_cave > 0:
        _dig_cave(e, w.tunnels[k])
    if not populate(e, things, dial, w.tunnels[k]) or not _furnish(e, things, dial):
        return False
    e.episode = episode
    return True


@jit
def _dig_cave(e, tunnels):
    """A rocky hill of 7 x 7 on one side of the start, with a cave of 5 x 5 that opens towards it."""
    side = mt19937.randint(e.mt, 0, 4)
    sign = 1 if side == t.RIGHT or side == t.DOWN else -1
    for along in range(6, 13):
        for across in range(-3, 4):
            x, y = (sign * along, across) if side <= t.RIGHT else (across, sign * along)
            x, y = t.CENTER + x, t.CENTER + y
            hollow = 7 <= along <= 11 and -2 <= across <= 2
            mouth = along == 6 and across == 0
            if hollow or mouth:
                lay(e, x, y, t.PATH)
                tunnels[x, y] = True
            else:
                lay(e, x, y, t.STONE)


@jit
def _furnish(e, things, dial):
    """Put what the level asks for on free grass near the start. None of it counts as the player's doing."""
    if dial.near_water > 0 or (dial.pond > 0 and not has_ground(e, t.WATER)):
        x, y = _free_cell(e, HOME)
        lay(e, x, y, t.WATER)
    if dial.near_table > 0:
        x, y = _free_cell(e, HOME)
        lay(e, x, y, t.TABLE)
    if dial.near_furnace > 0:
        x, y = _free_cell(e, HOME)
        lay(e, x, y, t.FURNACE)
    if dial.near_plant > 0:
        x, y = _free_cell(e, HOME)
        row = add(e, things, t.PLANT, x, y, t.PLANT_HEALTH)
        if row < 0:
            return False
        things[row].clock = t.RIPE + 1 if dial.near_plant == 2 else 0
    for _ in range(dial.near_cows):
        x, y = _free_cell(e, PASTURE)
        if add(e, things, t.COW, x, y, t.COW_HEALTH) < 0:
            return False
    return True


@jit
def _free_cell(e, nearest):
    """A random free cell of grass at the smallest distance, from `nearest` on, at which there is one.

    There are always some: the original keeps grass around the start.
    """
    for away in range(nearest, t.SIDE):
        free = 0
        for again in range(2):  # count them, then find the chosen one
            chosen = mt19937.randint(e.mt, 0, free) if again else -1
            free = 0
            for dx in range(-away, away + 1):
                for sign in (-1, 1):
                    if sign > 0 and abs(dx) == away:  # the corner that both signs share
                        continue
                    x, y = t.CENTER + dx, t.CENTER + sign * (away - abs(dx))
                    if 0 <= x < t.SIDE and 0 <= y < t.SIDE and e.ground[x, y] == t.GRASS and e.slots[x, y] == 0:
                        if free == chosen:
                            return x, y
                        free += 1
            if free == 0:
                break
    return t.CENTER, t.CENTER + 1
