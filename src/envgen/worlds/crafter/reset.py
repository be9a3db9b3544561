"""How an episode begins: the stream is seeded, the world made, and what the level asks for is put near the start."""

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .entities import add_entity, has_ground, set_ground
from .terrain import make_ground, populate

HOME = 3  # steps from the start, along the axes, at which entities are put
PASTURE = 5  # and cows: not beside a plant, which they would destroy


@jit
def reset_episode(env, entities, w, k, episode, daylight):
    """Start an episode of an environment. False, and to be called again, if the list of entities is too short for it."""
    dial = env.params
    seed = mt19937.episode_seed(env.seed_hash, episode)
    mt19937.seed(env.rng, seed)
    env.entity_slots[:] = 0
    env.achievements[:] = 0
    env.world_seed = seed
    env.step = 0
    env.daylight = daylight[dial.dawn]
    env.num_entities = 0
    env.num_chunks = 0
    env.next_arrival = 0
    env.facing = const.DOWN
    env.sleeping = 0
    env.hunger = 0
    env.thirst = 0
    env.fatigue = 0
    env.recover = 0
    env.unlocked = 0
    env.episode_return = 0.0
    for item in range(len(const.ITEMS)):
        env.inventory[item] = dial.inventory[item]
    env.prev_health = env.inventory[const.HEALTH]
    env.rewarded_health = env.inventory[const.HEALTH]
    add_entity(env, entities, const.PLAYER, const.CENTER, const.CENTER, 0)
    make_ground(env, dial, w, k)
    if dial.near_cave > 0:
        _dig_cave(env, w.tunnels[k])
    if not populate(env, entities, dial, w.tunnels[k]) or not _furnish(env, entities, dial):
        return False
    env.episode = episode
    return True


@jit
def _dig_cave(env, tunnels):
    """A rocky hill of 7 x 7 on one side of the start, with a cave of 5 x 5 that opens towards it."""
    side = mt19937.randint(env.rng, 0, 4)
    sign = 1 if side == const.RIGHT or side == const.DOWN else -1
    for along in range(6, 13):
        for across in range(-3, 4):
            x, y = (sign * along, across) if side <= const.RIGHT else (across, sign * along)
            x, y = const.CENTER + x, const.CENTER + y
            hollow = 7 <= along <= 11 and -2 <= across <= 2
            mouth = along == 6 and across == 0
            if hollow or mouth:
                set_ground(env, x, y, const.PATH)
                tunnels[x, y] = True
            else:
                set_ground(env, x, y, const.STONE)


@jit
def _furnish(env, entities, dial):
    """Put what the level asks for on free grass near the start. None of it counts as the player's doing."""
    if dial.near_water > 0 or (dial.pond > 0 and not has_ground(env, const.WATER)):
        x, y = _free_cell(env, HOME)
        set_ground(env, x, y, const.WATER)
    if dial.near_table > 0:
        x, y = _free_cell(env, HOME)
        set_ground(env, x, y, const.TABLE)
    if dial.near_furnace > 0:
        x, y = _free_cell(env, HOME)
        set_ground(env, x, y, const.FURNACE)
    if dial.near_plant > 0:
        x, y = _free_cell(env, HOME)
        row = add_entity(env, entities, const.PLANT, x, y, const.PLANT_HEALTH)
        if row < 0:
            return False
        entities[row].counter = const.RIPE_AFTER + 1 if dial.near_plant == 2 else 0
    for _ in range(dial.near_cows):
        x, y = _free_cell(env, PASTURE)
        if add_entity(env, entities, const.COW, x, y, const.COW_HEALTH) < 0:
            return False
    return True


@jit
def _free_cell(env, nearest):
    """A random free cell of grass at the smallest distance, from `nearest` on, at which there is one.

    There are always some: the original keeps grass around the start.
    """
    for away in range(nearest, const.MAP_SIZE):
        free = 0
        for again in range(2):  # count them, then find the chosen one
            chosen = mt19937.randint(env.rng, 0, free) if again else -1
            free = 0
            for dx in range(-away, away + 1):
                for sign in (-1, 1):
                    if sign > 0 and abs(dx) == away:  # the corner that both signs share
                        continue
                    x, y = const.CENTER + dx, const.CENTER + sign * (away - abs(dx))
                    if (
                        0 <= x < const.MAP_SIZE
                        and 0 <= y < const.MAP_SIZE
                        and env.ground[x, y] == const.GRASS
                        and env.entity_slots[x, y] == 0
                    ):
                        if free == chosen:
                            return x, y
                        free += 1
            if free == 0:
                break
    return const.CENTER, const.CENTER + 1
