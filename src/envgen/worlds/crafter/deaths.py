"""The cause of the player's death, found by replaying the last step of an episode on a copy of the state before it.

The replay calls the rules in the order of `kernel.step_batch` and checks the player's health after each of them.
"""

import numpy as np

from envgen.jit import jit

from . import constants as const
from .creatures import UPDATE_DISTANCE, distance_to_player, update_entity
from .entities import ground_at
from .player import update_player

# What reduced the player's health to 0.
ALIVE, STARVATION, THIRST, EXHAUSTION, SEVERAL_NEEDS, LAVA, ZOMBIE, ZOMBIE_ASLEEP, ARROW = range(9)
CAUSES = (
    "time limit", "starvation", "thirst", "exhaustion", "several needs", "lava", "zombie", "zombie while asleep",
    "skeleton arrow",
)  # fmt: skip


@jit
def replay_last_step(state, i, action, daylight_table):
    """Take an action in environment i, and stop when the player dies. The state must be a copy.

    Returns:
        What killed the player, and whether the player was asleep then.
    """
    env, entities = state.envs[i], state.entities[i]
    items = env.inventory
    # A player who sleeps without full energy does nothing else; SLEEP without full energy begins to sleep.
    stays_asleep = env.sleeping != 0 and items[const.ENERGY] < const.MAX_ITEM_COUNT
    is_asleep = items[const.ENERGY] < const.MAX_ITEM_COUNT and (env.sleeping != 0 or action == const.SLEEP)
    env.step += 1
    env.daylight = daylight_table[env.params.start_time + env.step]
    count = env.num_entities
    update_player(env, entities, action)
    if items[const.HEALTH] <= 0:
        player = entities[0]
        is_move = const.FIRST_MOVE <= action < const.FIRST_MOVE + len(const.DIRECTIONS) and not stays_asleep
        if is_move and ground_at(env, player.x, player.y) == const.LAVA:
            return LAVA, False
        is_exhausted = items[const.ENERGY] <= 0 and not is_asleep  # sleep suspends exhaustion
        if (items[const.FOOD] <= 0) + (items[const.DRINK] <= 0) + is_exhausted > 1:
            return SEVERAL_NEEDS, is_asleep
        if items[const.FOOD] <= 0:
            return STARVATION, is_asleep
        return (THIRST if items[const.DRINK] <= 0 else EXHAUSTION), is_asleep
    for row in range(1, count):
        if distance_to_player(entities, row) < UPDATE_DISTANCE:
            kind, is_asleep = entities[row].kind, env.sleeping != 0
            update_entity(env, entities, row)
            if items[const.HEALTH] <= 0:
                if kind == const.ARROW:
                    return ARROW, is_asleep
                return (ZOMBIE_ASLEEP if is_asleep else ZOMBIE), is_asleep
    return ALIVE, env.sleeping != 0


def replay_ends(state, env_ids: np.ndarray, actions: np.ndarray, daylight_table: np.ndarray):
    """`replay_last_step` of several environments.

    Returns:
        What killed the player (n,) int, ALIVE for time limits, and whether it was asleep (n,) bool.
    """
    causes, asleep = np.zeros(len(env_ids), np.int64), np.zeros(len(env_ids), np.bool_)
    _replay_all(state, env_ids, actions, daylight_table, causes, asleep)
    return causes, asleep


@jit
def _replay_all(state, env_ids, actions, daylight_table, causes, asleep):
    for k in range(env_ids.size):
        i = env_ids[k]
        causes[k], asleep[k] = replay_last_step(state, i, actions[i], daylight_table)
