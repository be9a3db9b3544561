"""The compiled entry points: `step_batch` steps or resets many environments, `render_env` draws one for people."""

import numpy as np

from envgen.jit import jit

from ..engine import DONE, ENDED, RUNNING, STEP
from ..kernels import mt19937
from ..observations import PIXELS, SYMBOLS
from . import constants as const
from .creatures import (
    BALANCE_EVERY,
    MAX_SPAWNS,
    balance_creatures,
    distance_to_player,
    update_arrow,
    update_cow,
    update_plant,
    update_skeleton,
    update_zombie,
)
from .entities import compact
from .observations import write_symbols
from .player import update_player
from .render import draw_env
from .reset import reset_episode

UPDATE_DISTANCE = 2 * max(const.VIEW)  # entities at this distance from the player or farther are not updated
NUM_SKILLS = len(const.SKILLS)

REPORT = np.dtype(
    [
        ("episode_return", np.float64),
        ("level", np.int32),
        ("episode", np.int32),
        ("world_seed", np.int32),
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
    """Do what is pending in the environments `env_ids`: a step, or a reset to a new episode.

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
            pick = mt19937.episode_seed(env.seed_hash + 1, env.episode + 1) if sample_levels else i
            env.level = env_level_ids[pick % env_level_ids.size]
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
            kind = entities[row].kind
            if kind == const.COW:
                update_cow(env, entities, row)
            elif kind == const.ZOMBIE:
                update_zombie(env, entities, row)
            elif kind == const.SKELETON:
                update_skeleton(env, entities, row)
            elif kind == const.ARROW:
                update_arrow(env, entities, row)
            else:
                update_plant(env, entities, row)
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
    report.world_seed = env.world_seed
    report.step = env.step
    report.episode_return = env.episode_return
    report.discount = 0.0 if _is_dead(env) else 1.0
    report.position[0] = entities[0].x
    report.position[1] = entities[0].y
    report.achievements[:] = env.achievements
    report.inventory[:] = env.inventory


@jit
def render_env(state, i, atlas, render_buffers, out):
    """Draw environment i for people, with a copy of its random generator so that the world does not change."""
    draw_env(state.envs[i], state.entities[i], state.envs[i].rng.copy(), atlas, render_buffers, 0, out)
