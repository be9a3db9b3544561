"""The compiled entry points: `step_batch` steps or resets many environments, `render_env` renders one for display.

The start of an episode seeds the generator, creates the map, and places the objects that the level requires near the
start.
"""

import numpy as np

from envgen.jit import jit

from ..engine import DONE, ENDED, RUNNING, STEP
from ..kernels import mt19937
from ..kernels.arrays import copy_elements
from ..observations import PIXELS, SYMBOLS
from . import constants as const
from .creatures import (
    BALANCE_EVERY,
    MAX_SPAWNS,
    UPDATE_DISTANCE,
    balance_creatures,
    distance_to_player,
    update_entity,
)
from .entities import add_entity, compact, ground_at, has_ground, set_ground
from .observations import write_symbols
from .player import update_player
from .render import draw_env
from .terrain import make_ground, populate

NUM_SKILLS = len(const.SKILLS)

REPORT = np.dtype(
    [
        ("episode_return", np.float64),
        ("level", np.int32),
        ("episode", np.int32),
        ("episode_seed", np.int32),
        ("step", np.int32),
        ("discount", np.float64),  # 0 once the player is dead, else 1
        ("position", np.int32, 2),
        ("achievements", np.int32, len(const.SKILLS)),
        ("inventory", np.int8, len(const.ITEMS)),
    ],
    align=True,
)


@jit
def step_batch(
    state, level_params, env_level_ids, sample_levels, daylight_table, terrain_buffers, atlas, render_buffers,
    thread, env_ids, pending, actions, observation_mode, night_words, obs_bytes, results,
):  # fmt: skip
    """Step or reset the environments `env_ids`, as marked in `pending`.

    An environment whose entity array is too short stays pending, and its state does not change. In a new episode,
    environment i plays the level `env_level_ids[i % env_level_ids.size]`, or a random one of `env_level_ids` with
    `sample_levels`. The ids are indices of `level_params`.
    """
    for i in env_ids:
        env, entities = state.envs[i], state.entities[i]
        if pending[i] == STEP:
            if not _has_capacity(env, entities):
                continue
            results.reward[i] = _step(env, entities, actions[i], daylight_table)
            results.terminated[i] = _is_dead(env)
            results.truncated[i] = _is_out_of_time(env)
            results.phase[i] = ENDED if _is_dead(env) or _is_out_of_time(env) else RUNNING
        else:
            index = mt19937.episode_seed(env.seed_hash + 1, env.episode + 1) if sample_levels else i
            env.level = env_level_ids[index % env_level_ids.size]
            env.params = level_params[env.level]
            if not reset_episode(env, entities, terrain_buffers, thread, env.episode + 1, daylight_table):
                continue
            results.phase[i] = RUNNING
        _observe(env, entities, observation_mode, night_words, atlas, render_buffers, thread, obs_bytes[i])
        _write_report(env, entities, results.report[i])
        pending[i] = DONE


@jit
def _has_capacity(env, entities):
    """Whether the entity array has room for everything that the next step can add: arrows, a plant, creatures."""
    needed = env.num_entities + 1
    if (env.step + 1) % BALANCE_EVERY == 0:
        needed += MAX_SPAWNS
    if needed + env.num_entities <= entities.size:
        return True
    for row in range(env.num_entities):
        needed += entities[row].kind == const.SKELETON
    return needed <= entities.size


@jit
def _step(env, entities, action, daylight_table):
    """Take an action and return the reward. Requires `_has_capacity`."""
    env.step += 1
    env.daylight = daylight_table[env.params.start_time + env.step]
    count = env.num_entities  # arrows and plants added in this step are first updated in the next one
    update_player(env, entities, action)
    has_gaps = False
    for row in range(1, count):
        if distance_to_player(entities, row) < UPDATE_DISTANCE:
            update_entity(env, entities, row)
            has_gaps |= entities[row].kind == const.NO_ENTITY
    if has_gaps:
        compact(env, entities)
    if env.step % BALANCE_EVERY == 0:
        balance_creatures(env, entities)
        compact(env, entities)
    return _compute_reward(env)


@jit
def _compute_reward(env):
    """A tenth of the change in health, plus 1 if any skill succeeded for the first time in this episode."""
    health = np.int32(env.inventory[const.HEALTH])
    reward = (health - env.rewarded_health) / 10.0
    env.rewarded_health = health
    unlocked_before = env.unlocked
    for k in range(NUM_SKILLS):
        if env.achievements[k] > 0:
            env.unlocked |= 1 << k
    if env.unlocked != unlocked_before:
        reward += 1.0
    env.episode_return += reward
    return reward


@jit
def _is_dead(env):
    return env.inventory[const.HEALTH] <= 0


@jit
def _is_out_of_time(env):
    return env.step >= env.params.length


@jit
def _observe(env, entities, observation_mode, night_words, atlas, render_buffers, thread, out):
    """Write the observation. The random generator advances as if the image were drawn, in every mode."""
    if observation_mode == PIXELS:
        draw_env(env, entities, env.rng, atlas, render_buffers, thread, out)
        return
    if env.daylight < 0.5:
        mt19937.skip(env.rng, night_words)
    if observation_mode == SYMBOLS:
        write_symbols(env, entities, out)


@jit
def _write_report(env, entities, report):
    report.level = env.level
    report.episode = env.episode
    report.episode_seed = env.episode_seed
    report.step = env.step
    report.episode_return = env.episode_return
    report.discount = 0.0 if _is_dead(env) else 1.0
    report.position[0] = entities[0].x
    report.position[1] = entities[0].y
    copy_elements(env.achievements, report.achievements)
    copy_elements(env.inventory, report.inventory)


@jit
def render_env(state, i, atlas, render_buffers, out):
    """Render environment i for display, with a copy of its random generator so that its state does not change."""
    draw_env(state.envs[i], state.entities[i], state.envs[i].rng.copy(), atlas, render_buffers, 0, out)


# --- the start of an episode

NEAR_DISTANCE = 3  # Manhattan distance from the start at which objects are placed
COW_DISTANCE = CREATURE_DISTANCE = 5  # farther away: next to a plant they would destroy it
ORES = (const.COAL, const.IRON, const.DIAMOND)
PLANT_AGES = tuple(const.PLANT_AGES.values())


@jit
def reset_episode(env, entities, terrain_buffers, thread, episode, daylight_table):
    """Start an episode. Returns False if the entity array is too short; call it again with a longer one."""
    params = env.params
    seed = mt19937.episode_seed(env.seed_hash, episode)
    mt19937.seed(env.rng, seed)
    env.entity_slots[:] = 0
    env.achievements[:] = 0
    env.episode_seed = seed
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
    env.unlocked = params.done
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
    table_x = table_y = furnace_x = furnace_y = 0
    has_both = params.near_table > 0 and params.near_furnace > 0
    if params.near_table > 0:
        table_x, table_y = _sample_free_cell(env, NEAR_DISTANCE)
        set_ground(env, table_x, table_y, const.TABLE)
        if params.near_furnace > 0:
            furnace_x, furnace_y = _sample_furnace_cell(env, table_x, table_y)
            set_ground(env, furnace_x, furnace_y, const.FURNACE)
    elif params.near_furnace > 0:
        x, y = _sample_free_cell(env, NEAR_DISTANCE)
        set_ground(env, x, y, const.FURNACE)
    if params.near_tree > 0:
        x, y = _sample_object_cell(env, has_both, table_x, table_y, furnace_x, furnace_y)
        set_ground(env, x, y, const.TREE)
    if params.near_ore > 0:
        x, y = _sample_object_cell(env, has_both, table_x, table_y, furnace_x, furnace_y)
        set_ground(env, x, y, ORES[params.near_ore - 1])
    if params.near_plant > 0:
        x, y = _sample_object_cell(env, has_both, table_x, table_y, furnace_x, furnace_y)
        row = add_entity(env, entities, const.PLANT, x, y, const.PLANT_HEALTH)
        if row < 0:
            return False
        entities[row].counter = PLANT_AGES[params.near_plant - 1]
    for _ in range(params.near_cows):
        x, y = _sample_free_cell(env, COW_DISTANCE)
        if add_entity(env, entities, const.COW, x, y, const.COW_HEALTH) < 0:
            return False
    if params.near_creature > 0:
        x, y = _sample_free_cell(env, CREATURE_DISTANCE)
        is_zombie = params.near_creature == 1
        if not is_zombie:
            set_ground(env, x, y, const.PATH)  # skeletons live on paths
        kind, health = (const.ZOMBIE, const.ZOMBIE_HEALTH) if is_zombie else (const.SKELETON, const.SKELETON_HEALTH)
        if add_entity(env, entities, kind, x, y, health) < 0:
            return False
    return True


@jit
def _sample_furnace_cell(env, table_x, table_y):
    """A random free grass cell such that a free cell is beside both it and the table.

    Iron tools are made on a cell that has both among its eight neighbors. If there is no such grass cell, return one at
    NEAR_DISTANCE or farther from the start.
    """
    count = 0
    for is_second_pass in range(2):  # count the cells, then find the chosen one
        chosen = mt19937.randint(env.rng, 0, count) if is_second_pass else -1
        count = 0
        for x in range(table_x - 2, table_x + 3):
            for y in range(table_y - 2, table_y + 3):
                if _is_free_grass(env, x, y) and _share_free_cell(env, x, y, table_x, table_y):
                    if count == chosen:
                        return x, y
                    count += 1
        if count == 0:
            break
    return _sample_free_cell(env, NEAR_DISTANCE)


@jit
def _share_free_cell(env, x, y, other_x, other_y):
    """Whether a free grass cell, or that of the player, is among the eight neighbors of both cells."""
    for near_x in range(x - 1, x + 2):
        for near_y in range(y - 1, y + 2):
            is_neighbor = abs(near_x - other_x) <= 1 and abs(near_y - other_y) <= 1
            is_either = (near_x == x and near_y == y) or (near_x == other_x and near_y == other_y)
            is_start = near_x == const.CENTER and near_y == const.CENTER
            if is_neighbor and not is_either and (is_start or _is_free_grass(env, near_x, near_y)):
                return True
    return False


@jit
def _sample_object_cell(env, has_both, table_x, table_y, furnace_x, furnace_y):
    """A random free cell for an object near the start, but never the last cell beside both table and furnace."""
    x, y = _sample_free_cell(env, NEAR_DISTANCE)
    if has_both and _is_last_shared_cell(env, x, y, table_x, table_y, furnace_x, furnace_y):
        env.entity_slots[x, y] = 1  # not free for another sample
        other_x, other_y = _sample_free_cell(env, NEAR_DISTANCE)
        env.entity_slots[x, y] = 0
        return other_x, other_y
    return x, y


@jit
def _is_last_shared_cell(env, x, y, table_x, table_y, furnace_x, furnace_y):
    """Whether (x, y) is the only cell among the eight neighbors of both table and furnace on which one can walk."""
    is_shared = False
    for near_x in range(table_x - 1, table_x + 2):
        for near_y in range(table_y - 1, table_y + 2):
            is_beside_furnace = abs(near_x - furnace_x) <= 1 and abs(near_y - furnace_y) <= 1
            if is_beside_furnace and (const.WALKABLE >> ground_at(env, near_x, near_y)) & 1 == 1:
                if near_x != x or near_y != y:
                    return False
                is_shared = True
    return is_shared


@jit
def _is_free_grass(env, x, y):
    return (
        0 <= x < const.MAP_SIZE
        and 0 <= y < const.MAP_SIZE
        and env.ground[x, y] == const.GRASS
        and env.entity_slots[x, y] == 0
    )


@jit
def _sample_free_cell(env, min_distance):
    """A random free grass cell, at the smallest distance of at least `min_distance` that has one.

    One always exists, because the reference keeps grass around the start.
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
                    if _is_free_grass(env, x, y):
                        if count == chosen:
                            return x, y
                        count += 1
            if count == 0:
                break
    return const.CENTER, const.CENTER + 1
