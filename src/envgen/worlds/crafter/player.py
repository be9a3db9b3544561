"""What the player does in one step: its action, its body, and the skills it succeeds at."""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .entities import add_entity, damage_entity, entity_at, ground_at, move_entity, set_ground

_ITEM = {name: number for number, name in enumerate(const.ITEMS)}
_SKILL = {skill.name: number for number, skill in enumerate(const.SKILLS)}
_DIRECTIONS = np.array(const.DIRECTION_OFFSETS, np.int64)  # (4, 2)

# What "do" gives by material: the item, the tool it takes (or -1), what is left, the skill.
_COLLECT = np.full((len(const.MATERIALS), 4), -1, np.int64)
for _material, _item, _tool, _left in (
    (const.TREE, "wood", None, const.GRASS),
    (const.STONE, "stone", "wood_pickaxe", const.PATH),
    (const.COAL, "coal", "wood_pickaxe", const.PATH),
    (const.IRON, "iron", "stone_pickaxe", const.PATH),
    (const.DIAMOND, "diamond", "iron_pickaxe", const.PATH),
    (const.WATER, "drink", None, const.WATER),
    (const.GRASS, "sapling", None, const.GRASS),
):
    _COLLECT[_material] = _ITEM[_item], _ITEM.get(_tool, -1) if _tool else -1, _left, _SKILL[f"collect_{_item}"]

# What each tool takes, by item, whether it needs a furnace, and its skill.
_COST = np.zeros((len(const.TOOLS), len(const.ITEMS)), np.int64)
_FURNACE_TOO = np.zeros(len(const.TOOLS), np.bool_)
_MAKE_SKILL = np.zeros(len(const.TOOLS), np.int64)
for _k, _tool in enumerate(const.TOOLS):
    for _item, _amount in const.RECIPES[_tool].items():
        _COST[_k, _ITEM[_item]] = _amount
    _FURNACE_TOO[_k] = _tool in const.NEEDS_FURNACE
    _MAKE_SKILL[_k] = _SKILL[f"make_{_tool}"]


@jit
def update_player(env, entities, action):
    items = env.inventory
    if env.sleeping:
        if items[const.ENERGY] < const.MAX_ITEM_COUNT:
            action = const.SLEEP
        else:
            env.sleeping = 0
            env.achievements[const.WAKE_UP] += 1
    if const.FIRST_MOVE <= action < const.FIRST_MOVE + 4:
        env.facing = action - const.FIRST_MOVE
        _walk(env, entities)
    elif action == const.SLEEP:
        if items[const.ENERGY] < const.MAX_ITEM_COUNT:
            env.sleeping = 1
    elif action != const.NOOP:
        player = entities[0]
        x, y = player.x + _DIRECTIONS[env.facing, 0], player.y + _DIRECTIONS[env.facing, 1]
        if action == const.DO:
            row = entity_at(env, x, y)
            if row >= 0:
                _strike(env, entities, row)
            else:
                _collect(env, x, y)
        elif action < const.FIRST_MAKE:
            _place(env, entities, action, x, y)
        else:
            _make(env, entities, action - const.FIRST_MAKE)
    _grow_hungry(env)
    _heal(env)
    for k in range(items.size):
        items[k] = max(0, min(items[k], const.MAX_ITEM_COUNT))
    if items[const.HEALTH] < env.prev_health:
        env.sleeping = 0
    env.prev_health = items[const.HEALTH]


@jit
def _walk(env, entities):
    direction = (_DIRECTIONS[env.facing, 0], _DIRECTIONS[env.facing, 1])
    move_entity(env, entities, 0, direction, const.PLAYER_WALKABLE)
    player = entities[0]
    if ground_at(env, player.x, player.y) == const.LAVA:
        env.inventory[const.HEALTH] = 0


@jit
def _strike(env, entities, row):
    items = env.inventory
    entity = entities[row]
    damage = 1
    if items[const.WOOD_SWORD]:
        damage = 2
    if items[const.STONE_SWORD]:
        damage = 3
    if items[const.IRON_SWORD]:
        damage = 5
    if entity.kind == const.PLANT:
        if entity.counter > const.RIPE_AFTER:
            entity.counter = 0
            items[const.FOOD] += const.PLANT_FOOD
            env.achievements[const.EAT_PLANT] += 1
    elif entity.kind == const.ZOMBIE:
        damage_entity(env, entities, row, damage)
        if entity.health <= 0:
            env.achievements[const.DEFEAT_ZOMBIE] += 1
    elif entity.kind == const.SKELETON:
        damage_entity(env, entities, row, damage)
        if entity.health <= 0:
            env.achievements[const.DEFEAT_SKELETON] += 1
    elif entity.kind == const.COW:
        damage_entity(env, entities, row, damage)
        if entity.health <= 0:
            items[const.FOOD] += const.COW_FOOD
            env.achievements[const.EAT_COW] += 1
            env.hunger = 0


@jit
def _collect(env, x, y):
    material = ground_at(env, x, y)
    if material == const.WATER:
        env.thirst = 0
    item, tool, left, skill = _COLLECT[material]
    if item < 0 or (tool >= 0 and env.inventory[tool] < 1):
        return
    if left != material:
        set_ground(env, x, y, left)
    # The original draws for every material, also where success is certain.
    if mt19937.uniform(env.rng) <= (const.SAPLING_CHANCE if material == const.GRASS else 1.0):
        env.inventory[item] += 1
        env.achievements[skill] += 1


@jit
def _pay(env, item, amount):
    """Take `amount` of an item if there is as much."""
    if env.inventory[item] < amount:
        return False
    env.inventory[item] -= amount
    return True


@jit
def _place(env, entities, action, x, y):
    if entity_at(env, x, y) >= 0:
        return
    material = ground_at(env, x, y)
    on_land = (const.WALKABLE >> material) & 1 == 1
    if action == const.PLACE_STONE:
        if (on_land or material == const.WATER or material == const.LAVA) and _pay(env, const.STONE_ITEM, 1):
            set_ground(env, x, y, const.STONE)
            env.achievements[const.PLACED_STONE] += 1
    elif action == const.PLACE_TABLE:
        if on_land and _pay(env, const.WOOD, const.TABLE_WOOD):
            set_ground(env, x, y, const.TABLE)
            env.achievements[const.PLACED_TABLE] += 1
    elif action == const.PLACE_FURNACE:
        if on_land and _pay(env, const.STONE_ITEM, const.FURNACE_STONE):
            set_ground(env, x, y, const.FURNACE)
            env.achievements[const.PLACED_FURNACE] += 1
    elif material == const.GRASS and _pay(env, const.SAPLING, 1):
        add_entity(env, entities, const.PLANT, x, y, const.PLANT_HEALTH)
        env.achievements[const.PLACED_PLANT] += 1


@jit
def _make(env, entities, tool):
    player = entities[0]
    table = furnace = False
    # The original slices [x - 1, x + 2) and a start of -1 makes the slice empty: nothing is near the left or top edge.
    if player.x > 0 and player.y > 0:
        for x in range(player.x - 1, min(player.x + 2, const.MAP_SIZE)):
            for y in range(player.y - 1, min(player.y + 2, const.MAP_SIZE)):
                table |= env.ground[x, y] == const.TABLE
                furnace |= env.ground[x, y] == const.FURNACE
    if not table or (_FURNACE_TOO[tool] and not furnace):
        return
    items = env.inventory
    for k in range(items.size):
        if items[k] < _COST[tool, k]:
            return
    for k in range(items.size):
        items[k] -= _COST[tool, k]
    items[const.WOOD_PICKAXE + tool] += 1
    env.achievements[_MAKE_SKILL[tool]] += 1


@jit
def _grow_hungry(env):
    """Hunger, thirst and fatigue; half steps, so that sleeping counts 1 and waking 2."""
    items = env.inventory
    pace = 1 if env.sleeping else 2
    env.hunger += pace
    if env.hunger > 2 * 25:
        env.hunger = 0
        items[const.FOOD] -= 1
    env.thirst += pace
    if env.thirst > 2 * 20:
        env.thirst = 0
        items[const.DRINK] -= 1
    if env.sleeping:
        env.fatigue = min(env.fatigue - 1, 0)
    else:
        env.fatigue += 1
    if env.fatigue < -10:
        env.fatigue = 0
        items[const.ENERGY] += 1
    if env.fatigue > 30:
        env.fatigue = 0
        items[const.ENERGY] -= 1


@jit
def _heal(env):
    items = env.inventory
    if items[const.FOOD] > 0 and items[const.DRINK] > 0 and (items[const.ENERGY] > 0 or env.sleeping):
        env.recover += 4 if env.sleeping else 2
    else:
        env.recover -= 1 if env.sleeping else 2
    if env.recover > 2 * 25:
        env.recover = 0
        items[const.HEALTH] += 1
    if env.recover < -2 * 15:
        env.recover = 0
        items[const.HEALTH] = max(0, items[const.HEALTH] - 1)
