"""Generators of the tasks that rooms.py does not generate.

Each draws a grid, the agent and the mission as the package does, in the same order, and returns whether it
succeeded: rejection sampling can fail, and then the grid is generated again.
"""

import numpy as np

from envgen.jit import jit

from ..kernels import pcg64
from ..kernels.arrays import copy_elements
from . import constants as const
from .placement import (
    ANYWHERE,
    MANY_TRIES,
    NOT_NEAR_OBJECTS,
    NOWHERE,
    OBSTACLE_TRIES,
    add_walls,
    begin_room,
    cell_at,
    clear,
    fill,
    place,
    place_agent,
    place_agent_anywhere,
    place_anywhere,
    random_color,
    random_object,
    set_mission,
)


@jit
def _place_goal_and_agent(env, random_start):
    """The goal in the lower right corner; the agent in the upper left one or anywhere."""
    env.grid[cell_at(env.width - 2, env.height - 2)] = const.GOAL
    if random_start:
        place_agent_anywhere(env)
    else:
        env.cell = cell_at(1, 1)


@jit
def generate_empty(env, params, scratch):
    begin_room(env, params.width, params.height)
    _place_goal_and_agent(env, params.random_start)
    return True


@jit
def generate_dynamic_obstacles(env, params, scratch):
    begin_room(env, params.width, params.height)
    _place_goal_and_agent(env, params.random_start)
    for k in range(params.num_obstacles):
        ball = const.BALL + const.BLUE
        env.obstacles[k] = place(env, ball, 0, 0, env.width, env.height, OBSTACLE_TRIES, ANYWHERE)
        if env.obstacles[k] == NOWHERE:
            return False
    env.num_obstacles = params.num_obstacles
    return True


@jit
def generate_four_rooms(env, params, scratch):
    begin_room(env, params.width, params.height)
    room_width, room_height = env.width // 2, env.height // 2
    for j in range(2):
        for i in range(2):
            left, top = i * room_width, j * room_height
            right, bottom = left + room_width, top + room_height
            if i == 0:
                fill(env, const.WALL, right, top, 1, room_height)
                env.grid[cell_at(right, pcg64.integers(env.rng, top + 1, bottom))] = const.EMPTY
            if j == 0:
                fill(env, const.WALL, left, bottom, room_width, 1)
                env.grid[cell_at(pcg64.integers(env.rng, left + 1, right), bottom)] = const.EMPTY
    place_agent_anywhere(env)
    place_anywhere(env, const.GOAL)
    return True


@jit
def generate_door_key(env, params, scratch):
    begin_room(env, params.width, params.height)
    env.grid[cell_at(env.width - 2, env.height - 2)] = const.GOAL
    split = pcg64.integers(env.rng, 2, env.width - 2)
    fill(env, const.WALL, split, 0, 1, env.height)
    place_agent(env, 0, 0, split, env.height, MANY_TRIES)
    env.grid[cell_at(split, pcg64.integers(env.rng, 1, env.height - 2))] = const.LOCKED_DOOR + const.YELLOW
    place(env, const.KEY + const.YELLOW, 0, 0, split, env.height, MANY_TRIES, ANYWHERE)
    return True


@jit
def generate_lava_gap(env, params, scratch):
    begin_room(env, params.width, params.height)
    _place_goal_and_agent(env, False)
    x = pcg64.integers(env.rng, 2, env.width - 2)
    y = pcg64.integers(env.rng, 1, env.height - 1)
    fill(env, const.LAVA, x, 1, 1, env.height - 2)
    env.grid[cell_at(x, y)] = const.EMPTY
    return True


@jit
def _sort(items, start, stop):
    for k in range(start + 1, stop):
        item, m = items[k], k
        while m > start and items[m - 1] > item:
            items[m] = items[m - 1]
            m -= 1
        items[m] = item


@jit
def generate_crossing(env, params, scratch):
    """Rivers of lava, or walls, across the grid, each with one opening on a path to the goal."""
    begin_room(env, params.width, params.height)
    _place_goal_and_agent(env, False)
    width, height = env.width, env.height
    obstacle = const.LAVA if params.task == const.LAVA_CROSSING else const.WALL
    rivers = scratch[: const.MAX_SIZE]  # vertical ones at x >= 0, horizontal ones at ~y
    count = 0
    for x in range(2, height - 2, 2):
        rivers[count] = x
        count += 1
    for y in range(2, width - 2, 2):
        rivers[count] = ~y
        count += 1
    pcg64.shuffle(env.rng, rivers, count)
    columns, rows = scratch[const.MAX_SIZE : 2 * const.MAX_SIZE], scratch[2 * const.MAX_SIZE : 3 * const.MAX_SIZE]
    num_columns = num_rows = 0
    for k in range(min(params.num_crossings, count)):
        if rivers[k] >= 0:
            num_columns += 1
            columns[num_columns] = rivers[k]
        else:
            num_rows += 1
            rows[num_rows] = ~rivers[k]
    _sort(columns, 1, num_columns + 1)
    _sort(rows, 1, num_rows + 1)
    for k in range(1, num_rows + 1):
        fill(env, obstacle, 1, rows[k], width - 2, 1)
    for k in range(1, num_columns + 1):
        fill(env, obstacle, columns[k], 1, 1, height - 2)
    path = scratch[: const.MAX_SIZE]  # 1 crosses a vertical river, 0 a horizontal one
    for k in range(num_columns + num_rows):
        path[k] = 1 if k < num_columns else 0
    pcg64.shuffle(env.rng, path, num_columns + num_rows)
    columns[0], columns[num_columns + 1] = 0, height - 1
    rows[0], rows[num_rows + 1] = 0, width - 1
    i = j = 0
    for k in range(num_columns + num_rows):
        if path[k] == 1:
            x, y = columns[i + 1], pcg64.integers(env.rng, rows[j] + 1, rows[j + 1])
            i += 1
        else:
            x, y = pcg64.integers(env.rng, columns[i] + 1, columns[i + 1]), rows[j + 1]
            j += 1
        env.grid[cell_at(x, y)] = const.EMPTY
    return True


@jit
def generate_red_blue_doors(env, params, scratch):
    size = params.height
    begin_room(env, 2 * size, size)
    add_walls(env, size // 2, 0, size, size)
    place_agent(env, size // 2, 0, size, size, MANY_TRIES)
    env.target_cell = cell_at(size // 2, pcg64.integers(env.rng, 1, size - 1))
    env.grid[env.target_cell] = const.CLOSED_DOOR + const.RED
    env.other_cell = cell_at(size // 2 + size - 1, pcg64.integers(env.rng, 1, size - 1))
    env.grid[env.other_cell] = const.CLOSED_DOOR + const.BLUE
    return True


@jit
def generate_memory(env, params, scratch):
    begin_room(env, params.width, params.height)
    middle = env.height // 2
    end = pcg64.integers(env.rng, 4, env.width - 2) if params.random_length else env.width - 3
    fill(env, const.WALL, 1, middle - 2, 4, 1)
    fill(env, const.WALL, 1, middle + 2, 4, 1)
    env.grid[cell_at(4, middle - 1)] = env.grid[cell_at(4, middle + 1)] = const.WALL
    for x in range(5, end):
        env.grid[cell_at(x, middle - 1)] = env.grid[cell_at(x, middle + 1)] = const.WALL
    for y in range(env.height):
        if y != middle:
            env.grid[cell_at(end, y)] = const.WALL
        env.grid[cell_at(end + 2, y)] = const.WALL
    env.cell = cell_at(pcg64.integers(env.rng, 1, end + 1), middle)
    key, ball = const.KEY + const.GREEN, const.BALL + const.GREEN
    start = key if pcg64.integers(env.rng, 0, 2) == 0 else ball
    upper = ball if pcg64.integers(env.rng, 0, 2) == 0 else key
    env.grid[cell_at(1, middle - 1)] = start
    env.grid[cell_at(end + 1, middle - 2)] = upper
    env.grid[cell_at(end + 1, middle + 2)] = key + ball - upper
    above, below = cell_at(end + 1, middle - 1), cell_at(end + 1, middle + 1)
    env.target_cell, env.other_cell = (above, below) if start == upper else (below, above)
    return True


@jit
def generate_go_to_door(env, params, scratch):
    clear(env, params.width, params.height)
    width = pcg64.integers(env.rng, 5, env.width + 1)
    height = pcg64.integers(env.rng, 5, env.height + 1)
    add_walls(env, 0, 0, width, height)
    doors, colors = scratch[:4], scratch[4:8]
    doors[0] = cell_at(pcg64.integers(env.rng, 2, width - 2), 0)
    doors[1] = cell_at(pcg64.integers(env.rng, 2, width - 2), height - 1)
    doors[2] = cell_at(0, pcg64.integers(env.rng, 2, height - 2))
    doors[3] = cell_at(width - 1, pcg64.integers(env.rng, 2, height - 2))
    count = 0
    while count < 4:
        colors[count] = random_color(env)
        is_new = True
        for k in range(count):
            is_new &= colors[k] != colors[count]
        count += is_new
    for k in range(4):
        env.grid[doors[k]] = const.CLOSED_DOOR + colors[k]
    place_agent(env, 0, 0, width, height, MANY_TRIES)
    k = pcg64.integers(env.rng, 0, 4)
    env.target_cell = doors[k]
    set_mission(env, const.MISSION_GO_TO, colors[k], const.TYPE_DOOR)
    return True


@jit
def _place_objects(env, objects, count, num_types, are_unique, rule):
    """Random objects; their cells are written to `objects`. Returns whether all were placed."""
    placed = 0
    for _ in range(MANY_TRIES):
        if placed == count:
            return True
        code = random_object(env, num_types)
        is_new = True
        for k in range(placed):
            is_new &= env.grid[objects[k]] != code
        if is_new or not are_unique:
            objects[placed] = place(env, code, 0, 0, env.width, env.height, MANY_TRIES // 10, rule)
            if objects[placed] == NOWHERE:
                return False
            placed += 1
    return False


@jit
def generate_go_to_object(env, params, scratch):
    begin_room(env, params.width, params.height)
    if not _place_objects(env, scratch, params.num_objects, 3, True, ANYWHERE):
        return False
    place_agent_anywhere(env)
    env.target_cell = scratch[pcg64.integers(env.rng, 0, params.num_objects)]
    code = env.grid[env.target_cell]
    set_mission(env, const.MISSION_GO_TO, const.CELL_COLOR[code], const.CELL_OBJECT[code])
    return True


@jit
def generate_fetch(env, params, scratch):
    begin_room(env, params.width, params.height)
    if not _place_objects(env, scratch, params.num_objects, 2, False, ANYWHERE):
        return False
    place_agent_anywhere(env)
    code = env.grid[scratch[pcg64.integers(env.rng, 0, params.num_objects)]]
    mission = const.MISSION_FETCH + pcg64.integers(env.rng, 0, 5)
    set_mission(env, mission, const.CELL_COLOR[code], const.CELL_OBJECT[code])
    return True


@jit
def choose_pair(env, objects, count):
    """The mission of `put near`: put one random object near another one."""
    first = pcg64.integers(env.rng, 0, count)
    second = first
    while second == first:
        second = pcg64.integers(env.rng, 0, count)
    env.target_cell = objects[second]
    moved, target = env.grid[objects[first]], env.grid[env.target_cell]
    set_mission(env, const.MISSION_PUT_NEAR, const.CELL_COLOR[moved], const.CELL_OBJECT[moved])
    env.mission[3], env.mission[4] = 1 + const.CELL_COLOR[target], const.CELL_OBJECT[target]


@jit
def generate_put_near(env, params, scratch):
    begin_room(env, params.width, params.height)
    if not _place_objects(env, scratch, params.num_objects, 3, True, NOT_NEAR_OBJECTS):
        return False
    place_agent_anywhere(env)
    choose_pair(env, scratch, params.num_objects)
    return True


@jit
def _sample_in_room(env, left, top, width, height):
    x = pcg64.integers(env.rng, left + 1, left + width - 1)
    return cell_at(x, pcg64.integers(env.rng, top + 1, top + height - 1))


@jit
def generate_locked_room(env, params, scratch):
    """Three rooms on each side of a hallway; the goal is in a locked one, its key in another one."""
    begin_room(env, params.width, params.height)
    left, right = env.width // 2 - 2, env.width // 2 + 2
    room_height = env.height // 3
    fill(env, const.WALL, left, 0, 1, env.height)
    fill(env, const.WALL, right, 0, 1, env.height)
    for k in range(3):
        fill(env, const.WALL, 0, k * room_height, left, 1)
        fill(env, const.WALL, right, k * room_height, env.width - right, 1)
    locked = pcg64.integers(env.rng, 0, 6)  # even rooms are on the left, odd ones on the right
    x, y = (right if locked % 2 else 0), locked // 2 * room_height
    env.grid[_sample_in_room(env, x, y, left + 1, room_height + 1)] = const.GOAL
    colors = scratch[: const.NUM_COLORS]
    for k in range(const.NUM_COLORS):
        colors[k] = const.SORTED_COLORS[k]
    room_colors = scratch[const.NUM_COLORS : 2 * const.NUM_COLORS]
    for room in range(6):
        n = pcg64.integers(env.rng, 0, const.NUM_COLORS - room)
        room_colors[room] = colors[n]
        for k in range(n, const.NUM_COLORS - 1):
            colors[k] = colors[k + 1]
        door = cell_at(right if room % 2 else left, room // 2 * room_height + 3)
        env.grid[door] = (const.LOCKED_DOOR if room == locked else const.CLOSED_DOOR) + room_colors[room]
    key_room = locked
    while key_room == locked:
        key_room = pcg64.integers(env.rng, 0, 6)
    x, y = (right if key_room % 2 else 0), key_room // 2 * room_height
    env.grid[_sample_in_room(env, x, y, left + 1, room_height + 1)] = const.KEY + room_colors[locked]
    place_agent(env, left, 0, right - left, env.height, MANY_TRIES)
    set_mission(env, const.MISSION_LOCKED_ROOM, room_colors[locked], const.TYPE_KEY)
    env.mission[3] = 1 + room_colors[key_room]
    return True


@jit
def generate_dist_shift(env, params, scratch):
    """Two strips of lava; the lower one's row is what shifts."""
    begin_room(env, params.width, params.height)
    env.grid[cell_at(env.width - 2, 1)] = const.GOAL
    fill(env, const.LAVA, 3, 1, env.width - 6, 1)
    fill(env, const.LAVA, 3, params.lava_row, env.width - 6, 1)
    env.cell = cell_at(1, 1)
    return True


# --- multi room

ENTRY_X, ENTRY_Y, LEFT, TOP, WIDTH, HEIGHT, ROOM = range(7)  # entries of a room; ROOM is how many there are
MAX_CHAIN = 8
MIN_ROOM_SIZE = 4
MAX_CHAIN_TRIES = 1000  # then a shorter chain of rooms is accepted
EXIT_TRIES = 8


@jit
def _add_room(env, rooms, count, max_size, entry_wall, entry_x, entry_y):
    """Add room number `count`, with its entry in this wall, if it fits. Returns whether it does."""
    width = pcg64.integers(env.rng, MIN_ROOM_SIZE, max_size + 1)
    height = pcg64.integers(env.rng, MIN_ROOM_SIZE, max_size + 1)
    left, top = entry_x, entry_y
    if count > 0:
        if entry_wall == const.RIGHT or entry_wall == const.LEFT:
            left = entry_x - width + 1 if entry_wall == const.RIGHT else entry_x
            top = pcg64.integers(env.rng, entry_y - height + 2, entry_y)
        else:
            left = pcg64.integers(env.rng, entry_x - width + 2, entry_x)
            top = entry_y - height + 1 if entry_wall == const.DOWN else entry_y
    if left < 0 or top < 0 or left + width > env.width or top + height >= env.height:
        return False
    for k in range(count - 1):  # the room before this one shares a wall with it
        other = rooms[ROOM * k : ROOM * (k + 1)]
        if not (
            left + width < other[LEFT]
            or other[LEFT] + other[WIDTH] <= left
            or top + height < other[TOP]
            or other[TOP] + other[HEIGHT] <= top
        ):
            return False
    room = rooms[ROOM * count : ROOM * (count + 1)]
    room[ENTRY_X], room[ENTRY_Y], room[LEFT], room[TOP], room[WIDTH], room[HEIGHT] = (
        entry_x, entry_y, left, top, width, height,
    )  # fmt: skip
    return True


@jit
def _add_next_room(env, rooms, count, max_size, entry_wall):
    """Add a room behind a random exit of the last one. Returns the wall of its entry, or NOWHERE."""
    for _ in range(EXIT_TRIES):
        last = rooms[ROOM * (count - 1) : ROOM * count]
        exit_wall = pcg64.integers(env.rng, 0, 3)
        exit_wall += exit_wall >= entry_wall
        if exit_wall == const.RIGHT or exit_wall == const.LEFT:
            x = last[LEFT] + last[WIDTH] - 1 if exit_wall == const.RIGHT else last[LEFT]
            y = last[TOP] + pcg64.integers(env.rng, 1, last[HEIGHT] - 1)
        else:
            x = last[LEFT] + pcg64.integers(env.rng, 1, last[WIDTH] - 1)
            y = last[TOP] + last[HEIGHT] - 1 if exit_wall == const.DOWN else last[TOP]
        if _add_room(env, rooms, count, max_size, (exit_wall + 2) % 4, x, y):
            return (exit_wall + 2) % 4
    return NOWHERE


@jit
def generate_multi_room(env, params, scratch):
    """A chain of rooms, each behind a door; the agent is in the first one and the goal in the last one."""
    clear(env, params.width, params.height)
    rooms, best_rooms = scratch[: ROOM * MAX_CHAIN], scratch[ROOM * MAX_CHAIN : 2 * ROOM * MAX_CHAIN]
    best = 0
    for _ in range(MAX_CHAIN_TRIES):
        x = pcg64.integers(env.rng, 0, env.width - 2)
        y = pcg64.integers(env.rng, 0, env.width - 2)
        count, wall = 0, const.LEFT
        if _add_room(env, rooms, 0, params.room_size, wall, x, y):
            count = 1
        while 0 < count < params.num_rooms:
            wall = _add_next_room(env, rooms, count, params.room_size, wall)
            if wall == NOWHERE:
                break
            count += 1
        if count > best:
            best = count
            copy_elements(rooms, best_rooms)
        if best >= params.num_rooms:
            break
    if best == 0:
        return False
    last_color = NOWHERE
    for k in range(best):
        room = best_rooms[ROOM * k : ROOM * (k + 1)]
        add_walls(env, room[LEFT], room[TOP], room[WIDTH], room[HEIGHT])
        if k > 0:
            n = pcg64.integers(env.rng, 0, const.NUM_COLORS - (last_color != NOWHERE))
            color = const.SORTED_COLORS[n]
            if last_color != NOWHERE:  # a color other than that of the previous door
                for m in range(n + 1):
                    if const.SORTED_COLORS[m] == last_color:
                        color = const.SORTED_COLORS[n + 1]
            env.grid[cell_at(room[ENTRY_X], room[ENTRY_Y])] = const.CLOSED_DOOR + color
            last_color = color
    first, last = best_rooms[:ROOM], best_rooms[ROOM * (best - 1) : ROOM * best]
    place_agent(env, first[LEFT], first[TOP], first[WIDTH], first[HEIGHT], MANY_TRIES)
    goal = place(env, const.GOAL, last[LEFT], last[TOP], last[WIDTH], last[HEIGHT], MANY_TRIES, ANYWHERE)
    return goal != NOWHERE


# --- mazes of this project, as used in papers on unsupervised environment design


@jit
def generate_perfect_maze(env, params, scratch):
    """A maze in which exactly one path connects any two cells, carved depth first; agent and goal anywhere."""
    clear(env, params.width, params.height)
    fill(env, const.WALL, 0, 0, env.width, env.height)
    x = 1 + 2 * pcg64.integers(env.rng, 0, env.width // 2)
    y = 1 + 2 * pcg64.integers(env.rng, 0, env.height // 2)
    scratch[0] = cell_at(x, y)
    env.grid[scratch[0]] = const.EMPTY
    size = 1
    directions = np.empty(4, np.int64)
    while size > 0:
        cell, count = scratch[size - 1], 0
        for direction in range(4):
            x = cell % const.STRIDE - const.MARGIN + 2 * ((direction == const.RIGHT) - (direction == const.LEFT))
            y = cell // const.STRIDE - const.MARGIN + 2 * ((direction == const.DOWN) - (direction == const.UP))
            if 0 < x < env.width and 0 < y < env.height and env.grid[cell_at(x, y)] == const.WALL:
                directions[count] = direction
                count += 1
        if count == 0:
            size -= 1
            continue
        step = const.STEPS[directions[pcg64.integers(env.rng, 0, count)]]
        env.grid[cell + step] = env.grid[cell + 2 * step] = const.EMPTY
        scratch[size] = cell + 2 * step
        size += 1
    place_agent_anywhere(env)
    place_anywhere(env, const.GOAL)
    return True


@jit
def generate_random_walls(env, params, scratch):
    """Up to `num_walls` walls, the agent and the goal anywhere. The goal may be unreachable, as in the papers."""
    begin_room(env, params.width, params.height)
    for _ in range(pcg64.integers(env.rng, 0, params.num_walls + 1)):
        x = pcg64.integers(env.rng, 1, env.width - 1)
        env.grid[cell_at(x, pcg64.integers(env.rng, 1, env.height - 1))] = const.WALL
    return place_agent_anywhere(env) != NOWHERE and place_anywhere(env, const.GOAL) != NOWHERE
