"""The kernel that advances a batch of environments: a step or a new episode for each.

A new episode gets a seed and a maze, in which the agent, keys, doors and the gem are placed. Random numbers are drawn
in the reference's order. What a level changes is drawn afterwards or in place of the reference's draw, so the default
level draws exactly the reference's numbers.
"""

import numpy as np

from envgen.jit import jit

from ..engine import DONE, ENDED, RUNNING, STEP
from ..kernels import mt19937
from ..observations import PIXELS, SYMBOLS
from . import constants as const
from .maze import (
    NEW,
    REACHED,
    START,
    UNREACHED,
    carve_maze,
    compute_distances,
    flood_fill,
    place_doors,
    randbelow,
    sample_cell,
    sample_start,
    shortest_path_length,
)
from .observations import write_symbols
from .render import render_frame
from .rules import AGENT_RADIUS, step

REPORT = np.dtype(  # what infos are made of
    [
        ("episode_return", np.float64),
        ("bonus", np.float64),  # the part of the return that the original does not give
        ("level", np.int32),
        ("episode", np.int32),
        ("level_seed", np.int32),
        ("step", np.int32),
        ("shortest_path", np.int32),
        ("position", np.float32, 2),
        ("achievements", np.int32, len(const.SKILLS)),
        ("possible", np.uint8, len(const.SKILLS)),
        ("has_key", np.uint8, const.NUM_COLORS),
    ],
    align=True,
)


@jit
def step_batch(
    envs, level_params, env_level_ids, sample_levels, scratch, atlas, buffers, thread, env_ids, pending, actions,
    observation_mode, obs_bytes, results,
):  # fmt: skip
    """Step or reset the environments `env_ids`, as marked in `pending`, using the scratch memory of `thread`.

    A new episode of environment i plays level env_level_ids[i % size], or with `sample_levels` a random one of them.
    """
    for i in env_ids:
        env = envs[i]
        cell_x, cell_y = np.int64(env.x), np.int64(env.y)
        if pending[i] == STEP:
            results.reward[i] = step(env, actions[i])
            results.terminated[i] = env.won != 0
            results.truncated[i] = env.step >= env.params.length
            results.phase[i] = ENDED if results.terminated[i] or results.truncated[i] else RUNNING
        else:
            index = mt19937.episode_seed(env.seed_hash + 1, env.episode + 1) if sample_levels else i
            env.level = env_level_ids[index % env_level_ids.size]
            env.params = level_params[env.level]
            reset_episode(env, scratch[thread], env.episode + 1)
            results.phase[i] = RUNNING
        if observation_mode == PIXELS:
            render_frame(env, atlas, buffers, i, thread, obs_bytes[i])
        elif observation_mode == SYMBOLS:
            write_symbols(env, obs_bytes[i], np.int64(env.x) != cell_x or np.int64(env.y) != cell_y)
        _write_report(env, results.report[i])
        pending[i] = DONE


@jit
def _write_report(env, report):
    report.level = env.level
    report.episode = env.episode
    report.level_seed = env.level_seed
    report.step = env.step
    report.episode_return = env.episode_return
    report.bonus = env.bonus
    report.shortest_path = env.shortest_path
    report.position[0] = env.x
    report.position[1] = env.y
    for skill in range(len(const.SKILLS)):
        report.achievements[skill] = env.achievements[skill]
        report.possible[skill] = env.possible[skill]
    for color in range(const.NUM_COLORS):
        report.has_key[color] = env.has_key[color]


@jit
def init_seed_stream(mt, source):
    """Seed an environment's stream of level seeds with the next word of the stream `source`, as the reference does."""
    mt19937.seed(mt, mt19937.next_word(source))


# --- the start of an episode

MIN_MAZE_SIZE = 5
MAX_PLACEMENT_ATTEMPTS = 100  # to place an entity where it overlaps no other
START_DISTANCE = 2  # moves between the start and the key or gem that it is near
HALF, ONE, TWO = np.float32(0.5), np.float32(1), np.float32(2)
PLACEMENT_RANGE = ONE - TWO * AGENT_RADIUS  # range of an entity's center within a cell
KEY_RY = AGENT_RADIUS / (np.float32(84) / np.float32(52))  # half the height
GEM_RY = AGENT_RADIUS / (np.float32(70) / np.float32(48))


@jit
def reset_episode(env, scratch, episode):
    """Start episode number `episode` of an environment. `scratch` is a maze.SCRATCH record."""
    env.level_seed = env.first_seed + randbelow(env.seed_stream, np.int64(env.num_seeds))
    mt19937.seed(env.mt, env.level_seed)
    env.episode, env.step, env.won, env.needs_redraw, env.facing = episode, 0, 0, 1, const.NOOP
    env.episode_return, env.bonus = 0.0, 0.0
    env.vx = env.vy = env.rotation = np.float32(0)
    env.achievements[:] = 0
    mt, params = env.mt, env.params
    mt19937.skip(mt, 1)  # the reference draws an offset for floors that are not square
    env.background = randbelow(mt, const.NUM_BACKGROUNDS)
    mt19937.skip(mt, 2)  # the reference draws a position for the agent and discards it
    env.mode, env.world_size = params.mode, params.world_size
    difficulty = randbelow(mt, (env.world_size - MIN_MAZE_SIZE) // 2 + 1)
    sampled_keys = randbelow(mt, const.NUM_COLORS + 1) if env.mode == const.MEMORY else difficulty + randbelow(mt, 2)
    env.num_key_slots = min(sampled_keys, const.NUM_COLORS) if params.num_keys < 0 else params.num_keys
    stride = (MIN_MAZE_SIZE + 2 * difficulty if params.maze_size == 0 else params.maze_size) + 2
    cells = scratch.cells
    carve_maze(cells, scratch.walls, scratch.parent, stride, mt, params.loop_percent)
    env.num_doors = place_doors(cells, scratch.candidates, stride, mt, env.num_key_slots)
    start = _place_agent_and_goals(env, scratch, stride)
    held_keys = params.held_keys & ((1 << env.num_key_slots) - 1)
    if params.start >= 0:
        color = min(params.start, env.num_doors)
        target = const.KEY + color if color < env.num_doors else const.GEM
        start = _sample_start_near(
            cells, scratch.candidates, scratch.queue, scratch.distance, stride, mt, start, target
        )
        held_keys |= (1 << color) - 1
    _remove_keys_and_doors(cells, stride, held_keys, params.open_doors)
    _place_in_grid(env, cells, stride, start)
    for color in range(const.NUM_COLORS):
        env.has_key[color] = held_keys >> color & 1
        env.possible[const.TAKE_KEY + 2 * color] = 0
        env.possible[const.OPEN_DOOR + 2 * color] = 0
    env.possible[const.STEAL_GEM] = 1
    for n in range(env.num_entities):
        entity = env.entities[n]
        if entity.kind != const.ENTITY_GEM:
            skill = const.TAKE_KEY if entity.kind == const.ENTITY_KEY else const.OPEN_DOOR
            env.possible[skill + 2 * entity.color] = 1
    env.shortest_path = shortest_path_length(cells, stride, start, held_keys, scratch.queue, scratch.distance)


@jit
def _place_agent_and_goals(env, scratch, stride):
    """Place the agent, each key where the doors before it lead, and the gem behind all doors. Returns the start."""
    cells, region, queue = scratch.cells, scratch.region, scratch.queue
    candidates, distance = scratch.candidates, scratch.distance
    mt, params = env.mt, env.params
    start = sample_start(cells, candidates, stride, mt)
    if params.key_distance != 0 or params.gem_distance != 0:
        compute_distances(cells, distance, queue, stride, start, True)
    cells[start] = START
    region[: stride * stride] = UNREACHED
    region[start] = REACHED
    for n in range(env.num_doors + 1):
        door = -1
        if n < env.num_doors:
            door = flood_fill(cells, region, queue, stride, True)
            cells[door] = const.DOOR + n
        flood_fill(cells, region, queue, stride, False)
        preference = params.key_distance if n < env.num_doors else params.gem_distance
        goal = sample_cell(cells, region, candidates, distance, stride, mt, preference)
        cells[goal] = const.KEY + n if n < env.num_doors else const.GEM
        for cell in range(stride * stride):
            if region[cell] == NEW:
                region[cell] = REACHED
        if door >= 0:
            region[door] = REACHED
    cells[start] = const.FLOOR
    return start


@jit
def _sample_start_near(cells, candidates, queue, distance, stride, mt, start, target):
    """A free cell START_DISTANCE moves from the only cell that contains `target`; a nearer one if there is none."""
    for cell in range(stride * stride):
        if cells[cell] == target:
            compute_distances(cells, distance, queue, stride, cell, False)
    for moves in range(START_DISTANCE, 0, -1):
        count = 0
        for cell in range(stride * stride):
            if distance[cell] == moves and cells[cell] == const.FLOOR:
                candidates[count] = cell
                count += 1
        if count > 0:
            return np.int64(candidates[randbelow(mt, count)])
    return start


@jit
def _remove_keys_and_doors(cells, stride, held_keys, open_doors):
    """Remove the keys in the bit mask `held_keys` and the doors in the bit mask `open_doors` from the maze."""
    for cell in range(stride * stride):
        content = np.int64(cells[cell])
        if (const.KEY <= content < const.DOOR and held_keys >> (content - const.KEY) & 1) or (
            const.DOOR <= content < const.GEM and open_doors >> (content - const.DOOR) & 1
        ):
            cells[cell] = const.FLOOR


@jit
def _place_in_grid(env, cells, stride, start):
    """Place the maze at a random position in the grid, and the agent and all entities in it, column by column."""
    mt, d = env.mt, stride - 2
    left = randbelow(mt, env.world_size - d + 1)
    bottom = randbelow(mt, env.world_size - d + 1)
    env.grid[:] = const.WALL
    env.num_entities = 0
    env.x = np.float32(left + start % stride - 1) + HALF
    env.y = np.float32(bottom + start // stride - 1) + HALF
    for x in range(d):
        for y in range(d):
            content = np.int64(cells[(y + 1) * stride + x + 1])
            env.grid[bottom + y, left + x] = content
            if content <= const.FLOOR:
                continue
            entity = env.entities[env.num_entities]
            cell_x, cell_y = np.float32(left + x), np.float32(bottom + y)
            entity.alive = 1
            if content < const.DOOR:
                entity.kind, entity.color = const.ENTITY_KEY, content - const.KEY
                _place_entity(env, entity, cell_x, cell_y)
                entity.ry = KEY_RY
            elif content < const.GEM:
                entity.kind, entity.color = const.ENTITY_DOOR, content - const.DOOR
                entity.x, entity.y = cell_x + HALF, cell_y + HALF
                entity.rx = entity.ry = HALF
            else:
                entity.kind, entity.color = const.ENTITY_GEM, 0
                _place_entity(env, entity, cell_x, cell_y)
                entity.ry = GEM_RY
            env.num_entities += 1


@jit
def _place_entity(env, entity, cell_x, cell_y):
    """Place an entity at a random position in a cell, where it overlaps nothing if possible.

    It is a square during placement, as in the reference; the caller then sets its height.
    """
    entity.rx = entity.ry = AGENT_RADIUS
    for _ in range(MAX_PLACEMENT_ATTEMPTS):
        entity.x = PLACEMENT_RANGE * uniform_float32(env.mt) + AGENT_RADIUS + cell_x
        entity.y = PLACEMENT_RANGE * uniform_float32(env.mt) + AGENT_RADIUS + cell_y
        min_distance = AGENT_RADIUS + AGENT_RADIUS
        is_free = abs(entity.x - env.x) >= min_distance or abs(entity.y - env.y) >= min_distance
        for n in range(env.num_entities):
            other = env.entities[n]
            overlaps_x = abs(entity.x - other.x) < AGENT_RADIUS + other.rx
            overlaps_y = abs(entity.y - other.y) < AGENT_RADIUS + other.ry
            is_free &= not (overlaps_x and overlaps_y)
        if is_free:
            return


@jit
def uniform_float32(mt):
    """A float32 in [0, 1], both ends included, drawn as the reference does."""
    return np.float32(mt19937.next_word(mt) / 4294967296.0)
