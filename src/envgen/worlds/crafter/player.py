"""What the player does in one step: its action, its body, and the skills it succeeds at."""

import numpy as np

from ..kernels import mt19937
from ..kernels.jit import jit
from . import tables as t
from .things import add, ground_at, hurt, is_free, lay, move, remove, thing_at

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
def update_player(s, i, action):
    body = s.body[i]
    items = s.inventory[i]
    if body.sleeping:
        if items[t.ENERGY] < t.MOST:
            action = t.SLEEP
        else:
            body.sleeping = 0
            s.achievements[i, t.WAKE_UP] += 1
    if t.MOVE <= action < t.MOVE + 4:
        body.facing = action - t.MOVE
        _walk(s, i)
    elif action == t.SLEEP:
        if items[t.ENERGY] < t.MOST:
            body.sleeping = 1
    elif action != t.NOOP:
        me = s.things[i, 0]
        x, y = me.x + _DIRECTIONS[body.facing, 0], me.y + _DIRECTIONS[body.facing, 1]
        if action == t.DO:
            row = thing_at(s, i, x, y)
            if row >= 0:
                _strike(s, i, row)
            else:
                _collect(s, i, x, y)
        elif action < t.MAKE:
            _place(s, i, action, x, y)
        else:
            _make(s, i, action - t.MAKE)
    _grow_hungry(body, items)
    _heal(body, items)
    for k in range(items.size):
        items[k] = max(0, min(items[k], t.MOST))
    if items[t.HEALTH] < body.felt_health:
        body.sleeping = 0
    body.felt_health = items[t.HEALTH]


@jit
def _walk(s, i):
    direction = (_DIRECTIONS[s.body[i].facing, 0], _DIRECTIONS[s.body[i].facing, 1])
    move(s, i, 0, direction, t.PLAYER_WALKABLE)
    me = s.things[i, 0]
    if ground_at(s, i, me.x, me.y) == t.LAVA:
        s.inventory[i, t.HEALTH] = 0


@jit
def _strike(s, i, row):
    items = s.inventory[i]
    thing = s.things[i, row]
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
            s.achievements[i, t.EAT_PLANT] += 1
    elif thing.kind == t.ZOMBIE:
        hurt(s, i, row, damage)
        if thing.health <= 0:
            s.achievements[i, t.DEFEAT_ZOMBIE] += 1
    elif thing.kind == t.SKELETON:
        hurt(s, i, row, damage)
        if thing.health <= 0:
            s.achievements[i, t.DEFEAT_SKELETON] += 1
    elif thing.kind == t.COW:
        hurt(s, i, row, damage)
        if thing.health <= 0:
            items[t.FOOD] += t.COW_FOOD
            s.achievements[i, t.EAT_COW] += 1
            s.body[i].hunger = 0


@jit
def _collect(s, i, x, y):
    material = ground_at(s, i, x, y)
    if material == t.WATER:
        s.body[i].thirst = 0
    item, tool, left, skill = _COLLECT[material]
    if item < 0 or (tool >= 0 and s.inventory[i, tool] < 1):
        return
    if left != material:
        lay(s, i, x, y, left)
    # The original draws for every material, also where success is certain.
    if mt19937.uniform(s.mt[i]) <= (t.SAPLING_CHANCE if material == t.GRASS else 1.0):
        s.inventory[i, item] += 1
        s.achievements[i, skill] += 1


@jit
def _pay(s, i, item, amount):
    """Take `amount` of an item if there is as much."""
    if s.inventory[i, item] < amount:
        return False
    s.inventory[i, item] -= amount
    return True


@jit
def _place(s, i, action, x, y):
    if thing_at(s, i, x, y) >= 0:
        return
    material = ground_at(s, i, x, y)
    on_land = (t.WALKABLE >> material) & 1 == 1
    if action == t.PLACE_STONE:
        if (on_land or material == t.WATER or material == t.LAVA) and _pay(s, i, t.STONES, 1):
            lay(s, i, x, y, t.STONE)
            s.achievements[i, t.PLACED_STONE] += 1
    elif action == t.PLACE_TABLE:
        if on_land and _pay(s, i, t.WOOD, t.TABLE_WOOD):
            lay(s, i, x, y, t.TABLE)
            s.achievements[i, t.PLACED_TABLE] += 1
    elif action == t.PLACE_FURNACE:
        if on_land and _pay(s, i, t.STONES, t.FURNACE_STONE):
            lay(s, i, x, y, t.FURNACE)
            s.achievements[i, t.PLACED_FURNACE] += 1
    elif material == t.GRASS and _pay(s, i, t.SAPLING, 1):
        add(s, i, t.PLANT, x, y, t.PLANT_HEALTH)
        s.achievements[i, t.PLACED_PLANT] += 1


@jit
def _make(s, i, tool):
    me = s.things[i, 0]
    table = furnace = False
    # The original slices [x - 1, x + 2) and a start of -1 makes the slice empty: nothing is near the left or top edge.
    if me.x > 0 and me.y > 0:
        for x in range(me.x - 1, min(me.x + 2, t.SIDE)):
            for y in range(me.y - 1, min(me.y + 2, t.SIDE)):
                table |= s.ground[i, x, y] == t.TABLE
                furnace |= s.ground[i, x, y] == t.FURNACE
    if not table or (_FURNACE_TOO[tool] and not furnace):
        return
    items = s.inventory[i]
    for k in range(items.size):
        if items[k] < _COST[tool, k]:
            return
    for k in range(items.size):
        items[k] -= _COST[tool, k]
    items[t.WOOD_PICKAXE + tool] += 1
    s.achievements[i, _MAKE_SKILL[tool]] += 1


@jit
def _grow_hungry(body, items):
    """Hunger, thirst and fatigue; half steps, so that sleeping counts 1 and waking 2."""
    pace = 1 if body.sleeping else 2
    body.hunger += pace
    if body.hunger > 2 * 25:
        body.hunger = 0
        items[t.FOOD] -= 1
    body.thirst += pace
    if body.thirst > 2 * 20:
        body.thirst = 0
        items[t.DRINK] -= 1
    if body.sleeping:
        body.fatigue = min(body.fatigue - 1, 0)
    else:
        body.fatigue += 1
    if body.fatigue < -10:
        body.fatigue = 0
        items[t.ENERGY] += 1
    if body.fatigue > 30:
        body.fatigue = 0
        items[t.ENERGY] -= 1


@jit
def _heal(body, items):
    if items[t.FOOD] > 0 and items[t.DRINK] > 0 and (items[t.ENERGY] > 0 or body.sleeping):
        body.recover += 4 if body.sleeping else 2
    else:
        body.recover -= 1 if body.sleeping else 2
    if body.recover > 2 * 25:
        body.recover = 0
        items[t.HEALTH] += 1
    if body.recover < -2 * 15:
        body.recover = 0
        items[t.HEALTH] = max(0, items[t.HEALTH] - 1)
