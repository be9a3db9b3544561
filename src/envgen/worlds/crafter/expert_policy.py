"""A scripted policy that sees the whole map and works through Crafter's skills, easiest first.

It serves as a baseline and as a test driver: it shows which skills a level allows, and reaches states of the engine
that random actions never reach. It has no memory; its actions depend on the state alone.
"""

import numpy as np

from envgen.jit import jit

from . import constants as const
from .engine import Engine
from .entities import entity_at, ground_at, has_ground, is_free, is_inside

_DX = np.array([dx for dx, _ in const.DIRECTION_OFFSETS])
_DY = np.array([dy for _, dy in const.DIRECTION_OFFSETS])
_NUM_CELLS = const.MAP_SIZE * const.MAP_SIZE
_ENTITY_TARGET = 100  # targets below are materials; targets from here on are kinds of entities
_RIPE_PLANT = _ENTITY_TARGET + len(const.ENTITIES)
STONE_FOR_FURNACE = 6  # a furnace costs 4; the rest bridges water


def expert_actions(engine: Engine) -> np.ndarray:
    """The expert's action in every environment of an engine."""
    actions = np.zeros(engine.num_envs, np.int64)
    _act_all(engine.state, actions)
    return actions


@jit
def _act_all(state, actions):
    queue, first_move = np.empty(_NUM_CELLS, np.int64), np.empty(_NUM_CELLS, np.int8)
    for i in range(actions.size):
        actions[i] = _choose_action(state.envs[i], state.entities[i], queue, first_move)


@jit
def _choose_action(env, entities, queue, first_move):
    if env.sleeping:
        return const.NOOP
    items = env.inventory
    for d in range(4):  # fight zombies and skeletons next to the player
        row = entity_at(env, entities[0].x + _DX[d], entities[0].y + _DY[d])
        if row >= 0 and (entities[row].kind == const.ZOMBIE or entities[row].kind == const.SKELETON):
            return const.DO if env.facing == d else const.FIRST_MOVE + d
    if items[const.ENERGY] < 3:
        return const.SLEEP
    if items[const.DRINK] < 4:
        return _seek(env, entities, const.WATER, queue, first_move)
    if items[const.FOOD] < 4:
        return _seek(env, entities, _ENTITY_TARGET + const.COW, queue, first_move)
    return _pursue_next_skill(env, entities, queue, first_move)


@jit
def _pursue_next_skill(env, entities, queue, first_move):
    """The action towards the first skill that has not succeeded yet."""
    items, achievements = env.inventory, env.achievements
    if _has_ripe_plant(env, entities):
        return _seek(env, entities, _RIPE_PLANT, queue, first_move)
    if achievements[const.COLLECT_SAPLING] == 0 or (
        achievements[const.EAT_PLANT] == 0 and items[const.SAPLING] == 0 and not _has_entity(env, entities, const.PLANT)
    ):
        return _collect_sapling(env, entities, queue, first_move)
    if items[const.SAPLING] > 0 and (
        achievements[const.PLACED_PLANT] == 0 or not _has_entity(env, entities, const.PLANT)
    ):
        return _place_item(env, entities, const.PLACE_PLANT, queue, first_move)
    if achievements[const.COLLECT_DRINK] == 0:
        return _seek(env, entities, const.WATER, queue, first_move)
    if achievements[const.EAT_COW] == 0 and _has_entity(env, entities, const.COW):
        return _seek(env, entities, _ENTITY_TARGET + const.COW, queue, first_move)
    for tool in (0, 3, 1, 4, 2, 5):  # wood, stone, iron: pickaxe, then sword
        if items[const.WOOD_PICKAXE + tool] == 0:
            return _make_tool(env, entities, tool, queue, first_move)
    if achievements[const.PLACED_STONE] == 0:
        if items[const.STONE_ITEM] > 0:
            return _place_item(env, entities, const.PLACE_STONE, queue, first_move)
        return _seek(env, entities, const.STONE, queue, first_move)
    if achievements[const.COLLECT_DIAMOND] == 0 and has_ground(env, const.DIAMOND):
        return _seek(env, entities, const.DIAMOND, queue, first_move)
    for kind in (const.SKELETON, const.ZOMBIE):
        skill = const.DEFEAT_SKELETON if kind == const.SKELETON else const.DEFEAT_ZOMBIE
        if achievements[skill] == 0 and _has_entity(env, entities, kind):
            return _seek(env, entities, _ENTITY_TARGET + kind, queue, first_move)
    if achievements[const.WAKE_UP] == 0 and items[const.ENERGY] < const.MAX_ITEM_COUNT:
        return const.SLEEP
    return _wander(env)


@jit
def _make_tool(env, entities, tool, queue, first_move):
    """Collect the items a tool costs, place a table (and a furnace) if none is nearby, then make the tool."""
    items = env.inventory
    tier = tool % 3  # 0 wood, 1 stone, 2 iron
    table, furnace = _is_nearby(env, entities, const.TABLE), _is_nearby(env, entities, const.FURNACE)
    if items[const.WOOD] < (1 if table else 1 + const.TABLE_WOOD):
        return _seek(env, entities, const.TREE, queue, first_move)
    if tier > 0 and items[const.STONE_ITEM] < (1 if tier == 1 or furnace else STONE_FOR_FURNACE):
        return _seek(env, entities, const.STONE, queue, first_move)
    if tier == 2 and items[const.COAL_ITEM] < 1:
        return _seek(env, entities, const.COAL, queue, first_move)
    if tier == 2 and items[const.IRON_ITEM] < 1:
        return _seek(env, entities, const.IRON, queue, first_move)
    if not table:
        return _place_item(env, entities, const.PLACE_TABLE, queue, first_move)
    if tier == 2 and not furnace:
        return _place_item(env, entities, const.PLACE_FURNACE, queue, first_move)
    return const.FIRST_MAKE + tool


@jit
def _is_nearby(env, entities, material):
    """Whether a material is among the eight cells around the player, as the rules for making tools require."""
    player = entities[0]
    if player.x == 0 or player.y == 0:
        return False
    for x in range(player.x - 1, min(player.x + 2, const.MAP_SIZE)):
        for y in range(player.y - 1, min(player.y + 2, const.MAP_SIZE)):
            if env.ground[x, y] == material:
                return True
    return False


@jit
def _has_entity(env, entities, kind):
    for row in range(1, env.num_entities):
        if entities[row].kind == kind:
            return True
    return False


@jit
def _has_ripe_plant(env, entities):
    for row in range(1, env.num_entities):
        if entities[row].kind == const.PLANT and entities[row].counter > const.RIPE_AFTER:
            return True
    return False


@jit
def _collect_sapling(env, entities, queue, first_move):
    x, y = entities[0].x + _DX[env.facing], entities[0].y + _DY[env.facing]
    if ground_at(env, x, y) == const.GRASS and entity_at(env, x, y) < 0:
        return const.DO
    return _seek(env, entities, const.GRASS, queue, first_move)


@jit
def _place_item(env, entities, action, queue, first_move):
    """Place an item on the cell ahead, or turn to a cell where it can be placed."""
    x, y = entities[0].x + _DX[env.facing], entities[0].y + _DY[env.facing]
    materials = 1 << const.GRASS if action == const.PLACE_PLANT else const.WALKABLE
    if is_free(env, x, y, materials):
        return action
    return _seek(env, entities, const.GRASS, queue, first_move)


@jit
def _wander(env):
    """Move in a direction that changes every few steps."""
    return const.FIRST_MOVE + (env.episode_seed + env.step // 9 * 7919) // 3 % 4


@jit
def _is_target(env, entities, target, x, y):
    row = entity_at(env, x, y)
    if target < _ENTITY_TARGET:
        return ground_at(env, x, y) == target and row < 0
    if row < 0:
        return False
    if target == _RIPE_PLANT:
        return entities[row].kind == const.PLANT and entities[row].counter > const.RIPE_AFTER
    return entities[row].kind == target - _ENTITY_TARGET


@jit
def _seek(env, entities, target, queue, first_move):
    """One action towards the nearest target: walk, dig through stone, bridge water; act on the target when next to it.

    Searches breadth first from the player. `first_move` holds, for each cell reached, the direction of the first move.
    """
    player = entities[0]
    x, y = player.x + _DX[env.facing], player.y + _DY[env.facing]
    if _is_target(env, entities, target, x, y):
        return const.DO
    can_dig, can_bridge = env.inventory[const.WOOD_PICKAXE] > 0, env.inventory[const.STONE_ITEM] > 1
    first_move[:] = -1
    start = np.int64(player.x) * const.MAP_SIZE + player.y
    first_move[start] = 4
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        for d in range(4):
            x, y = cell // const.MAP_SIZE + _DX[d], cell % const.MAP_SIZE + _DY[d]
            if not is_inside(x, y) or first_move[x * const.MAP_SIZE + y] >= 0:
                continue
            direction = d if cell == start else first_move[cell]
            if _is_target(env, entities, target, x, y):
                return _move_or_clear(env, entities, direction)
            ground = ground_at(env, x, y)
            is_passable = (const.WALKABLE >> ground) & 1 == 1
            is_passable |= can_dig and (ground == const.STONE or ground == const.COAL)
            is_passable |= can_bridge and ground == const.WATER
            if is_passable and entity_at(env, x, y) < 0:
                first_move[x * const.MAP_SIZE + y] = direction
                queue[tail] = x * const.MAP_SIZE + y
                tail += 1
    return _wander(env)


@jit
def _move_or_clear(env, entities, direction):
    """Move in a direction; clear stone or bridge water that blocks it."""
    x, y = entities[0].x + _DX[direction], entities[0].y + _DY[direction]
    if env.facing == direction and not is_free(env, x, y, const.WALKABLE):
        return const.PLACE_STONE if ground_at(env, x, y) == const.WATER else const.DO
    return const.FIRST_MOVE + direction
