"""A scripted player that sees the whole map and works through Crafter's skills, easiest first.

It is a yardstick and a test driver, not a learner: it shows that a level's skills can be reached, and it takes the
engine to places where random actions never get. It keeps no memory: what it does follows from the state alone.
"""

import numpy as np

from envgen.jit import jit

from . import constants as const
from .engine import Engine
from .entities import entity_at, ground_at, has_ground, is_free, is_inside

_DX = np.array([dx for dx, _ in const.DIRECTION_OFFSETS])
_DY = np.array([dy for _, dy in const.DIRECTION_OFFSETS])
_CELLS = const.MAP_SIZE * const.MAP_SIZE
_THING = 100  # targets from here on are kinds of entities, below are materials
_RIPE_PLANT = _THING + len(const.ENTITIES)
SPARE_STONE = 6  # enough for a furnace and a tool


def expert_actions(engine: Engine) -> np.ndarray:
    """The expert's action in every environment of an engine."""
    actions = np.zeros(engine.num_envs, np.int64)
    _act_all(engine.state, actions)
    return actions


@jit
def _act_all(s, actions):
    queue, origin = np.empty(_CELLS, np.int64), np.empty(_CELLS, np.int8)
    for i in range(actions.size):
        actions[i] = _act(s.envs[i], s.entities[i], queue, origin)


@jit
def _act(env, entities, queue, origin):
    if env.sleeping:
        return const.NOOP
    items = env.inventory
    for d in range(4):  # whoever stands beside us and bites
        row = entity_at(env, entities[0].x + _DX[d], entities[0].y + _DY[d])
        if row >= 0 and (entities[row].kind == const.ZOMBIE or entities[row].kind == const.SKELETON):
            return const.DO if env.facing == d else const.FIRST_MOVE + d
    if items[const.ENERGY] < 3:
        return const.SLEEP
    if items[const.DRINK] < 4:
        return _seek(env, entities, const.WATER, queue, origin)
    if items[const.FOOD] < 4:
        return _seek(env, entities, _THING + const.COW, queue, origin)
    return _progress(env, entities, queue, origin)


@jit
def _progress(env, entities, queue, origin):
    """The next entity to do for the first skill that is still missing."""
    items, done = env.inventory, env.achievements
    if _has_ripe(env, entities):
        return _seek(env, entities, _RIPE_PLANT, queue, origin)
    if done[const.COLLECT_SAPLING] == 0 or (
        done[const.EAT_PLANT] == 0 and items[const.SAPLING] == 0 and not _has_kind(env, entities, const.PLANT)
    ):
        return _dig_sapling(env, entities, queue, origin)
    if items[const.SAPLING] > 0 and (done[const.PLACED_PLANT] == 0 or not _has_kind(env, entities, const.PLANT)):
        return _put(env, entities, const.PLACE_PLANT, queue, origin)
    if done[const.COLLECT_DRINK] == 0:
        return _seek(env, entities, const.WATER, queue, origin)
    if done[const.EAT_COW] == 0 and _has_kind(env, entities, const.COW):
        return _seek(env, entities, _THING + const.COW, queue, origin)
    for tool in (0, 3, 1, 4, 2, 5):  # wood, stone, iron: pickaxe, then sword
        if items[const.WOOD_PICKAXE + tool] == 0:
            return _tool(env, entities, tool, queue, origin)
    if done[const.PLACED_STONE] == 0:
        if items[const.STONE_ITEM] > 0:
            return _put(env, entities, const.PLACE_STONE, queue, origin)
        return _seek(env, entities, const.STONE, queue, origin)
    if done[const.COLLECT_DIAMOND] == 0 and has_ground(env, const.DIAMOND):
        return _seek(env, entities, const.DIAMOND, queue, origin)
    for kind in (const.SKELETON, const.ZOMBIE):
        skill = const.DEFEAT_SKELETON if kind == const.SKELETON else const.DEFEAT_ZOMBIE
        if done[skill] == 0 and _has_kind(env, entities, kind):
            return _seek(env, entities, _THING + kind, queue, origin)
    if done[const.WAKE_UP] == 0 and items[const.ENERGY] < const.MAX_ITEM_COUNT:
        return const.SLEEP
    return _wander(env)


@jit
def _tool(env, entities, tool, queue, origin):
    """Gather what a tool takes, then make it beside a table (and a furnace), placing them first."""
    items = env.inventory
    level = tool % 3  # 0 wood, 1 stone, 2 iron
    table, furnace = _beside(env, entities, const.TABLE), _beside(env, entities, const.FURNACE)
    if items[const.WOOD] < (1 if table else 1 + const.TABLE_WOOD):
        return _seek(env, entities, const.TREE, queue, origin)
    if level > 0 and items[const.STONE_ITEM] < (1 if level == 1 or furnace else SPARE_STONE):
        return _seek(env, entities, const.STONE, queue, origin)
    if level == 2 and items[const.COAL_ITEM] < 1:
        return _seek(env, entities, const.COAL, queue, origin)
    if level == 2 and items[const.IRON_ITEM] < 1:
        return _seek(env, entities, const.IRON, queue, origin)
    if not table:
        return _put(env, entities, const.PLACE_TABLE, queue, origin)
    if level == 2 and not furnace:
        return _put(env, entities, const.PLACE_FURNACE, queue, origin)
    return const.FIRST_MAKE + tool


@jit
def _beside(env, entities, material):
    """Is a material within the eight cells around, as the rules for making tools ask?"""
    player = entities[0]
    if player.x == 0 or player.y == 0:
        return False
    for x in range(player.x - 1, min(player.x + 2, const.MAP_SIZE)):
        for y in range(player.y - 1, min(player.y + 2, const.MAP_SIZE)):
            if env.ground[x, y] == material:
                return True
    return False


@jit
def _has_kind(env, entities, kind):
    for row in range(1, env.num_entities):
        if entities[row].kind == kind:
            return True
    return False


@jit
def _has_ripe(env, entities):
    for row in range(1, env.num_entities):
        if entities[row].kind == const.PLANT and entities[row].counter > const.RIPE_AFTER:
            return True
    return False


@jit
def _dig_sapling(env, entities, queue, origin):
    x, y = entities[0].x + _DX[env.facing], entities[0].y + _DY[env.facing]
    if ground_at(env, x, y) == const.GRASS and entity_at(env, x, y) < 0:
        return const.DO
    return _seek(env, entities, const.GRASS, queue, origin)


@jit
def _put(env, entities, action, queue, origin):
    """Place something on the cell ahead, or turn to where it can be placed."""
    x, y = entities[0].x + _DX[env.facing], entities[0].y + _DY[env.facing]
    ground = 1 << const.GRASS if action == const.PLACE_PLANT else const.WALKABLE
    if is_free(env, x, y, ground):
        return action
    return _seek(env, entities, const.GRASS, queue, origin)


@jit
def _wander(env):
    """A heading that changes every few steps."""
    return const.FIRST_MOVE + (env.world_seed + env.step // 9 * 7919) // 3 % 4


@jit
def _is_target(env, entities, target, x, y):
    row = entity_at(env, x, y)
    if target < _THING:
        return ground_at(env, x, y) == target and row < 0
    if row < 0:
        return False
    if target == _RIPE_PLANT:
        return entities[row].kind == const.PLANT and entities[row].counter > const.RIPE_AFTER
    return entities[row].kind == target - _THING


@jit
def _seek(env, entities, target, queue, origin):
    """One action towards the nearest target: walk, dig through stone, bridge water; and act on it when beside it.

    Breadth first from the player; `origin` remembers by which direction from the player a cell was reached.
    """
    player = entities[0]
    x, y = player.x + _DX[env.facing], player.y + _DY[env.facing]
    if _is_target(env, entities, target, x, y):
        return const.DO
    dig, bridge = env.inventory[const.WOOD_PICKAXE] > 0, env.inventory[const.STONE_ITEM] > 1
    origin[:] = -1
    start = np.int64(player.x) * const.MAP_SIZE + player.y
    origin[start] = 4
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        for d in range(4):
            x, y = cell // const.MAP_SIZE + _DX[d], cell % const.MAP_SIZE + _DY[d]
            if not is_inside(x, y) or origin[x * const.MAP_SIZE + y] >= 0:
                continue
            way = d if cell == start else origin[cell]
            if _is_target(env, entities, target, x, y):
                return _go(env, entities, way)
            ground = ground_at(env, x, y)
            passable = (const.WALKABLE >> ground) & 1 == 1
            passable |= dig and (ground == const.STONE or ground == const.COAL)
            passable |= bridge and ground == const.WATER
            if passable and entity_at(env, x, y) < 0:
                origin[x * const.MAP_SIZE + y] = way
                queue[tail] = x * const.MAP_SIZE + y
                tail += 1
    return _wander(env)


@jit
def _go(env, entities, way):
    """Move one way; clear stone or bridge water that is in it."""
    x, y = entities[0].x + _DX[way], entities[0].y + _DY[way]
    if env.facing == way and not is_free(env, x, y, const.WALKABLE):
        return const.PLACE_STONE if ground_at(env, x, y) == const.WATER else const.DO
    return const.FIRST_MOVE + way
