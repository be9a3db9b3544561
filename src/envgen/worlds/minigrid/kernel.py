"""The kernel that advances a batch of environments: a step or a new episode for each."""

import numpy as np

from envgen.jit import jit

from ..engine import DONE, ENDED, RUNNING, STEP
from ..kernels import mt19937
from ..observations import PIXELS, SYMBOLS
from . import constants as const
from . import generators
from .maps import load_map
from .observations import render_view, write_symbols
from .placement import NOWHERE
from .rooms import generate_key_corridor, generate_obstructed_maze, generate_unlock
from .rules import step

REPORT = np.dtype(  # what infos are made of
    [
        ("episode_return", np.float64),
        ("level", np.int32),
        ("episode", np.int32),
        ("step", np.int32),
        ("task", np.int32),
        ("achievements", np.int32, len(const.SKILLS)),
        ("possible", np.uint8, len(const.SKILLS)),
    ],
    align=True,
)
SCRATCH_SIZE = const.MAX_SIZE * const.MAX_SIZE  # int64 values per thread
MAX_ATTEMPTS = 1000  # to generate a grid


@jit
def step_batch(
    envs, level_params, maps, mixed_params, mixed_first, env_level_ids, sample_levels, scratch, tiles, views, thread,
    env_ids, pending, actions, observation, obs_bytes, results,
):  # fmt: skip
    """Step or reset the environments `env_ids`, as marked in `pending`, using the scratch memory of `thread`.

    A new episode of environment i plays level env_level_ids[i % size], or with `sample_levels` a random one of them.
    In a level with the task MIXED, it plays one of `mixed_params`, where task t begins at mixed_first[t].
    """
    for i in env_ids:
        env = envs[i]
        if pending[i] == STEP:
            results.reward[i], results.terminated[i] = step(env, actions[i])
            results.truncated[i] = env.step >= env.length
            results.phase[i] = ENDED if results.terminated[i] or results.truncated[i] else RUNNING
            report = results.report[i]
            report.step = env.step
            report.episode_return = env.episode_return
            report.achievements[env.task] = env.achievements[env.task]
        else:
            n = mt19937.episode_seed(env.seed_hash + 1, env.episode + 1) if sample_levels else i
            env.level = env_level_ids[n % env_level_ids.size]
            env.params = level_params[env.level]
            env.episode += 1
            if env.params.task == const.MIXED and not env.params.has_map:
                k = sample_task(env, mixed_first)
                reset_episode(env, mixed_params[k], maps[env.level], scratch[thread])
            else:
                reset_episode(env, level_params[env.level], maps[env.level], scratch[thread])
            results.phase[i] = RUNNING
            _write_report(env, results.report[i])
        if observation == SYMBOLS:
            write_symbols(env, obs_bytes[i])
        elif observation == PIXELS:
            render_view(env, tiles, views[thread], obs_bytes[i])
        pending[i] = DONE


@jit
def _write_report(env, report):
    report.level = env.level
    report.episode = env.episode
    report.task = env.task
    report.step = env.step
    report.episode_return = env.episode_return
    for skill in range(len(const.SKILLS)):
        report.achievements[skill] = env.achievements[skill]
        report.possible[skill] = skill == env.task


@jit
def sample_task(env, mixed_first):
    """Sample a task, then one of the package's environments of it. Returns its index in `mixed_params`."""
    n = mt19937.episode_seed(env.seed_hash + 2, env.episode)
    task = n % const.MIXED
    return mixed_first[task] + n // const.MIXED % (mixed_first[task + 1] - mixed_first[task])


@jit
def reset_episode(env, params, map_cells, scratch):
    """Start an episode: generate a grid from `params`, or take it from `map_cells`. The random stream continues."""
    env.task = params.task
    if params.task == const.MIXED:  # a map that has no other task
        env.task = const.RANDOM_WALLS
    env.objective = const.OBJECTIVE[env.task]
    env.sees_through_walls = const.SEES_THROUGH_WALLS[env.task]
    env.length = env.params.length if env.params.has_length else params.length
    env.step, env.episode_return, env.solved = 0, 0.0, 0
    env.carrying = const.EMPTY
    env.achievements[:] = 0
    env.target_cell = env.other_cell = NOWHERE
    env.num_obstacles = 0
    env.obstacles[:] = 0
    for _ in range(MAX_ATTEMPTS):
        env.mission[:] = 0
        env.mission[0] = const.MISSION[env.task]
        if params.has_map:
            is_ready = load_map(env, params, map_cells, scratch)
        else:
            is_ready = _generate(env, params, scratch)
        if is_ready:
            return
    raise RuntimeError("MiniGrid found no grid for this level in 1000 attempts; give its objects more space")


@jit
def _generate(env, params, scratch):
    task = env.task
    if task == const.EMPTY_ROOM:
        return generators.generate_empty(env, params, scratch)
    if task == const.FOUR_ROOMS:
        return generators.generate_four_rooms(env, params, scratch)
    if task == const.DOOR_KEY:
        return generators.generate_door_key(env, params, scratch)
    if task == const.MULTI_ROOM:
        return generators.generate_multi_room(env, params, scratch)
    if task == const.KEY_CORRIDOR:
        return generate_key_corridor(env, params, scratch)
    if task == const.UNLOCK or task == const.UNLOCK_PICKUP or task == const.BLOCKED_UNLOCK_PICKUP:
        return generate_unlock(env, params, scratch)
    if task == const.LAVA_GAP:
        return generators.generate_lava_gap(env, params, scratch)
    if task == const.LAVA_CROSSING or task == const.SIMPLE_CROSSING:
        return generators.generate_crossing(env, params, scratch)
    if task == const.DYNAMIC_OBSTACLES:
        return generators.generate_dynamic_obstacles(env, params, scratch)
    if task == const.RED_BLUE_DOORS:
        return generators.generate_red_blue_doors(env, params, scratch)
    if task == const.MEMORY:
        return generators.generate_memory(env, params, scratch)
    if task == const.OBSTRUCTED_MAZE:
        return generate_obstructed_maze(env, params, scratch)
    if task == const.GO_TO_DOOR:
        return generators.generate_go_to_door(env, params, scratch)
    if task == const.GO_TO_OBJECT:
        return generators.generate_go_to_object(env, params, scratch)
    if task == const.PUT_NEAR:
        return generators.generate_put_near(env, params, scratch)
    if task == const.FETCH:
        return generators.generate_fetch(env, params, scratch)
    if task == const.LOCKED_ROOM:
        return generators.generate_locked_room(env, params, scratch)
    if task == const.DIST_SHIFT:
        return generators.generate_dist_shift(env, params, scratch)
    if task == const.PERFECT_MAZE:
        return generators.generate_perfect_maze(env, params, scratch)
    return generators.generate_random_walls(env, params, scratch)
