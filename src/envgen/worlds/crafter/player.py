"""What the player does in one step: its action, its body, and the skills it succeeds at."""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as t
from .entities import add, ground_at, hurt, lay, move, thing_at

_ITEM = {name: number for number, name in enumerate(t.ITEMS)}
_SKILL = {skill.name: number for number, skill in enumerate(t.SKILLS)}
_DIRECTIONS = np.array(t.STEPS, np.int64)  # (4, 2)

# What "do" gives by material: the item, the tool it takes (or -1), what is left, the skill.
_COLLECT = np.full((len(t.MATERIALS), 4), -1, np.int64)
for _material, _item, _tool, _left in (
    (t.TREE, "wood", None, t.GRASS),
    (t.STONE, "stone", "wood_pickaxe", t.PATH),
    (t.COAL, "coal", "wood_pickaxe", t.PATH),
    (t.IRON, "iron", "stone_pickaxe", t.PATH),
    (t.DIAMOND, "diamond", "iron_pickaxe", t.PATH),
    (t.WATER, "drink", None, t.WATER),
    (t.GRASS, "sapling", None, t.GRASS),
):
    _COLLECT[_material] = _ITEM[_item], _ITEM.get(_tool, -1) if _tool else -1, _left, _SKILL[f"collect_{_item}"]

# What each tool takes, by item, whether it needs a furnace, and its skill.
_COST = np.zeros((len(t.TOOLS), len(t.ITEMS)), np.int64)
_FURNACE_TOO = np.zeros(len(t.TOOLS), np.bool_)
_MAKE_SKILL = np.zeros(len(t.TOOLS), np.int64)
for _k, _tool in enumerate(t.TOOLS):
    for _item, _amount in t.RECIPES[_tool].items():
        _COST[_k, _ITEM[_item]] = _amount
    _FURNACE_TOO[_k] = _tool in t.NEEDS_FURNACE
    _MAKE_SKILL[_k] = _SKILL[f"make_{_tool}"]


@jit
def update_player(e, things, action):
    items = e.inventory
    if e.sleeping:
        if items[t.ENERGY] < t.MOST:
            action = t.SLEEP
        else:
            e.sleeping = 0
            e.achievements[t.WAKE_UP] += 1
    if t.MOVE <= action < t.MOVE + 4:
        e.facing = action - t.MOVE
        _walk(e, things)
    elif action == t.SLEEP:
        if items[t.ENERGY] < t.MOST:
            e.sleeping = 1
    elif action != t.NOOP:
        me = things[0]
        x, y = me.x + _DIRECTIONS[e.facing, 0], me.y + _DIRECTIONS[e.facing, 1]
        if action == t.DO:
            row = thing_at(e, x, y)
            if row >= 0:
                _strike(e, things, row)
            else:
                _collect(e, x, y)
        elif action < t.MAKE:
            _place(e, things, action, x, y)
        else:
            _make(e, things, action - t.MAKE)
    _grow_hungry(e)
    _heal(e)
    for k in range(items.size):
        items[k] = max(0, min(items[k], t.MOST))
    if items[t.HEALTH] < e.felt_health:
        e.sleeping = 0
    e.felt_health = items[t.HEALTH]


@jit
def _walk(e, things):
    direction = (_DIRECTIONS[e.facing, 0], _DIRECTIONS[e.facing, 1])
    move(e, things, 0, direction, t.PLAYER_WALKABLE)
    me = things[0]
    if ground_at(e, me.x, me.y) == t.LAVA:
        e.inventory[t.HEALTH] = 0


@jit
def _strike(e, things, row):
    items = e.inventory
    thing = things[row]
    damage = 1
    if items[t.WOOD_SWORD]:
        damage = 2
    if items[t.STONE_SWORD]:
        damage = 3
    if items[t.IRON_SWORD]:
        damage = 5
    if thing.kind == t.PLANT:
        if thing.clock > t.RIPE:
            thing.clock = 0
            items[t.FOOD] += t.PLANT_FOOD
            e.achievements[t.EAT_PLANT] += 1
    elif thing.kind == t.ZOMBIE:
        hurt(e, things, row, damage)
        if thing.health <= 0:
            e.achievements[t.DEFEAT_ZOMBIE] += 1
    elif thing.kind == t.SKELETON:
        hurt(e, things, row, damage)
        if thing.health <= 0:
            e.achievements[t.DEFEAT_SKELETON] += 1
    elif thing.kind == t.COW:
        hurt(e, things, row, damage)
        if thing.health <= 0:
            items[t.FOOD] += t.COW_FOOD
            e.achievements[t.EAT_COW] += 1
            e.hunger = 0


@jit
def _collect(e, x, y):
    material = ground_at(e, x, y)
    if material == t.WATER:
        e.thirst = 0
    item, tool, left, skill = _COLLECT[material]
    if item < 0 or (tool >= 0 and e.inventory[tool] < 1):
        return
    if left != material:
        lay(e, x, y, left)
    # The original draws for every material, also where success is certain.
    if mt19937.uniform(e.mt) <= (t.SAPLING_CHANCE if material == t.GRASS else 1.0):
        e.inventory[item] += 1
        e.achievements[skill] += 1


@jit
def _pay(e, item, amount):
    """Take `amount` of an item if there is as much."""
    if e.inventory[item] < amount:
        return False
    e.inventory[item] -= amount
    return True


@jit
def _place(e, things, action, x, y):
    if thing_at(e, x, y) >= 0:
        return
    material = ground_at(e, x, y)
    on_land = (t.WALKABLE >> material) & 1 == 1
    if action == t.PLACE_STONE:
        if (on_land or material == t.WATER or material == t.LAVA) and _pay(e, t.STONES, 1):
            lay(e, x, y, t.STONE)
            e.achievements[t.PLACED_STONE] += 1
    elif action == t.PLACE_TABLE:
        if on_land and _pay(e, t.WOOD, t.TABLE_WOOD):
            lay(e, x, y, t.TABLE)
            e.achievements[t.PLACED_TABLE] += 1
    elif action == t.PLACE_FURNACE:
        if on_land and _pay(e, t.STONES, t.FURNACE_STONE):
            lay(e, x, y, t.FURNACE)
            e.achievements[t.PLACED_FURNACE] += 1
    elif material == t.GRASS and _pay(e, t.SAPLING, 1):
        add(e, things, t.PLANT, x, y, t.PLANT_HEALTH)
        e.achievements[t.PLACED_PLANT] += 1


@jit
def _make(e, things, tool):
    me = things[0]
    table = furnace = False
    # The original slices [x - 1, x + 2) and a start of -1 makes the slice empty: nothing is near the left or top edge.
    if me.x > 0 and me.y > 0:
        for x in range(me.x - 1, min(me.x + 2, t.SIDE)):
            for y in range(me.y - 1, min(me.y + 2, t.SIDE)):
                table |= e.ground[x, y] == t.TABLE
                furnace |= e.ground[x, y] == t.FURNACE
    if not table or (_FURNACE_TOO[tool] and not furnace):
        return
    items = e.inventory
    for k in range(items.size):
        if items[k] < _COST[tool, k]:
            return
    for k in range(items.size):
        items[k] -= _COST[tool, k]
    items[t.WOOD_PICKAXE + tool] += 1
    e.achievements[_MAKE_SKILL[tool]] += 1


@jit
def _grow_hungry(e):
    """Hunger, thirst and fatigue; half steps, so that sleeping counts 1 and waking 2."""
    items = e.inventory
    pace = 1 if e.sleeping else 2
    e.hunger += pace
    if e.hunger > 2 * 25:
        e.hunger = 0
        items[t.FOOD] -= 1
    e.thirst += pace
    if e.thirst > 2 * 20:
        e.thirst = 0
        items[t.DRINK] -= 1
    if e.sleeping:
        e.fatigue = min(e.fatigue - 1, 0)
    else:
        e.fatigue += 1
    if e.fatigue < -10:
        e.fatigue = 0
        items[t.ENERGY] += 1
    if e.fatigue > 30:
        e.fatigue = 0
        items[t.ENERGY] -= 1


@jit
def _heal(e):
    items = e.inventory
    if items[t.FOOD] > 0 and items[t.DRINK] > 0 and (items[t.ENERGY] > 0 or e.sleeping):
        e.recover += 4 if e.sleeping else 2
    else:
        e.recover -= 1 if e.sleeping else 2
    if e.recover > 2 * 25:
        e.recover = 0
        items[t.HEALTH] += 1
    if e.recover < -2 * 15:
        e.recover = 0
        items[t.HEALTH] = max(0, items[t.HEALTH] - 1)
