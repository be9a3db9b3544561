"""A scripted player that sees the whole map and works through Crafter's skills, easiest first.

It is a yardstick and a test driver, not a learner: it shows that a level's skills can be reached, and it takes the
engine to places where random actions never get. It keeps no memory: what it does follows from the state alone.
"""

import numpy as np

from envgen.jit import jit

from . import constants as t
from .engine import Engine
from .entities import ground_at, has_ground, inside, is_free, thing_at

_DX = np.array([dx for dx, _ in t.STEPS])
_DY = np.array([dy for _, dy in t.STEPS])
_CELLS = t.SIDE * t.SIDE
_THING = 100  # targets from here on are kinds of things, below are materials
_RIPE_PLANT = _THING + len(t.THINGS)
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
        actions[i] = _act(s.envs[i], s.things[i], queue, origin)


@jit
def _act(e, things, queue, origin):
    if e.sleeping:
        return t.NOOP
    items = e.inventory
    for d in range(4):  # whoever stands beside us and bites
        row = thing_at(e, things[0].x + _DX[d], things[0].y + _DY[d])
        if row >= 0 and (things[row].kind == t.ZOMBIE or things[row].kind == t.SKELETON):
            return t.DO if e.facing == d else t.MOVE + d
    if items[t.ENERGY] < 3:
        return t.SLEEP
    if items[t.DRINK] < 4:
        return _seek(e, things, t.WATER, queue, origin)
    if items[t.FOOD] < 4:
        return _seek(e, things, _THING + t.COW, queue, origin)
    return _progress(e, things, queue, origin)


@jit
def _progress(e, things, queue, origin):
    """The next thing to do for the first skill that is still missing."""
    items, done = e.inventory, e.achievements
    if _has_ripe(e, things):
        return _seek(e, things, _RIPE_PLANT, queue, origin)
    if done[t.COLLECT_SAPLING] == 0 or (
        done[t.EAT_PLANT] == 0 and items[t.SAPLING] == 0 and not _has_kind(e, things, t.PLANT)
    ):
        return _dig_sapling(e, things, queue, origin)
    if items[t.SAPLING] > 0 and (done[t.PLACED_PLANT] == 0 or not _has_kind(e, things, t.PLANT)):
        return _put(e, things, t.PLACE_PLANT, queue, origin)
    if done[t.COLLECT_DRINK] == 0:
        return _seek(e, things, t.WATER, queue, origin)
    if done[t.EAT_COW] == 0 and _has_kind(e, things, t.COW):
        return _seek(e, things, _THING + t.COW, queue, origin)
    for tool in (0, 3, 1, 4, 2, 5):  # wood, stone, iron: pickaxe, then sword
        if items[t.WOOD_PICKAXE + tool] == 0:
            return _tool(e, things, tool, queue, origin)
    if done[t.PLACED_STONE] == 0:
        if items[t.STONES] > 0:
            return _put(e, things, t.PLACE_STONE, queue, origin)
        return _seek(e, things, t.STONE, queue, origin)
    if done[t.COLLECT_DIAMOND] == 0 and has_ground(e, t.DIAMOND):
        return _seek(e, things, t.DIAMOND, queue, origin)
    for kind in (t.SKELETON, t.ZOMBIE):
        skill = t.DEFEAT_SKELETON if kind == t.SKELETON else t.DEFEAT_ZOMBIE
        if done[skill] == 0 and _has_kind(e, things, kind):
            return _seek(e, things, _THING + kind, queue, origin)
    if done[t.WAKE_UP] == 0 and items[t.ENERGY] < t.MOST:
        return t.SLEEP
    return _wander(e)


@jit
def _tool(e, things, tool, queue, origin):
    """Gather what a tool takes, then make it beside a table (and a furnace), placing them first."""
    items = e.inventory
    level = tool % 3  # 0 wood, 1 stone, 2 iron
    table, furnace = _beside(e, things, t.TABLE), _beside(e, things, t.FURNACE)
    if items[t.WOOD] < (1 if table else 1 + t.TABLE_WOOD):
        return _seek(e, things, t.TREE, queue, origin)
    if level > 0 and items[t.STONES] < (1 if level == 1 or furnace else SPARE_STONE):
        return _seek(e, things, t.STONE, queue, origin)
    if level == 2 and items[t.COALS] < 1:
        return _seek(e, things, t.COAL, queue, origin)
    if level == 2 and items[t.IRONS] < 1:
        return _seek(e, things, t.IRON, queue, origin)
    if not table:
        return _put(e, things, t.PLACE_TABLE, queue, origin)
    if level == 2 and not furnace:
        return _put(e, things, t.PLACE_FURNACE, queue, origin)
    return t.MAKE + tool


@jit
def _beside(e, things, material):
    """Is a material within the eight cells around, as the rules for making tools ask?"""
    me = things[0]
    if me.x == 0 or me.y == 0:
        return False
    for x in range(me.x - 1, min(me.x + 2, t.SIDE)):
        for y in range(me.y - 1, min(me.y + 2, t.SIDE)):
            if e.ground[x, y] == material:
                return True
    return False


@jit
def _has_kind(e, things, kind):
    for row in range(1, e.count):
        if things[row].kind == kind:
            return True
    return False


@jit
def _has_ripe(e, things):
    for row in range(1, e.count):
        if things[row].kind == t.PLANT and things[row].clock > t.RIPE:
            return True
    return False


@jit
def _dig_sapling(e, things, queue, origin):
    x, y = things[0].x + _DX[e.facing], things[0].y + _DY[e.facing]
    if ground_at(e, x, y) == t.GRASS and thing_at(e, x, y) < 0:
        return t.DO
    return _seek(e, things, t.GRASS, queue, origin)


@jit
def _put(e, things, action, queue, origin):
    """Place something on the cell ahead, or turn to where it can be placed."""
    x, y = things[0].x + _DX[e.facing], things[0].y + _DY[e.facing]
    ground = 1 << t.GRASS if action == t.PLACE_PLANT else t.WALKABLE
    if is_free(e, x, y, ground):
        return action
    return _seek(e, things, t.GRASS, queue, origin)


@jit
def _wander(e):
    """A heading that changes every few steps."""
    return t.MOVE + (e.world_seed + e.step // 9 * 7919) // 3 % 4


@jit
def _is_target(e, things, target, x, y):
    row = thing_at(e, x, y)
    if target < _THING:
        return ground_at(e, x, y) == target and row < 0
    if row < 0:
        return False
    if target == _RIPE_PLANT:
        return things[row].kind == t.PLANT and things[row].clock > t.RIPE
    return things[row].kind == target - _THING


@jit
def _seek(e, things, target, queue, origin):
    """One action towards the nearest target: walk, dig through stone, bridge water; and act on it when beside it.

    Breadth first from the player; `origin` remembers by which direction from the player a cell was reached.
    """
    me = things[0]
    x, y = me.x + _DX[e.facing], me.y + _DY[e.facing]
    if _is_target(e, things, target, x, y):
        return t.DO
    dig, bridge = e.inventory[t.WOOD_PICKAXE] > 0, e.inventory[t.STONES] > 1
    origin[:] = -1
    start = np.int64(me.x) * t.SIDE + me.y
    origin[start] = 4
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        for d in range(4):
            x, y = cell // t.SIDE + _DX[d], cell % t.SIDE + _DY[d]
            if not inside(x, y) or origin[x * t.SIDE + y] >= 0:
                continue
            way = d if cell == start else origin[cell]
            if _is_target(e, things, target, x, y):
                return _go(e, things, way)
            ground = ground_at(e, x, y)
            passable = (t.WALKABLE >> ground) & 1 == 1
            passable |= dig and (ground == t.STONE or ground == t.COAL)
            passable |= bridge and ground == t.WATER
            if passable and thing_at(e, x, y) < 0:
                origin[x * t.SIDE + y] = way
                queue[tail] = x * t.SIDE + y
                tail += 1
    return _wander(e)


@jit
def _go(e, things, way):
    """Move one way; clear stone or bridge water that is in it."""
    x, y = things[0].x + _DX[way], things[0].y + _DY[way]
    if e.facing == way and not is_free(e, x, y, t.WALKABLE):
        return t.PLACE_STONE if ground_at(e, x, y) == t.WATER else t.DO
    return t.MOVE + way
