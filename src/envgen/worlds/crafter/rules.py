"""One step of one environment: everyone's turn, the balance of creatures, the reward, the end."""

import numpy as np

from envgen.jit import jit

from . import constants as const
from .balance import balance_creatures
from .creatures import distance, update_arrow, update_cow, update_plant, update_skeleton, update_zombie
from .entities import compact
from .player import update_player

NEAR = 2 * max(const.VIEW)  # entities further away than this do not move
BALANCE_EVERY = 10  # steps
MOST_BALANCED = 3 * const.CHUNKS_PER_SIDE**2  # creatures that one balance can add
SKILL_COUNT = len(const.SKILLS)


@jit
def has_room(env, entities):
    """Is the list of entities long enough for whatever the next step may add: arrows, a plant, a balance?"""
    needed = env.num_entities + 1
    if (env.step + 1) % BALANCE_EVERY == 0:
        needed += MOST_BALANCED
    if needed + env.num_entities <= entities.size:
        return True
    for row in range(env.num_entities):
        needed += entities[row].kind == const.SKELETON
    return needed <= entities.size


@jit
def step(env, entities, action, daylight):
    """Advance the environment by one action and return its reward. Needs `has_room`."""
    env.step += 1
    env.daylight = daylight[env.params.dawn + env.step]
    living = env.num_entities  # arrows and plants made now wait for the next step
    update_player(env, entities, action)
    gaps = False
    for row in range(1, living):
        if distance(entities, row) < NEAR:
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
            gaps |= entities[row].kind == const.NO_ENTITY
    if gaps:
        compact(env, entities)
    if env.step % BALANCE_EVERY == 0:
        balance_creatures(env, entities)
        compact(env, entities)
    return _reward(env)


@jit
def _reward(env):
    """A tenth of the change in health, and 1 if any skill succeeded for the first time this episode."""
    health = np.int32(env.inventory[const.HEALTH])
    reward = (health - env.rewarded_health) / 10.0
    env.rewarded_health = health
    known = env.unlocked
    for k in range(SKILL_COUNT):
        if env.achievements[k] > 0:
            env.unlocked |= 1 << k
    if env.unlocked != known:
        reward += 1.0
    env.episode_return += reward
    return reward


@jit
def is_dead(env):
    return env.inventory[const.HEALTH] <= 0


@jit
def is_out_of_time(env):
    return env.step >= env.params.length
