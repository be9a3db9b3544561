"""The start of an episode: seed the generator, create the world, and place what the level asks for near the start."""

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .entities import add_entity, has_ground, set_ground
from .terrain import make_ground, populate

NEAR_DISTANCE = 3  # Manhattan distance from the start at which objects are placed
COW_DISTANCE = 5  # cows are farther away: next to a plant they would destroy it


@jit
def reset_episode(env, entities, terrain_buffers, thread, episode, daylight_table):
    """Start an episode. Returns False if the entity array is too short; call it again with a longer one."""
    params = env.params
    seed = mt19937.episode_seed(env.seed_hash, episode)
    mt19937.seed(env.rng, seed)
    env.entity_slots[:] = 0
    env.achievements[:] = 0
    env.world_seed = seed
    env.step = 0
    env.daylight = daylight_table[params.start_time]
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
        env.inventory[item] = params.inventory[item]
    env.prev_health = env.inventory[const.HEALTH]
    env.rewarded_health = env.inventory[const.HEALTH]
    add_entity(env, entities, const.PLAYER, const.CENTER, const.CENTER, 0)
    make_ground(env, params, terrain_buffers, thread)
    tunnels = terrain_buffers.tunnels[thread]
    if params.near_cave > 0:
        _dig_cave(env, tunnels)
    if not populate(env, entities, params, tunnels) or not _place_near_start(env, entities, params):
        return False
    env.episode = episode
    return True


@jit
def _dig_cave(env, tunnels):
    """Create a rocky hill of 7 x 7 cells on one side of the start, with a cave of 5 x 5 that opens towards it."""
    side = mt19937.randint(env.rng, 0, 4)
    sign = 1 if side == const.RIGHT or side == const.DOWN else -1
    for along in range(6, 13):
        for across in range(-3, 4):
            dx, dy = (sign * along, across) if side <= const.RIGHT else (across, sign * along)
            x, y = const.CENTER + dx, const.CENTER + dy
            is_cave = 7 <= along <= 11 and -2 <= across <= 2
            is_entrance = along == 6 and across == 0
            if is_cave or is_entrance:
                set_ground(env, x, y, const.PATH)
                tunnels[x, y] = True
            else:
                set_ground(env, x, y, const.STONE)


@jit
def _place_near_start(env, entities, params):
    """Place what the level asks for on free grass near the start. It does not count as an achievement."""
    if params.near_water > 0 or (params.pond > 0 and not has_ground(env, const.WATER)):
        x, y = _sample_free_cell(env, NEAR_DISTANCE)
        set_ground(env, x, y, const.WATER)
    if params.near_table > 0:
        x, y = _sample_free_cell(env, NEAR_DISTANCE)
        set_ground(env, x, y, const.TABLE)
    if params.near_furnace > 0:
        x, y = _sample_free_cell(env, NEAR_DISTANCE)
        set_ground(env, x, y, const.FURNACE)
    if params.near_plant > 0:
        x, y = _sample_free_cell(env, NEAR_DISTANCE)
        row = add_entity(env, entities, const.PLANT, x, y, const.PLANT_HEALTH)
        if row < 0:
            return False
        entities[row].counter = const.RIPE_AFTER + 1 if params.near_plant == 2 else 0
    for _ in range(params.near_cows):
        x, y = _sample_free_cell(env, COW_DISTANCE)
        if add_entity(env, entities, const.COW, x, y, const.COW_HEALTH) < 0:
            return False
    return True


@jit
def _sample_free_cell(env, min_distance):
    """A random free grass cell, at the smallest distance of at least `min_distance` that has one.

    One always exists, because the original keeps grass around the start.
    """
    for distance in range(min_distance, const.MAP_SIZE):
        count = 0
        for is_second_pass in range(2):  # count the free cells, then find the chosen one
            chosen = mt19937.randint(env.rng, 0, count) if is_second_pass else -1
            count = 0
            for dx in range(-distance, distance + 1):
                for sign in (-1, 1):
                    if sign > 0 and abs(dx) == distance:  # both signs give the same cell
                        continue
                    x, y = const.CENTER + dx, const.CENTER + sign * (distance - abs(dx))
                    if (
                        0 <= x < const.MAP_SIZE
                        and 0 <= y < const.MAP_SIZE
                        and env.ground[x, y] == const.GRASS
                        and env.entity_slots[x, y] == 0
                    ):
                        if count == chosen:
                            return x, y
                        count += 1
            if count == 0:
                break
    return const.CENTER, const.CENTER + 1
