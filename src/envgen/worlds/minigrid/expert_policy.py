"""A scripted policy for every task, which sees the whole grid.

It serves as a reference for agents, as a test driver and as the solver's first attempt. It finds the cheapest way to
its target, where objects in the way, closed doors and locked doors cost extra. It picks up objects that are in the way
and drops them elsewhere. If it lacks the key of a locked door on the way, that key becomes the target first, and so on.
It has no memory: its actions depend on the current state only.
"""

from typing import NamedTuple

import numpy as np

from envgen.jit import jit

from . import constants as const
from .engine import Engine
from .placement import NOWHERE, column, row
from .rules import is_mission_object

UNREACHED = 1 << 30
STEP_COST, DOOR_COST, OBJECT_COST, OBSTACLE_COST, KEY_COST = 1, 2, 20, 4, 100
IMPASSABLE = -1
NO_ACTION = -1
ENTER, STAND_BEFORE, STAND_BESIDE = range(3)  # how a target is reached; beside it, the agent need not face it
ANY_TARGET, ANY_GOAL = -1, -2  # in place of the color of a key


class PlanBuffers(NamedTuple):
    """Scratch memory of the planner."""

    cost: np.ndarray  # (GRID_SIZE,) of the cheapest way to each cell
    previous: np.ndarray  # the cell before it
    queue: np.ndarray
    is_queued: np.ndarray
    on_path: np.ndarray
    path: np.ndarray  # the cells of the way from the target back to the agent, whose own cell is not included


def allocate_buffers() -> PlanBuffers:
    return PlanBuffers(
        cost=np.zeros(const.GRID_SIZE, np.int32),
        previous=np.zeros(const.GRID_SIZE, np.int32),
        queue=np.zeros(const.GRID_SIZE, np.int32),
        is_queued=np.zeros(const.GRID_SIZE, np.uint8),
        on_path=np.zeros(const.GRID_SIZE, np.uint8),
        path=np.zeros(const.GRID_SIZE, np.int32),
    )


def expert_actions(engine: Engine) -> np.ndarray:
    """The expert's action in every environment of an engine."""
    actions = np.zeros(engine.num_envs, np.int64)
    _choose_actions(engine.envs, allocate_buffers(), actions)
    return actions


@jit
def _choose_actions(envs, buffers, actions):
    for i in range(actions.size):
        actions[i] = max(choose_action(envs[i], buffers), 0)


@jit
def choose_action(env, buffers):
    """The next action, or NO_ACTION if there is no way to the target."""
    if env.objective == const.PUT_NEAR_TARGET and is_mission_object(env, env.carrying):
        return _put_near(env, buffers)
    buffers.on_path[:] = 0
    wanted_key, excluded_keys = ANY_TARGET, 0
    while True:  # the target, then the keys that the way there needs
        target = find_way(env, buffers, wanted_key, excluded_keys)
        if target == NOWHERE:
            return NO_ACTION
        length = _trace_path(env, buffers, target)
        needed_key = _missing_key(env, buffers, length)
        if needed_key == NOWHERE:
            break
        excluded_keys |= 1 << needed_key
        wanted_key = needed_key
    manner = _manner(env.objective) if wanted_key == ANY_TARGET else STAND_BEFORE
    if env.carrying != const.EMPTY and _must_drop(env, buffers, length, manner, wanted_key):
        return _drop_elsewhere(env, buffers)
    first = np.int64(buffers.path[length - 1])
    if length > 1 or manner == ENTER:
        return _go(env, first)
    if manner == STAND_BESIDE:
        return const.SAY_DONE
    if env.cell + const.STEPS[env.direction] != first:
        return _turn_to(env, first)
    code = env.grid[first]
    must_open_box = code >= const.BOX_WITH_KEY and (wanted_key != ANY_TARGET or not is_mission_object(env, code))
    is_door = const.OPEN_DOOR <= code < const.KEY
    return const.TOGGLE if must_open_box or is_door else const.PICK_UP


@jit
def _manner(objective):
    if objective == const.REACH_GOAL or objective == const.AVOID_OBSTACLES or objective == const.MATCH_OBJECT:
        return ENTER
    return STAND_BESIDE if objective == const.GO_TO_TARGET else STAND_BEFORE


@jit
def _is_target(env, cell, wanted_key):
    code = np.int64(env.grid[cell])
    contained_key = const.KEY + (code - const.BOX_WITH_KEY) // const.NUM_COLORS if code >= const.BOX_WITH_KEY else code
    if wanted_key >= 0:
        return contained_key == const.KEY + wanted_key
    objective = env.objective
    if wanted_key == ANY_GOAL or objective == const.REACH_GOAL or objective == const.AVOID_OBSTACLES:
        return code == const.GOAL
    if objective == const.RED_THEN_BLUE:
        red_is_open = const.OPEN_DOOR <= env.grid[env.target_cell] < const.CLOSED_DOOR
        return cell == (env.other_cell if red_is_open else env.target_cell)
    if objective == const.UNLOCK_TARGET or objective == const.GO_TO_TARGET or objective == const.MATCH_OBJECT:
        return cell == env.target_cell
    return is_mission_object(env, code) or is_mission_object(env, contained_key)


@jit
def _ends_when_picking_up(objective):
    """Whether the episode ends when the agent picks up an object that is not the mission's."""
    return objective == const.FETCH_TARGET or objective == const.PUT_NEAR_TARGET


@jit
def _entry_cost(env, cell, excluded_keys):
    """What entering a cell that is not the target costs, IMPASSABLE if that is impossible or ends the episode."""
    code, objective = np.int64(env.grid[cell]), env.objective
    if code == const.WALL or code == const.LAVA or code == const.GOAL:
        return IMPASSABLE
    if objective == const.MATCH_OBJECT and cell == env.other_cell:
        return IMPASSABLE
    if const.CAN_ENTER[code]:
        return STEP_COST
    if objective == const.RED_THEN_BLUE and (cell == env.target_cell or cell == env.other_cell):
        return IMPASSABLE
    if code < const.KEY:  # a door that is not open
        if objective == const.GO_TO_TARGET:
            return IMPASSABLE
        if code < const.LOCKED_DOOR or env.carrying == const.KEY + code - const.LOCKED_DOOR:
            return DOOR_COST
        return IMPASSABLE if excluded_keys >> (code - const.LOCKED_DOOR) & 1 else KEY_COST
    if objective == const.AVOID_OBSTACLES:
        return OBSTACLE_COST
    if objective == const.MATCH_OBJECT:
        return IMPASSABLE
    is_empty_box = const.BOX <= code < const.BOX_WITH_KEY  # which is gone when it is opened
    return OBJECT_COST if is_empty_box or not _ends_when_picking_up(objective) else IMPASSABLE


@jit
def find_way(env, buffers, wanted_key, excluded_keys):
    """The target that is cheapest to reach, NOWHERE if none is.

    With `wanted_key`, a color, the targets are the keys of that color and the boxes that contain one; with ANY_TARGET,
    those of the mission; with ANY_GOAL, the goals. `excluded_keys` is a bit mask of the colors whose locked doors
    cannot be opened.
    """
    cost, previous, queue, is_queued = buffers.cost, buffers.previous, buffers.queue, buffers.is_queued
    cost[:] = UNREACHED
    cost[env.cell] = 0
    queue[0] = env.cell
    first, size, best = 0, 1, NOWHERE
    while size > 0:
        cell = np.int64(queue[first])
        first, size = (first + 1) % queue.size, size - 1
        is_queued[cell] = 0
        for direction in range(4):
            neighbor = cell + const.STEPS[direction]
            is_target = _is_target(env, neighbor, wanted_key)
            step_cost = STEP_COST if is_target else _entry_cost(env, neighbor, excluded_keys)
            if step_cost == IMPASSABLE or cost[cell] + step_cost >= cost[neighbor]:
                continue
            cost[neighbor] = cost[cell] + step_cost
            previous[neighbor] = cell
            if is_target:
                if best == NOWHERE or cost[neighbor] < cost[best]:
                    best = neighbor
            elif not is_queued[neighbor]:
                is_queued[neighbor] = 1
                queue[(first + size) % queue.size] = neighbor
                size += 1
    return best


@jit
def _trace_path(env, buffers, target):
    """Write the way to `target` into `path`, last cell first, and mark it in `on_path`. Returns its length."""
    cell, length = target, 0
    while cell != env.cell:
        buffers.path[length] = cell
        buffers.on_path[cell] = 1
        length += 1
        cell = np.int64(buffers.previous[cell])
    return length


@jit
def _missing_key(env, buffers, length):
    """The color of the first locked door on the way whose key the agent does not carry, NOWHERE if there is none.

    Objects before that door are removed first.
    """
    for k in range(length - 1, -1, -1):
        code = np.int64(env.grid[buffers.path[k]])
        if k > 0 and const.CAN_PICK_UP[code] and env.objective != const.AVOID_OBSTACLES:
            return NOWHERE
        if const.LOCKED_DOOR <= code < const.KEY and env.objective != const.GO_TO_TARGET:
            color = code - const.LOCKED_DOOR
            if env.carrying != const.KEY + color:
                return color
    return NOWHERE


@jit
def _must_drop(env, buffers, length, manner, wanted_key):
    """Whether the agent must drop what it carries: it will have to pick something up before it unlocks a door."""
    for k in range(length - 1, -1, -1):
        code = np.int64(env.grid[buffers.path[k]])
        if const.LOCKED_DOOR <= code < const.KEY:
            return False
        if const.CAN_PICK_UP[code] and env.objective != const.AVOID_OBSTACLES:
            if k > 0:
                return True
            return manner == STAND_BEFORE and not (wanted_key >= 0 and code >= const.BOX_WITH_KEY)
    return False


@jit
def _turn_to(env, cell):
    for turn in range(1, 4):
        if env.cell + const.STEPS[(env.direction + turn) % 4] == cell:
            return const.TURN_LEFT if turn == 3 else const.TURN_RIGHT
    return NO_ACTION


@jit
def _go(env, cell):
    """Turn to a neighboring cell, clear it, and enter it."""
    if env.cell + const.STEPS[env.direction] != cell:
        return _turn_to(env, cell)
    code = env.grid[cell]
    if const.CAN_ENTER[code]:
        return const.FORWARD
    if env.objective == const.AVOID_OBSTACLES:
        return const.TURN_LEFT  # wait
    is_box = code >= const.BOX and _ends_when_picking_up(env.objective)
    return const.TOGGLE if code < const.KEY or is_box else const.PICK_UP


@jit
def _may_drop(env, buffers, cell, is_careful):
    """Whether an object may be dropped in a cell: off the way and, if `is_careful`, where it blocks no passage."""
    if env.grid[cell] != const.EMPTY or buffers.on_path[cell] or cell == env.cell:
        return False
    if not is_careful:
        return True
    ring = (
        1, 1 + const.STRIDE, const.STRIDE, const.STRIDE - 1, -1, -1 - const.STRIDE, -const.STRIDE, 1 - const.STRIDE,
    )  # fmt: skip
    changes = 0
    for k in range(8):
        is_free = const.CAN_ENTER[env.grid[cell + ring[k]]]
        changes += is_free != const.CAN_ENTER[env.grid[cell + ring[(k + 1) % 8]]]
    if changes > 2:
        return False
    for direction in range(4):  # not in front of a door
        code = env.grid[cell + const.STEPS[direction]]
        if const.OPEN_DOOR <= code < const.KEY:
            return False
    return True


@jit
def _drop_elsewhere(env, buffers):
    """Drop what the agent carries where it is not in the way."""
    for is_careful in (True, False):
        action = _drop_at(env, buffers, is_careful, NOWHERE)
        if action != NO_ACTION:
            return action
    return NO_ACTION


@jit
def _put_near(env, buffers):
    """Drop the carried object in the nearest empty cell beside the target."""
    buffers.on_path[:] = 0
    return _drop_at(env, buffers, False, env.target_cell)


@jit
def _drop_at(env, buffers, is_careful, near):
    """Drop what the agent carries in the nearest suitable cell; with `near`, only next to that cell."""
    cost, previous, queue = buffers.cost, buffers.previous, buffers.queue
    cost[:] = UNREACHED
    cost[env.cell] = 0
    queue[0] = env.cell
    first, size = 0, 1
    while first < size:
        cell = np.int64(queue[first])
        first += 1
        for turn in (0, 1, 3, 2):
            neighbor = cell + const.STEPS[(env.direction + turn) % 4]
            is_near = near == NOWHERE or (
                abs(column(neighbor) - column(near)) <= 1 and abs(row(neighbor) - row(near)) <= 1
            )
            if is_near and _may_drop(env, buffers, neighbor, is_careful):
                if cell == env.cell:
                    return const.DROP if turn == 0 else _turn_to(env, neighbor)
                while np.int64(previous[cell]) != env.cell:
                    cell = np.int64(previous[cell])
                return _go(env, cell)
        for direction in range(4):
            neighbor = cell + const.STEPS[direction]
            code = env.grid[neighbor]
            is_free = const.CAN_ENTER[code] and code != const.LAVA and code != const.GOAL
            if is_free and cost[neighbor] == UNREACHED:
                cost[neighbor] = cost[cell] + 1
                previous[neighbor] = cell
                queue[size] = neighbor
                size += 1
    return NO_ACTION
