"""The player's update: its action, its vital levels, and the skills it succeeds at."""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .entities import add_entity, damage_entity, entity_at, ground_at, move_entity, set_ground

_ITEM_IDS = {name: item for item, name in enumerate(const.ITEMS)}
_SKILL_IDS = {skill.name: k for k, skill in enumerate(const.SKILLS)}
_OFFSETS = np.array(const.DIRECTION_OFFSETS, np.int64)  # (4, 2)

# What the action "do" collects from each material: the item, the tool it needs (or -1), the material that remains, and
# the skill.
_COLLECT = np.full((len(const.MATERIALS), 4), -1, np.int64)
for _material, _item, _tool, _remaining in (
    (const.TREE, "wood", None, const.GRASS),
    (const.STONE, "stone", "wood_pickaxe", const.PATH),
    (const.COAL, "coal", "wood_pickaxe", const.PATH),
    (const.IRON, "iron", "stone_pickaxe", const.PATH),
    (const.DIAMOND, "diamond", "iron_pickaxe", const.PATH),
    (const.WATER, "drink", None, const.WATER),
    (const.GRASS, "sapling", None, const.GRASS),
):
    _tool_id = _ITEM_IDS[_tool] if _tool else -1
    _COLLECT[_material] = _ITEM_IDS[_item], _tool_id, _remaining, _SKILL_IDS[f"collect_{_item}"]

# For each tool: its cost by item, whether it needs a furnace, and its skill.
_COST = np.zeros((len(const.TOOLS), len(const.ITEMS)), np.int64)
_NEEDS_FURNACE = np.zeros(len(const.TOOLS), np.bool_)
_MAKE_SKILL = np.zeros(len(const.TOOLS), np.int64)
for _k, _tool in enumerate(const.TOOLS):
    for _item, _count in const.RECIPES[_tool].items():
        _COST[_k, _ITEM_IDS[_item]] = _count
    _NEEDS_FURNACE[_k] = _tool in const.NEEDS_FURNACE
    _MAKE_SKILL[_k] = _SKILL_IDS[f"make_{_tool}"]


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
        x, y = player.x + _OFFSETS[env.facing, 0], player.y + _OFFSETS[env.facing, 1]
        if action == const.DO:
            row = entity_at(env, x, y)
            if row >= 0:
                _attack(env, entities, row)
            else:
                _collect_material(env, x, y)
        elif action < const.FIRST_MAKE:
            _place_item(env, entities, action, x, y)
        else:
            _make_tool(env, entities, action - const.FIRST_MAKE)
    _update_needs(env)
    _update_health(env)
    for k in range(items.size):
        items[k] = max(0, min(items[k], const.MAX_ITEM_COUNT))
    if items[const.HEALTH] < env.prev_health:
        env.sleeping = 0
    env.prev_health = items[const.HEALTH]


@jit
def _walk(env, entities):
    direction = (_OFFSETS[env.facing, 0], _OFFSETS[env.facing, 1])
    move_entity(env, entities, 0, direction, const.PLAYER_WALKABLE)
    player = entities[0]
    if ground_at(env, player.x, player.y) == const.LAVA:
        env.inventory[const.HEALTH] = 0


@jit
def _attack(env, entities, row):
    items = env.inventory
    target = entities[row]
    damage = 1
    if items[const.WOOD_SWORD]:
        damage = 2
    if items[const.STONE_SWORD]:
        damage = 3
    if items[const.IRON_SWORD]:
        damage = 5
    if target.kind == const.PLANT:
        if target.counter > const.RIPE_AFTER:
            target.counter = 0
            items[const.FOOD] += const.PLANT_FOOD
            env.achievements[const.EAT_PLANT] += 1
    elif target.kind == const.ZOMBIE:
        damage_entity(env, entities, row, damage)
        if target.health <= 0:
            env.achievements[const.DEFEAT_ZOMBIE] += 1
    elif target.kind == const.SKELETON:
        damage_entity(env, entities, row, damage)
        if target.health <= 0:
            env.achievements[const.DEFEAT_SKELETON] += 1
    elif target.kind == const.COW:
        damage_entity(env, entities, row, damage)
        if target.health <= 0:
            items[const.FOOD] += const.COW_FOOD
            env.achievements[const.EAT_COW] += 1
            env.hunger = 0


@jit
def _collect_material(env, x, y):
    material = ground_at(env, x, y)
    if material == const.WATER:
        env.thirst = 0
    item, tool, remaining, skill = _COLLECT[material]
    if item < 0 or (tool >= 0 and env.inventory[tool] < 1):
        return
    if remaining != material:
        set_ground(env, x, y, remaining)
    # The reference draws a number for every material, even where success is certain.
    if mt19937.uniform(env.rng) <= (const.SAPLING_CHANCE if material == const.GRASS else 1.0):
        env.inventory[item] += 1
        env.achievements[skill] += 1


@jit
def _spend(env, item, count):
    """Remove `count` of an item from the inventory. Returns False, and removes none, if there are fewer."""
    if env.inventory[item] < count:
        return False
    env.inventory[item] -= count
    return True


@jit
def _place_item(env, entities, action, x, y):
    if entity_at(env, x, y) >= 0:
        return
    material = ground_at(env, x, y)
    on_land = (const.WALKABLE >> material) & 1 == 1
    if action == const.PLACE_STONE:
        if (on_land or material == const.WATER or material == const.LAVA) and _spend(env, const.STONE_ITEM, 1):
            set_ground(env, x, y, const.STONE)
            env.achievements[const.PLACED_STONE] += 1
    elif action == const.PLACE_TABLE:
        if on_land and _spend(env, const.WOOD, const.TABLE_WOOD):
            set_ground(env, x, y, const.TABLE)
            env.achievements[const.PLACED_TABLE] += 1
    elif action == const.PLACE_FURNACE:
        if on_land and _spend(env, const.STONE_ITEM, const.FURNACE_STONE):
            set_ground(env, x, y, const.FURNACE)
            env.achievements[const.PLACED_FURNACE] += 1
    elif material == const.GRASS and _spend(env, const.SAPLING, 1):
        add_entity(env, entities, const.PLANT, x, y, const.PLANT_HEALTH)
        env.achievements[const.PLACED_PLANT] += 1


@jit
def _make_tool(env, entities, tool):
    player = entities[0]
    table = furnace = False
    # The reference slices [x - 1, x + 2), and a start of -1 makes the slice empty: at the left and top edges of the map
    # nothing is nearby.
    if player.x > 0 and player.y > 0:
        for x in range(player.x - 1, min(player.x + 2, const.MAP_SIZE)):
            for y in range(player.y - 1, min(player.y + 2, const.MAP_SIZE)):
                table |= env.ground[x, y] == const.TABLE
                furnace |= env.ground[x, y] == const.FURNACE
    if not table or (_NEEDS_FURNACE[tool] and not furnace):
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
def _update_needs(env):
    """Update hunger, thirst and fatigue. Hunger and thirst count in half steps: 1 per step asleep, 2 per step awake."""
    items = env.inventory
    half_steps = 1 if env.sleeping else 2
    env.hunger += half_steps
    if env.hunger > 2 * 25:
        env.hunger = 0
        items[const.FOOD] -= 1
    env.thirst += half_steps
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
def _update_health(env):
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
