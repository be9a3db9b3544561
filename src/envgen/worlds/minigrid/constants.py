"""Constants of MiniGrid: cells, directions, actions, missions, tasks and skills.

A cell of the grid is one byte, an index in `CELLS`. Doors have a code for each state, and a box has one for each key
that it may contain, so every rule is a look-up in a table.
"""

from typing import NamedTuple

import numpy as np

from ..world import Skill

COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
NUM_COLORS = len(COLORS)
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(NUM_COLORS)
SORTED_COLORS = np.array([BLUE, GREEN, GREY, PURPLE, RED, YELLOW])  # random colors are drawn from the sorted names

OBJECTS = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava")
TYPE_UNSEEN, TYPE_EMPTY, TYPE_WALL, TYPE_FLOOR, TYPE_DOOR, TYPE_KEY, TYPE_BALL, TYPE_BOX, TYPE_GOAL, TYPE_LAVA = range(
    10
)
DOOR_STATES = ("open", "closed", "locked")

# Codes of cells. Those from FLOOR on are the first of NUM_COLORS codes, one for each color.
UNSEEN, EMPTY, WALL, GOAL, LAVA, FLOOR = range(6)
OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR = (FLOOR + k * NUM_COLORS for k in (1, 2, 3))
KEY, BALL, BOX, BOX_WITH_KEY = (FLOOR + k * NUM_COLORS for k in (4, 5, 6, 7))
NUM_CELLS = BOX_WITH_KEY + NUM_COLORS * NUM_COLORS  # a box with a key: BOX_WITH_KEY + NUM_COLORS * key + box


class Cell(NamedTuple):
    """What a cell shows, and what it contains if it is a box."""

    object: int  # index in OBJECTS
    color: int = 0
    state: int = 0  # of a door, index in DOOR_STATES
    key: int | None = None  # color of the key in a box


def _cells() -> list[Cell]:
    colors = range(NUM_COLORS)
    cells = [Cell(TYPE_UNSEEN), Cell(TYPE_EMPTY), Cell(TYPE_WALL, GREY), Cell(TYPE_GOAL, GREEN), Cell(TYPE_LAVA, RED)]
    cells += [Cell(TYPE_FLOOR, color) for color in colors]
    cells += [Cell(TYPE_DOOR, color, state) for state in range(3) for color in colors]
    cells += [Cell(kind, color) for kind in (TYPE_KEY, TYPE_BALL, TYPE_BOX) for color in colors]
    return cells + [Cell(TYPE_BOX, color, 0, key) for key in colors for color in colors]


CELLS = tuple(_cells())
CELL_OBJECT = np.array([cell.object for cell in CELLS], np.uint8)
CELL_COLOR = np.array([cell.color for cell in CELLS], np.uint8)
CELL_STATE = np.array([cell.state for cell in CELLS], np.uint8)
IS_TRANSPARENT = np.array([cell.object not in (TYPE_UNSEEN, TYPE_WALL) and not cell.state for cell in CELLS], np.uint8)
CAN_ENTER = np.array(
    [
        cell.object in (TYPE_EMPTY, TYPE_FLOOR, TYPE_GOAL, TYPE_LAVA) or (cell.object == TYPE_DOOR and not cell.state)
        for cell in CELLS
    ],
    np.uint8,
)
CAN_PICK_UP = np.array([cell.object in (TYPE_KEY, TYPE_BALL, TYPE_BOX) for cell in CELLS], np.uint8)


def _toggled() -> np.ndarray:
    """What each cell becomes when it is toggled without a key."""
    toggled = np.arange(NUM_CELLS)
    for color in range(NUM_COLORS):
        toggled[OPEN_DOOR + color], toggled[CLOSED_DOOR + color] = CLOSED_DOOR + color, OPEN_DOOR + color
    for code, cell in enumerate(CELLS):
        if cell.object == TYPE_BOX:
            toggled[code] = EMPTY if cell.key is None else KEY + cell.key
    return toggled.astype(np.uint8)


TOGGLED = _toggled()

# The grid is stored row by row with a margin of walls, so that a view never leaves it.
MAX_SIZE = 51  # cells along a side
MARGIN = 6
STRIDE = MAX_SIZE + 2 * MARGIN
GRID_SIZE = STRIDE * STRIDE
MAX_OBSTACLES = MAX_SIZE // 2 + 1
VIEW_SIZE = 7
VIEW_CELLS = VIEW_SIZE * VIEW_SIZE
AGENT_VIEW_CELL = (VIEW_SIZE - 1) * VIEW_SIZE + VIEW_SIZE // 2  # counted row by row

DIRECTIONS = ("right", "down", "left", "up")
RIGHT, DOWN, LEFT, UP = range(4)
STEPS = np.array([1, STRIDE, -1, -STRIDE])  # to the next cell in each direction

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
TURN_LEFT, TURN_RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, SAY_DONE = range(7)

# What ends an episode with success. Reaching a goal does so in every task.
(
    REACH_GOAL, PICK_UP_TARGET, UNLOCK_TARGET, GO_TO_TARGET, PUT_NEAR_TARGET, FETCH_TARGET, MATCH_OBJECT, RED_THEN_BLUE,
    AVOID_OBSTACLES,
) = range(9)  # fmt: skip

MISSIONS = (  # the index is what agents observe, with the colors and objects that fill the gaps
    "reach the goal",
    "get to the green goal square",
    "use the key to open the door and then get to the goal",
    "traverse the rooms to get to the goal",
    "avoid the lava and get to the green goal square",
    "find the opening and get to the green goal square",
    "open the door",
    "open the red door then the blue door",
    "go to the matching object at the end of the hallway",
    "pick up the {color} {object}",
    "go to the {color} {object}",
    "put the {color} {object} near the {other_color} {other_object}",
    "get the {color} key from the {other_color} room, unlock the {color} door and go to the goal",
    "get a {color} {object}",
    "go get a {color} {object}",
    "fetch a {color} {object}",
    "go fetch a {color} {object}",
    "you must fetch a {color} {object}",
)
(
    MISSION_GOAL, MISSION_GREEN_GOAL, MISSION_USE_KEY, MISSION_TRAVERSE, MISSION_AVOID_LAVA, MISSION_FIND_OPENING,
    MISSION_OPEN_DOOR, MISSION_RED_BLUE, MISSION_MATCH, MISSION_PICK_UP, MISSION_GO_TO, MISSION_PUT_NEAR,
    MISSION_LOCKED_ROOM, MISSION_FETCH,
) = range(14)  # fmt: skip

TASKS = (
    "empty", "four rooms", "door key", "multi room", "key corridor", "unlock", "unlock pickup",
    "blocked unlock pickup", "lava gap", "lava crossing", "simple crossing", "dynamic obstacles", "red blue doors",
    "memory", "obstructed maze", "go to door", "go to object", "put near", "fetch", "locked room", "dist shift",
    "perfect maze", "random walls",
)  # fmt: skip
(
    EMPTY_ROOM, FOUR_ROOMS, DOOR_KEY, MULTI_ROOM, KEY_CORRIDOR, UNLOCK, UNLOCK_PICKUP, BLOCKED_UNLOCK_PICKUP, LAVA_GAP,
    LAVA_CROSSING, SIMPLE_CROSSING, DYNAMIC_OBSTACLES, RED_BLUE_DOORS, MEMORY, OBSTRUCTED_MAZE, GO_TO_DOOR,
    GO_TO_OBJECT, PUT_NEAR, FETCH, LOCKED_ROOM, DIST_SHIFT, PERFECT_MAZE, RANDOM_WALLS,
) = range(23)  # fmt: skip
MIXED = len(TASKS)  # each episode plays one of the tasks

OBJECTIVE = np.full(len(TASKS), REACH_GOAL)
OBJECTIVE[[KEY_CORRIDOR, UNLOCK_PICKUP, BLOCKED_UNLOCK_PICKUP, OBSTRUCTED_MAZE]] = PICK_UP_TARGET
OBJECTIVE[UNLOCK], OBJECTIVE[PUT_NEAR], OBJECTIVE[FETCH] = UNLOCK_TARGET, PUT_NEAR_TARGET, FETCH_TARGET
OBJECTIVE[[GO_TO_DOOR, GO_TO_OBJECT]] = GO_TO_TARGET
OBJECTIVE[MEMORY], OBJECTIVE[RED_BLUE_DOORS], OBJECTIVE[DYNAMIC_OBSTACLES] = (
    MATCH_OBJECT,
    RED_THEN_BLUE,
    AVOID_OBSTACLES,
)
MISSION = np.array(
    [
        MISSION_GREEN_GOAL, MISSION_GOAL, MISSION_USE_KEY, MISSION_TRAVERSE, MISSION_PICK_UP, MISSION_OPEN_DOOR,
        MISSION_PICK_UP, MISSION_PICK_UP, MISSION_AVOID_LAVA, MISSION_AVOID_LAVA, MISSION_FIND_OPENING,
        MISSION_GREEN_GOAL, MISSION_RED_BLUE, MISSION_MATCH, MISSION_PICK_UP, MISSION_GO_TO, MISSION_GO_TO,
        MISSION_PUT_NEAR, MISSION_FETCH, MISSION_LOCKED_ROOM, MISSION_GREEN_GOAL, MISSION_GOAL, MISSION_GOAL,
    ]
)  # fmt: skip
SEES_THROUGH_WALLS = np.zeros(len(TASKS), np.uint8)
SEES_THROUGH_WALLS[
    [EMPTY_ROOM, DYNAMIC_OBSTACLES, GO_TO_DOOR, GO_TO_OBJECT, PUT_NEAR, FETCH, DIST_SHIFT]
] = 1  # fmt: skip


def skill_name(task: str) -> str:
    return "solve_" + task.replace(" ", "_")


_PREREQUISITES = {
    "four rooms": ("empty",), "door key": ("empty",), "multi room": ("four rooms",), "unlock": ("empty",),
    "unlock pickup": ("unlock",), "blocked unlock pickup": ("unlock pickup",), "key corridor": ("unlock pickup",),
    "obstructed maze": ("blocked unlock pickup", "key corridor"), "simple crossing": ("empty",),
    "dist shift": ("empty",), "lava gap": ("empty",), "lava crossing": ("lava gap", "simple crossing"),
    "dynamic obstacles": ("empty",), "go to object": ("go to door",), "put near": ("fetch",),
    "locked room": ("door key", "multi room"), "random walls": ("simple crossing",),
    "perfect maze": ("random walls",),
}  # fmt: skip
SKILLS = tuple(Skill(skill_name(task), tuple(map(skill_name, _PREREQUISITES.get(task, ())))) for task in TASKS)
