"""The rules of one step: the agent moves, is stopped by walls and locked doors, and collects what it touches.

Positions and velocities are float32, and every operation is one of the reference's, in its order, so that results are
equal bit for bit. Do not reorder or regroup them.
"""

import math

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const

AGENT_RADIUS = np.float32(0.375)  # half the agent's side
COLLISION_RADIUS = np.float32(0.98) * AGENT_RADIUS  # half the side of the square whose corners must be free of walls
OVERLAP_MARGIN = np.float32(0.001)  # the agent may overlap a door by this much
VELOCITY_DECAY = np.float32(0.5)  # applied before the acceleration
FRICTION = 0.9
SUBSTEP = np.float32(0.25)  # a step is taken in four parts
ZERO = np.float32(0)


@jit
def step(env, action):
    """Apply `action` and return the reward."""
    dx, dy = 0, 0
    if action < const.NUM_MOVES:
        dx, dy = action // 3 - 1, action % 3 - 1
    x_first_on_tie = mt19937.next_word(env.mt) % np.uint32(1000000) % np.uint32(2) == 0
    env.vx = _accelerate(env.vx, env.params.acceleration, dx)
    env.vy = _accelerate(env.vy, env.params.acceleration, dy)
    _move(env, dy != 0, dx != 0, x_first_on_tie)
    if dx != 0 or dy != 0:
        env.rotation = np.float32(0.0 - math.atan2(np.float64(dy), np.float64(dx)))  # never -0
        env.facing = action
    env.step += 1
    reward = _collect_touched(env)
    env.episode_return += reward
    return reward


@jit
def _accelerate(velocity, acceleration, direction):
    velocity = VELOCITY_DECAY * velocity
    velocity = velocity + acceleration * np.float32(direction)
    return np.float32(FRICTION * np.float64(velocity))


@jit
def _move(env, vertical, horizontal, x_first_on_tie):
    """Move in four substeps along both axes. Each substep that a wall stops costs a quarter of the speed; a door stops
    the agent."""
    if vertical or horizontal:
        x_first = not vertical
    elif abs(env.vx) == abs(env.vy):
        x_first = x_first_on_tie
    else:
        x_first = abs(env.vx) > abs(env.vy)
    free_x, free_y = 0, 0
    for _ in range(4):
        if x_first:
            blocked_x = _substep(env, env.vx * SUBSTEP, ZERO)
            blocked_y = _substep(env, ZERO, env.vy * SUBSTEP)
        else:
            blocked_y = _substep(env, ZERO, env.vy * SUBSTEP)
            blocked_x = _substep(env, env.vx * SUBSTEP, ZERO)
        free_x += not blocked_x
        free_y += not blocked_y
        if blocked_x and blocked_y:
            break
    env.vx = env.vx * (np.float32(free_x) * SUBSTEP)
    env.vy = env.vy * (np.float32(free_y) * SUBSTEP)


@jit
def is_wall(env, x, y):
    """Whether the point lies in a wall or outside the grid."""
    i, j = math.floor(x), math.floor(y)
    size = env.world_size
    return i < 0 or j < 0 or i >= size or j >= size or env.grid[np.int64(j), np.int64(i)] == const.WALL


@jit
def _substep(env, dx, dy):
    """Move along one axis, but not into walls or locked doors. Returns whether something blocked the agent.

    The reference checks for doors again after each push, up to five levels deep. That has no effect in Heist: doors
    stand on even cells of the maze, so a second door is never close enough to push.
    """
    blocked = _move_until_wall(env, dx, dy)
    for k in range(env.num_entities - 1, -1, -1):
        door = env.entities[k]
        if (
            door.kind != const.ENTITY_DOOR
            or not door.alive
            or env.has_key[door.color]
            or not _overlaps(env, door, OVERLAP_MARGIN)
        ):
            continue
        if dx != 0:
            distance = AGENT_RADIUS + door.rx
            env.vx = ZERO
            _move_until_wall(env, door.x + (-distance if dx > 0 else distance) - env.x, ZERO)
        else:
            distance = AGENT_RADIUS + door.ry
            env.vy = ZERO
            _move_until_wall(env, ZERO, door.y + (-distance if dy > 0 else distance) - env.y)
        return True
    return blocked


@jit
def _move_until_wall(env, dx, dy):
    """Move along one axis, but not into walls. Returns whether a wall blocked the agent."""
    x, y = env.x + dx, env.y + dy
    blocked = (
        is_wall(env, x - COLLISION_RADIUS, y - COLLISION_RADIUS)
        or is_wall(env, x - COLLISION_RADIUS, y + COLLISION_RADIUS)
        or is_wall(env, x + COLLISION_RADIUS, y - COLLISION_RADIUS)
        or is_wall(env, x + COLLISION_RADIUS, y + COLLISION_RADIUS)
    )
    if blocked:
        if dx != 0:
            x = _align_to_wall(x, dx)
        else:
            y = _align_to_wall(y, dy)
    env.x, env.y = x, y
    return blocked


@jit
def _align_to_wall(position, delta):
    """The position that touches the wall which a move by `delta` entered."""
    if delta > 0:
        return np.float32(math.floor(position + AGENT_RADIUS)) - AGENT_RADIUS
    return np.float32(math.ceil(position - AGENT_RADIUS)) + AGENT_RADIUS


@jit
def _overlaps(env, entity, margin):
    return (
        abs(env.x - entity.x) < AGENT_RADIUS + entity.rx - margin
        and abs(env.y - entity.y) < AGENT_RADIUS + entity.ry - margin
    )


@jit
def _collect_touched(env):
    """Take keys, open doors and steal the gem where the agent touches them, last entity first. Returns the reward."""
    reward = 0.0
    for k in range(env.num_entities - 1, -1, -1):
        entity = env.entities[k]
        if not entity.alive or not _overlaps(env, entity, ZERO):
            continue
        color = np.int64(entity.color)
        if entity.kind == const.ENTITY_GEM:
            env.won = 1
            env.achievements[const.STEAL_GEM] += 1
            reward += const.GEM_REWARD
        elif entity.kind == const.ENTITY_KEY:
            env.has_key[color] = 1
            env.achievements[const.TAKE_KEY + 2 * color] += 1
            reward += _remove_entity(env, entity, env.params.key_reward)
        elif env.has_key[color]:
            env.achievements[const.OPEN_DOOR + 2 * color] += 1
            reward += _remove_entity(env, entity, env.params.door_reward)
    return reward


@jit
def _remove_entity(env, entity, bonus):
    """Remove a key or a door. Returns the level's reward for it; the original has none."""
    entity.alive = 0
    env.grid[np.int64(entity.y), np.int64(entity.x)] = const.FLOOR
    env.needs_redraw = 1
    env.bonus += bonus
    return np.float64(bonus)
