"""Generators of the tasks whose grid consists of rooms of one size in rows and columns.

Each returns whether it succeeded: rejection sampling can fail, and then the grid is generated again.
"""

from envgen.jit import jit

from ..kernels import pcg64
from . import constants as const
from .placement import (
    NOT_NEXT_TO_AGENT,
    NOWHERE,
    ROOM_TRIES,
    add_walls,
    cell_at,
    clear,
    column,
    fill,
    place,
    place_agent,
    random_color,
    row,
    set_mission,
)

# `rooms` describes room (i, j) in the entries from ROOM * (j * num_columns + i) on: for each direction whether there is
# an opening (0 or 1), the cell for a door there (NOWHERE without a neighbor), and whether the room is locked.
OPENING, DOOR_CELL, IS_LOCKED, ROOM = 0, 4, 8, 9
MAX_ROOMS = 9
STACK = ROOM * MAX_ROOMS  # from here on, the rooms still to visit
REACHED = STACK + 4 * MAX_ROOMS + 4  # from here on, whether each room has been visited
COLOR_LIST = REACHED + MAX_ROOMS
MAX_CONNECT_TRIES = 5000


@jit
def _begin_rooms(env, rooms, size, num_rows, num_columns):
    """Walls around all rooms, and a random cell for a door in each wall between two rooms."""
    clear(env, (size - 1) * num_columns + 1, (size - 1) * num_rows + 1)
    for j in range(num_rows):
        for i in range(num_columns):
            add_walls(env, i * (size - 1), j * (size - 1), size, size)
    for j in range(num_rows):
        for i in range(num_columns):
            base = ROOM * (j * num_columns + i)
            left, top = i * (size - 1), j * (size - 1)
            rooms[base : base + ROOM] = 0
            rooms[base + DOOR_CELL : base + IS_LOCKED] = NOWHERE
            if i < num_columns - 1:
                y = pcg64.integers(env.rng, top + 1, top + size - 1)
                rooms[base + DOOR_CELL + const.RIGHT] = cell_at(left + size - 1, y)
            if j < num_rows - 1:
                x = pcg64.integers(env.rng, left + 1, left + size - 1)
                rooms[base + DOOR_CELL + const.DOWN] = cell_at(x, top + size - 1)
            if i > 0:
                rooms[base + DOOR_CELL + const.LEFT] = rooms[base - ROOM + DOOR_CELL + const.RIGHT]
            if j > 0:
                above = base - ROOM * num_columns
                rooms[base + DOOR_CELL + const.UP] = rooms[above + DOOR_CELL + const.DOWN]
    # Until it is placed, the agent counts as being in the middle, and no object is placed next to it.
    env.cell = cell_at(num_columns // 2 * (size - 1) + size // 2, num_rows // 2 * (size - 1) + size // 2)


@jit
def _neighbor(room, direction, num_columns):
    if direction == const.RIGHT:
        return room + 1
    if direction == const.DOWN:
        return room + num_columns
    return room - 1 if direction == const.LEFT else room - num_columns


@jit
def _open_wall(rooms, room, direction, num_columns):
    rooms[ROOM * room + OPENING + direction] = 1
    rooms[ROOM * _neighbor(room, direction, num_columns) + OPENING + (direction + 2) % 4] = 1


@jit
def _add_door(env, rooms, room, direction, num_columns, color, is_locked):
    """Add a door of this color, or of a random one if it is NOWHERE. Returns the door's cell."""
    if color == NOWHERE:
        color = random_color(env)
    rooms[ROOM * room + IS_LOCKED] = is_locked
    cell = rooms[ROOM * room + DOOR_CELL + direction]
    env.grid[cell] = (const.LOCKED_DOOR if is_locked else const.CLOSED_DOOR) + color
    _open_wall(rooms, room, direction, num_columns)
    return cell


@jit
def _place_in_room(env, code, i, j, size):
    return place(env, code, i * (size - 1), j * (size - 1), size, size, ROOM_TRIES, NOT_NEXT_TO_AGENT)


@jit
def _place_agent_in_room(env, i, j, size):
    """Put the agent into a room so that it does not face an object."""
    for _ in range(ROOM_TRIES):
        if place_agent(env, i * (size - 1), j * (size - 1), size, size, ROOM_TRIES) == NOWHERE:
            return False
        front = env.grid[env.cell + const.STEPS[env.direction]]
        if front == const.EMPTY or front == const.WALL:
            return True
    return False


@jit
def _are_connected(rooms, start, num_rooms, num_columns):
    rooms[REACHED : REACHED + num_rooms] = 0
    rooms[STACK] = start
    count, size = 0, 1
    while size > 0:
        size -= 1
        room = rooms[STACK + size]
        if rooms[REACHED + room]:
            continue
        rooms[REACHED + room] = 1
        count += 1
        for direction in range(4):
            if rooms[ROOM * room + OPENING + direction]:
                rooms[STACK + size] = _neighbor(room, direction, num_columns)
                size += 1
    return count == num_rooms


@jit
def _connect_all(env, rooms, size, num_rows, num_columns):
    """Add doors between unlocked rooms until all rooms are connected."""
    start = row(env.cell) // (size - 1) * num_columns + column(env.cell) // (size - 1)
    for _ in range(MAX_CONNECT_TRIES + 1):
        if _are_connected(rooms, start, num_rows * num_columns, num_columns):
            return True
        i = pcg64.integers(env.rng, 0, num_columns)
        j = pcg64.integers(env.rng, 0, num_rows)
        direction = pcg64.integers(env.rng, 0, 4)
        room = j * num_columns + i
        if rooms[ROOM * room + DOOR_CELL + direction] == NOWHERE or rooms[ROOM * room + OPENING + direction]:
            continue
        neighbor = _neighbor(room, direction, num_columns)
        if rooms[ROOM * room + IS_LOCKED] or rooms[ROOM * neighbor + IS_LOCKED]:
            continue
        _add_door(env, rooms, room, direction, num_columns, random_color(env), 0)
    return False


@jit
def generate_unlock(env, params, rooms):
    """The tasks `unlock`, `unlock pickup` and `blocked unlock pickup`: two rooms with a locked door between them."""
    size = params.room_size
    _begin_rooms(env, rooms, size, 1, 2)
    if params.task != const.UNLOCK:
        box_color = random_color(env)
        set_mission(env, const.MISSION_PICK_UP, box_color, const.TYPE_BOX)
        if _place_in_room(env, const.BOX + box_color, 1, 0, size) == NOWHERE:
            return False
    env.target_cell = _add_door(env, rooms, 0, const.RIGHT, 2, NOWHERE, 1)
    color = env.grid[env.target_cell] - const.LOCKED_DOOR
    if params.task == const.BLOCKED_UNLOCK_PICKUP:
        env.grid[env.target_cell - 1] = const.BALL + random_color(env)
    if _place_in_room(env, const.KEY + color, 0, 0, size) == NOWHERE:
        return False
    return _place_agent_in_room(env, 0, 0, size)


@jit
def generate_key_corridor(env, params, rooms):
    size, num_rows = params.room_size, params.num_rows
    _begin_rooms(env, rooms, size, num_rows, 3)
    for j in range(1, num_rows):
        fill(env, const.EMPTY, size, j * (size - 1), size - 2, 1)
        _open_wall(rooms, 3 * j + 1, const.UP, 3)
    j = pcg64.integers(env.rng, 0, num_rows)
    door = _add_door(env, rooms, 3 * j + 2, const.LEFT, 3, NOWHERE, 1)
    key = const.KEY + env.grid[door] - const.LOCKED_DOOR
    color = random_color(env)
    set_mission(env, const.MISSION_PICK_UP, color, const.TYPE_BALL)
    if _place_in_room(env, const.BALL + color, 2, j, size) == NOWHERE:
        return False
    if _place_in_room(env, key, 0, pcg64.integers(env.rng, 0, num_rows), size) == NOWHERE:
        return False
    return _place_agent_in_room(env, 1, num_rows // 2, size) and _connect_all(env, rooms, size, num_rows, 3)


@jit
def _shuffle_colors(env, rooms):
    """All colors in random order, from COLOR_LIST on."""
    for k in range(const.NUM_COLORS):
        rooms[COLOR_LIST + k] = const.SORTED_COLORS[k]
    for k in range(const.NUM_COLORS):  # the drawn color moves to position k, those before it move up
        n = k + pcg64.integers(env.rng, 0, const.NUM_COLORS - k)
        color = rooms[COLOR_LIST + n]
        for m in range(n, k, -1):
            rooms[COLOR_LIST + m] = rooms[COLOR_LIST + m - 1]
        rooms[COLOR_LIST + k] = color


@jit
def _hidden_key(params, color):
    """A key, or a grey box that contains it."""
    if params.keys_in_boxes:
        return const.BOX_WITH_KEY + const.NUM_COLORS * color + const.GREY
    return const.KEY + color


@jit
def _add_locked_door(env, params, rooms, room, direction, num_columns, color):
    """A locked door, with a green ball in front of it if doors are blocked."""
    door = _add_door(env, rooms, room, direction, num_columns, color, 1)
    if params.blocked_doors:
        env.grid[door - const.STEPS[direction]] = const.BALL + const.GREEN


SIDE_ROOMS = ((2, 1), (1, 2), (0, 1), (1, 0))  # right of, below, left of and above the middle room
CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))


@jit
def generate_obstructed_maze(env, params, rooms):
    """A blue ball behind locked doors. Their keys may be hidden in boxes, and other balls may block them.

    With `keys_last` (version 1 of the package's environments), a room's keys are placed after the balls that block its
    doors. Otherwise a ball may replace a key, and a few mazes cannot be solved.
    """
    size = params.room_size
    num_columns = 2 if params.num_quarters == 0 else 3
    _begin_rooms(env, rooms, size, 2 * num_columns - 3, num_columns)
    _shuffle_colors(env, rooms)
    set_mission(env, const.MISSION_PICK_UP, const.BLUE, const.TYPE_BALL)
    if params.num_quarters == 0:
        color = rooms[COLOR_LIST]
        _add_locked_door(env, params, rooms, 0, const.RIGHT, 2, color)
        if _place_in_room(env, _hidden_key(params, color), 0, 0, size) == NOWHERE:
            return False
        if _place_in_room(env, const.BALL + const.BLUE, 1, 0, size) == NOWHERE:
            return False
        return _place_agent_in_room(env, 0, 0, size)
    for k in range(params.num_quarters):
        i, j = SIDE_ROOMS[k]
        _add_door(env, rooms, 4, k, 3, rooms[COLOR_LIST + k], 0)
        for turn in (-1, 1):
            color = rooms[COLOR_LIST + (k + turn) % const.NUM_COLORS]
            _add_locked_door(env, params, rooms, 3 * j + i, (k + turn) % 4, 3, color)
            if not params.keys_last and _place_in_room(env, _hidden_key(params, color), i, j, size) == NOWHERE:
                return False
        if params.keys_last:
            for turn in (-1, 1):
                color = rooms[COLOR_LIST + (k + turn) % const.NUM_COLORS]
                if _place_in_room(env, _hidden_key(params, color), i, j, size) == NOWHERE:
                    return False
    i, j = CORNERS[pcg64.integers(env.rng, 0, params.num_quarters)]
    if _place_in_room(env, const.BALL + const.BLUE, i, j, size) == NOWHERE:
        return False
    return _place_agent_in_room(env, params.agent_room, 1, size)
