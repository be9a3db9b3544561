"""A scripted player that steals the gem: it looks for the shortest way, keys and doors included, and steers along it.

It is a yardstick and a test driver, not a learner. It keeps no memory: what it does follows from the state alone.
"""

import numpy as np

from envgen.jit import jit

from . import constants as t
from .engine import Engine
from .maze import MASKS, MOST_CELLS
from .search import NO_WAY, find_gem, lay_out

ROW = t.SIDE + 2
COAST = 0.45 / (1 - 0.45)  # steps' worth of its velocity that the agent still moves when nothing is pressed
NEARLY = 0.1, 0.2  # cells beside the middle of a corridor that are let be; the agent fits through with .125
TURN = 16  # steps; every fourth turn is the other one's, so that no swinging to and fro lasts
HALF = 0.5


def expert_actions(engine: Engine) -> np.ndarray:
    """The expert's action in every environment of an engine."""
    actions = np.zeros(engine.num_envs, np.int64)
    _act_all(engine.envs, actions)
    return actions


@jit
def _act_all(envs, actions):
    cells = np.zeros(MOST_CELLS, np.uint8)
    queue, origin = np.empty(MASKS * MOST_CELLS, np.int32), np.empty(MASKS * MOST_CELLS, np.int32)
    for i in range(actions.size):
        actions[i] = _act(envs[i], cells, queue, origin)


@jit
def _act(e, cells, queue, origin):
    here = lay_out(e, cells, ROW)
    state = find_gem(cells, ROW, here, queue, origin)
    if state == NO_WAY:
        return t.NOOP
    corner, way = state, 0  # the end of the straight part that leads on from here
    while origin[state] != state:
        before = np.int64(origin[state])
        step = (state - before) % (ROW * ROW)
        if step != way:
            corner, way = state, step
        state = before
    corner %= ROW * ROW
    nearly = NEARLY[1] if e.step // TURN % 4 == 3 else NEARLY[0]
    dx = _press(corner % ROW - 1 + HALF - e.x, e.vx, nearly)
    dy = _press(corner // ROW - 1 + HALF - e.y, e.vy, nearly)
    return 3 * (dx + 1) + dy + 1


@jit
def _press(distance, velocity, nearly):
    """The direction to press in order to come to a stop at a distance."""
    left = distance - velocity * COAST
    return 0 if abs(left) <= nearly else 1 if left > 0 else -1
