"""Whether an episode can be solved: `solvable`, `unsolvable` or `unknown`.

Three checks in turn; each answers only what is certain:

1. If neither the target nor a goal, which is a success in every task, can be reached even if every key within reach is
   used, and every object is moved that the task allows to be moved: unsolvable.
2. If the scripted expert solves the episode within its steps: solvable.
3. Breadth-first search over all states, up to MAX_STATES of them: solvable if one of them solves the episode within its
   steps; unsolvable if no state is left. Otherwise, and where obstacles move at random: unknown.
"""

from typing import NamedTuple

import numpy as np

from envgen.jit import jit

from . import constants as const
from .expert_policy import ANY_GOAL, ANY_TARGET, NO_ACTION, allocate_buffers, choose_action, find_way
from .placement import NOWHERE, cell_at
from .rules import step
from .state import ENV

SOLVABLE, UNSOLVABLE, UNKNOWN = range(3)
ANSWERS = ("solvable", "unsolvable", "unknown")
MAX_STATES = 4000
TABLE_SIZE = 1 << 14  # of the hash table of visited states
ALL_COLORS = (1 << const.NUM_COLORS) - 1


class Solutions(NamedTuple):
    """The answers for some episodes."""

    answers: np.ndarray  # (n,) SOLVABLE, UNSOLVABLE or UNKNOWN
    steps: np.ndarray  # (n,) of the solution that was found, which need not be the shortest; -1 if none was


def solve(envs: np.ndarray, max_states: int = MAX_STATES) -> Solutions:
    """Solve the episodes of these states, (n,) ENV, without changing them."""
    trial = envs.copy()
    answers, steps = np.zeros(len(envs), np.int64), np.full(len(envs), -1, np.int64)
    nodes = np.zeros(1, ENV)
    for i in range(len(envs)):
        answers[i], steps[i] = _solve(trial, i, allocate_buffers())
        if answers[i] == UNKNOWN and envs["objective"][i] != const.AVOID_OBSTACLES:
            if len(nodes) == 1:  # tens of megabytes, which most levels do not need
                nodes = np.zeros(max_states, ENV)
            nodes[0] = envs[i]
            answers[i], steps[i] = _search(nodes, np.zeros(TABLE_SIZE, np.uint64), np.zeros(max_states, np.int64))
    return Solutions(answers, steps)


@jit
def _solve(trial, i, buffers):
    env = trial[i]
    if _is_cut_off(env, buffers):
        return UNSOLVABLE, -1
    start = env.step
    while env.step < env.length:
        action = choose_action(env, buffers)
        if action == NO_ACTION:
            break
        reward, terminated = step(env, action)
        if reward > 0:
            return SOLVABLE, env.step - start
        if terminated:
            break
    return UNKNOWN, -1


@jit
def _is_cut_off(env, buffers):
    """Whether there is no way to the target or a goal, even if every key within reach is used, and every object moved
    that the task allows to be moved.
    """
    keys = 0
    if const.KEY <= env.carrying < const.BALL:
        keys = 1 << (env.carrying - const.KEY)
    has_new_key = True
    while has_new_key:
        has_new_key = False
        for color in range(const.NUM_COLORS):
            if not keys >> color & 1 and find_way(env, buffers, color, ALL_COLORS & ~keys) != NOWHERE:
                keys |= 1 << color
                has_new_key = True
    if env.objective == const.PUT_NEAR_TARGET and env.carrying != const.EMPTY:
        return False
    for target in (ANY_TARGET, ANY_GOAL):
        if find_way(env, buffers, target, ALL_COLORS & ~keys) != NOWHERE:
            return False
    return True


@jit
def _hash(env):
    """A hash of everything that matters later except the number of steps; never 0."""
    prime = np.uint64(1099511628211)
    value = np.uint64(14695981039346656037)
    for y in range(env.height):
        first = cell_at(0, y)
        for cell in range(first, first + env.width):
            value = (value ^ np.uint64(env.grid[cell])) * prime
    value = (value ^ np.uint64(env.cell)) * prime
    value = (value ^ np.uint64(4 * env.carrying + env.direction)) * prime
    return value | np.uint64(1)


@jit
def _is_new(table, value):
    slot = np.int64(value >> np.uint64(20)) % table.size
    while table[slot] != 0:
        if table[slot] == value:
            return False
        slot = (slot + 1) % table.size
    table[slot] = value
    return True


@jit
def _search(nodes, table, depths):
    """Breadth-first search from nodes[0]. Returns the answer and the fewest steps of a solution."""
    _is_new(table, _hash(nodes[0]))
    first, size = 0, 1
    while first < size:
        for action in range(len(const.ACTIONS)):
            if size == nodes.size:
                return UNKNOWN, -1
            nodes[size] = nodes[first]
            env = nodes[size]
            reward, terminated = step(env, action)
            if reward > 0:
                return SOLVABLE, depths[first] + 1
            if not terminated and env.step < env.length and _is_new(table, _hash(env)):
                depths[size] = depths[first] + 1
                size += 1
        first += 1
    return UNSOLVABLE, -1
