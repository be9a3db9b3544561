"""A scripted policy that steals the gem: it finds the shortest path, keys and doors included, and steers along it.

It serves as an upper bound and as a test driver. It has no memory: its actions depend on the current state only.
"""

import numpy as np

from envgen.jit import jit

from . import constants as const
from .engine import Engine
from .maze import MAX_CELLS, NUM_KEY_SETS, UNREACHABLE, find_gem, to_search_grid

STRIDE = const.MAX_WORLD_SIZE + 2
COAST_STEPS = 0.45 / (1 - 0.45)  # the agent coasts this many steps' worth of its velocity
TOLERANCES = 0.1, 0.2  # accepted distance from the center of a corridor, in cells; the agent fits within 0.125
PHASE_STEPS = 16  # every fourth phase uses the second tolerance, which ends oscillations
HALF = 0.5


def expert_actions(engine: Engine) -> np.ndarray:
    """The expert's action in every environment of an engine."""
    actions = np.zeros(len(engine.envs), np.int64)
    _choose_actions(engine.envs, actions)
    return actions


@jit
def _choose_actions(envs, actions):
    cells = np.zeros(MAX_CELLS, np.uint8)
    queue, previous = np.empty(NUM_KEY_SETS * MAX_CELLS, np.int32), np.empty(NUM_KEY_SETS * MAX_CELLS, np.int32)
    for i in range(actions.size):
        actions[i] = _choose_action(envs[i], cells, queue, previous)


@jit
def _choose_action(env, cells, queue, previous):
    start = to_search_grid(env, cells, STRIDE)
    state = find_gem(cells, STRIDE, start, queue, previous)
    if state == UNREACHABLE:
        return const.NOOP
    target, direction = state, 0  # the end of the straight part of the path that begins at the agent
    while previous[state] != state:
        predecessor = np.int64(previous[state])
        move = (state - predecessor) % (STRIDE * STRIDE)
        if move != direction:
            target, direction = state, move
        state = predecessor
    target %= STRIDE * STRIDE
    tolerance = TOLERANCES[1] if env.step // PHASE_STEPS % 4 == 3 else TOLERANCES[0]
    dx = _steer(target % STRIDE - 1 + HALF - env.x, env.vx, tolerance)
    dy = _steer(target // STRIDE - 1 + HALF - env.y, env.vy, tolerance)
    return 3 * (dx + 1) + dy + 1


@jit
def _steer(distance, velocity, tolerance):
    """The direction, -1, 0 or 1, to press in order to stop at `distance`."""
    remaining = distance - velocity * COAST_STEPS
    return 0 if abs(remaining) <= tolerance else 1 if remaining > 0 else -1
