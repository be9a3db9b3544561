"""The rules of a step: what the actions do, what ends an episode, and its reward."""

from envgen.jit import jit

from . import constants as const
from .placement import ANYWHERE, NOWHERE, OBSTACLE_TRIES, column, place, row

TIME_PENALTY = 0.9  # the part of the reward that is lost if success comes in the last step
COLLISION_REWARD = -1.0


@jit
def success_reward(env):
    return 1 - TIME_PENALTY * (env.step / env.length)


@jit
def step(env, action):
    """Advance an environment by one action. Returns (reward, terminated)."""
    env.step += 1
    objective = env.objective
    if objective == const.MATCH_OBJECT and action == const.PICK_UP:
        action = const.TOGGLE
    collides = False
    if objective == const.AVOID_OBSTACLES:
        if action > const.FORWARD:
            action = const.TURN_LEFT
        front = env.grid[env.cell + const.STEPS[env.direction]]
        collides = action == const.FORWARD and front != const.EMPTY and front != const.GOAL
        _move_obstacles(env)
    carried = env.carrying
    red_was_open = objective == const.RED_THEN_BLUE and _is_open(env, env.target_cell)
    reward, terminated = _act(env, action)
    if objective == const.REACH_GOAL:
        pass
    elif objective == const.AVOID_OBSTACLES:
        if collides:
            reward, terminated = COLLISION_REWARD, True
    elif objective == const.PICK_UP_TARGET:
        if action == const.PICK_UP and is_mission_object(env, env.carrying):
            reward, terminated = success_reward(env), True
    elif objective == const.UNLOCK_TARGET:
        if action == const.TOGGLE and _is_open(env, env.target_cell):
            reward, terminated = success_reward(env), True
    elif objective == const.GO_TO_TARGET:
        if action == const.TOGGLE:
            terminated = True
        elif action == const.SAY_DONE:
            dx, dy = _distances(env.cell, env.target_cell)
            if dx + dy == 1:
                reward = success_reward(env)
            terminated = True
    elif objective == const.FETCH_TARGET:
        if env.carrying != const.EMPTY:
            reward, terminated = success_reward(env) if is_mission_object(env, env.carrying) else 0.0, True
    elif objective == const.PUT_NEAR_TARGET:
        if action == const.PICK_UP and env.carrying != const.EMPTY and not is_mission_object(env, env.carrying):
            terminated = True
        if action == const.DROP and carried != const.EMPTY:
            if env.carrying == const.EMPTY:
                dx, dy = _distances(env.cell + const.STEPS[env.direction], env.target_cell)
                if max(dx, dy) <= 1:
                    reward = success_reward(env)
            terminated = True
    elif objective == const.MATCH_OBJECT:
        if env.cell == env.target_cell:
            reward, terminated = success_reward(env), True
        elif env.cell == env.other_cell:
            reward, terminated = 0.0, True
    elif _is_open(env, env.other_cell):  # RED_THEN_BLUE
        reward, terminated = success_reward(env) if red_was_open else 0.0, True
    env.episode_return += reward
    if reward > 0:
        env.solved = 1
        env.achievements[env.task] += 1
    return reward, terminated


@jit
def _act(env, action):
    """What the action does in every task. Returns (reward, terminated)."""
    if action == const.TURN_LEFT:
        env.direction = (env.direction + 3) % 4
        return 0.0, False
    if action == const.TURN_RIGHT:
        env.direction = (env.direction + 1) % 4
        return 0.0, False
    cell = env.cell + const.STEPS[env.direction]
    front = env.grid[cell]
    if action == const.FORWARD:
        if const.CAN_ENTER[front]:
            env.cell = cell
        if front == const.GOAL:
            return success_reward(env), True
        return 0.0, front == const.LAVA
    if action == const.PICK_UP:
        if const.CAN_PICK_UP[front] and env.carrying == const.EMPTY:
            env.carrying = front
            env.grid[cell] = const.EMPTY
    elif action == const.DROP:
        if front == const.EMPTY and env.carrying != const.EMPTY:
            env.grid[cell] = env.carrying
            env.carrying = const.EMPTY
    elif action == const.TOGGLE:
        if const.LOCKED_DOOR <= front < const.KEY:
            color = front - const.LOCKED_DOOR
            if env.carrying == const.KEY + color:
                env.grid[cell] = const.OPEN_DOOR + color
        else:
            env.grid[cell] = const.TOGGLED[front]
    return 0.0, False


@jit
def _move_obstacles(env):
    """Move each obstacle to a random empty cell next to it, if there is one."""
    for k in range(env.num_obstacles):
        old = env.obstacles[k]
        new = place(
            env, const.BALL + const.BLUE, column(old) - 1, row(old) - 1, 3, 3, OBSTACLE_TRIES, ANYWHERE
        )  # fmt: skip
        if new != NOWHERE:
            env.grid[old] = const.EMPTY
            env.obstacles[k] = new


@jit
def _is_open(env, cell):
    code = env.grid[cell]
    return const.OPEN_DOOR <= code < const.CLOSED_DOOR


@jit
def is_mission_object(env, code):
    """Whether a cell holds an object of the color and kind that the mission names first."""
    return const.CELL_OBJECT[code] == env.mission[2] and const.CELL_COLOR[code] + 1 == env.mission[1]


@jit
def _distances(cell, other):
    return abs(column(cell) - column(other)), abs(row(cell) - row(other))
