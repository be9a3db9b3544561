"""Levels drawn as text: one string per row, and what they must contain.

A cell is one character, or a letter with the letter of its color, and a box may contain a key:

    #  wall     .  empty     G  goal     ~  lava     > v < ^  the agent and its direction
    K  key      B  ball      X  box      F  floor    D  closed door   L  locked door   O  open door

    r red   g green   b blue   p purple   y yellow   e grey       Xe(Kb)  a grey box with a blue key
"""

import re
from collections.abc import Sequence

import numpy as np

from envgen.jit import jit

from ..kernels import pcg64
from . import constants as const
from .generators import choose_pair
from .placement import cell_at, clear, set_mission

MIN_MAP_SIZE = 3  # cells along a side
AGENT = const.NUM_CELLS  # + direction: the agent in a parsed map
SIMPLE_CELLS = {"#": const.WALL, ".": const.EMPTY, "G": const.GOAL, "~": const.LAVA} | {
    arrow: AGENT + direction for direction, arrow in enumerate(">v<^")
}
OBJECT_CELLS = {
    "K": const.KEY, "B": const.BALL, "X": const.BOX, "F": const.FLOOR, "D": const.CLOSED_DOOR, "L": const.LOCKED_DOOR,
    "O": const.OPEN_DOOR,
}  # fmt: skip
COLOR_LETTERS = "rgbpye"  # in the order of const.COLORS
TOKEN = re.compile(r"X[rgbpye]\(K[rgbpye]\)|[KBXFDLO][rgbpye]|.", re.DOTALL)
HELP = "use # . G ~ > v < ^ and K B X F D L O with a color of r g b p y e, such as Ky for a yellow key"

TASKS_WITHOUT_MAPS = (const.MEMORY, const.LOCKED_ROOM)
_ANY_DOOR = range(const.OPEN_DOOR, const.KEY)
_ANY_OBJECT = range(const.KEY, const.NUM_CELLS)
TARGETS = {  # task: the cells that may be its target, and what to call them
    const.KEY_CORRIDOR: (range(const.BALL, const.BOX), "a ball"),
    const.OBSTRUCTED_MAZE: (range(const.BALL + const.BLUE, const.BALL + const.BLUE + 1), "a blue ball (Bb)"),
    const.UNLOCK_PICKUP: (range(const.BOX, const.NUM_CELLS), "a box"),
    const.BLOCKED_UNLOCK_PICKUP: (range(const.BOX, const.NUM_CELLS), "a box"),
    const.UNLOCK: (range(const.LOCKED_DOOR, const.KEY), "a locked door"),
    const.GO_TO_DOOR: (_ANY_DOOR, "a door"),
    const.GO_TO_OBJECT: (_ANY_OBJECT, "a key, a ball or a box"),
    const.FETCH: (range(const.KEY, const.BOX), "a key or a ball"),
    const.PUT_NEAR: (_ANY_OBJECT, "two objects (keys, balls or boxes)"),
    const.RED_BLUE_DOORS: (
        (const.CLOSED_DOOR + const.RED, const.CLOSED_DOOR + const.BLUE),
        "one closed red door (Dr) and one closed blue door (Db)",
    ),
}  # fmt: skip
TARGET_RANGES = np.zeros((len(const.TASKS), 2), np.int64)  # first and last code of a target
for _task, (_codes, _) in TARGETS.items():
    TARGET_RANGES[_task] = min(_codes), max(_codes)


def parse_map(rows: Sequence[str]) -> np.ndarray:
    """The codes of a map's cells, (height, width), with AGENT + direction for the agent. Raises ValueError."""
    if not MIN_MAP_SIZE <= len(rows) <= const.MAX_SIZE:
        raise ValueError(f"a map has {MIN_MAP_SIZE} to {const.MAX_SIZE} rows, not {len(rows)}")
    parsed: list[list[int]] = []
    for y, text in enumerate(rows, 1):
        if len(text) > const.MAX_SIZE * len("Xe(Kb)"):
            raise ValueError(f"row {y} is {len(text)} characters long; a map has at most {const.MAX_SIZE} columns")
        cells = [_parse_cell(token, y, x) for x, token in enumerate(TOKEN.findall(text), 1)]
        if parsed and len(cells) != len(parsed[0]):
            raise ValueError(f"row {y} has {len(cells)} cells, but row 1 has {len(parsed[0])}; all rows need as many")
        parsed.append(cells)
    width = len(parsed[0])
    if not MIN_MAP_SIZE <= width <= const.MAX_SIZE:
        raise ValueError(f"a map has {MIN_MAP_SIZE} to {const.MAX_SIZE} columns, not {width}")
    return np.array(parsed, np.uint8)


def _parse_cell(token: str, y: int, x: int) -> int:
    if token in SIMPLE_CELLS:
        return SIMPLE_CELLS[token]
    if len(token) == 2:
        return OBJECT_CELLS[token[0]] + COLOR_LETTERS.index(token[1])
    if len(token) > 2:
        return const.BOX_WITH_KEY + const.NUM_COLORS * COLOR_LETTERS.index(token[4]) + COLOR_LETTERS.index(token[1])
    problem = f"{token!r} needs the letter of a color" if token in OBJECT_CELLS else f"{token!r} is not a cell"
    raise ValueError(f"row {y}, column {x}: {problem}; {HELP}")


def check_map(cells: np.ndarray, task: int) -> None:
    """Raise ValueError unless a parsed map has what its task needs, within reach of the agent."""
    name = const.TASKS[task]
    if task in TASKS_WITHOUT_MAPS:
        raise ValueError(f"the task {name!r} has no maps; leave the map out, or choose another task")
    num_agents = int((cells >= AGENT).sum())
    if num_agents != 1:
        raise ValueError(f"a map has one agent (> v < or ^), not {num_agents}")
    if task not in TARGETS:
        targets = cells == const.GOAL
        if not targets.any():
            raise ValueError(f"the map has no goal (G), which the task {name!r} needs")
        target_name = "the goal"
    else:
        codes, target_name = TARGETS[task]
        targets = np.isin(cells, list(codes))
        if task == const.RED_BLUE_DOORS:
            is_complete = all((cells == code).sum() == 1 for code in codes)
        else:
            is_complete = targets.sum() > (task == const.PUT_NEAR)
        if not is_complete:
            raise ValueError(f"the map lacks {target_name}, which the task {name!r} needs")
    may_reach_goal = (may_reach(cells, task)[0] & (cells == const.GOAL)).any()  # which is a success in every task
    if not may_reach_goal and not (targets & may_reach(cells, const.EMPTY_ROOM)[0]).any():
        raise ValueError(
            f"the agent cannot reach {target_name}: walls, lava or locked doors without a key are in the way"
        )
    num_balls = int(((cells >= const.BALL) & (cells < const.BOX)).sum())
    if task == const.DYNAMIC_OBSTACLES and num_balls > const.MAX_OBSTACLES:
        raise ValueError(f"the map has {num_balls} balls; the task {name!r} has at most {const.MAX_OBSTACLES}")
    if not may_reach_goal and (problem := _find_impossible(cells, task, targets, target_name)):
        raise ValueError(problem)


def _find_impossible(cells: np.ndarray, task: int, targets: np.ndarray, target_name: str) -> str | None:
    """Why the rules of the task certainly make success impossible where no goal is in reach; None if they may not."""
    reached, keys = may_reach(cells, task)
    if task == const.DYNAMIC_OBSTACLES:
        return "the agent cannot reach the goal: in the task 'dynamic obstacles' it can only cross empty cells"
    if task == const.UNLOCK and not any(int(code) - const.LOCKED_DOOR in keys for code in cells[targets & reached]):
        return "the agent cannot open a locked door: there is no key of its color within reach"
    if task == const.RED_BLUE_DOORS and not reached[targets].all():
        return (
            "the agent cannot open the red door and then the blue one: one of them is out of reach, or the red door is "
            "behind the blue one"
        )
    if task == const.PUT_NEAR and not _may_put_near(cells, reached, keys):
        return "the agent cannot put one object near another: fewer than two objects are within reach"
    if not (targets & reached).any():
        return f"the agent cannot reach {target_name}: in the task {const.TASKS[task]!r} it cannot open doors"
    return None


def _may_put_near(cells: np.ndarray, reached: np.ndarray, keys: set[int]) -> bool:
    """Whether the agent may be able to pick up an object and drop it in a cell next to another object."""
    is_object = (cells >= const.KEY) & (cells < AGENT)
    kinds = {_kind(int(code)) for code in cells[reached & is_object]} | {_kind(const.KEY + color) for color in keys}
    may_drop = reached & ((cells == const.EMPTY) | (cells >= const.KEY))
    padded = np.pad(may_drop, 1)
    height, width = cells.shape
    is_near = np.any([padded[y : y + height, x : x + width] for y in range(3) for x in range(3)], axis=0)
    objects = [(_kind(int(cells[y, x])) in kinds, bool(is_near[y, x])) for y, x in np.argwhere(is_object)]
    can_move, can_be_near = (sum(flags) for flags in zip(*objects, strict=True))
    return bool(can_move and can_be_near) and sum(any(flags) for flags in objects) > 1


def _kind(code: int) -> tuple[int, int]:
    """What a mission names an object by."""
    return int(const.CELL_OBJECT[code]), int(const.CELL_COLOR[code])


def may_reach(cells: np.ndarray, task: int) -> tuple[np.ndarray, set[int]]:
    """The cells that the agent can reach or touch if no object is ever in its way, (height, width) bool, and the colors
    of the keys among them.

    All other cells are certainly out of reach. Keys are collected on the way, including those in boxes.
    """
    height, width = cells.shape
    keys: set[int] = set()
    while True:
        reached = cells >= AGENT
        stack = [(int(y), int(x)) for y, x in np.argwhere(reached)]
        while stack:
            y, x = stack.pop()
            for j, i in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if 0 <= j < height and 0 <= i < width and not reached[j, i] and cells[j, i] != const.WALL:
                    reached[j, i] = True
                    if _may_enter(int(cells[j, i]), task, keys):
                        stack.append((j, i))
        new_keys = {int(code) - const.KEY for code in cells[reached] if const.KEY <= code < const.BALL}
        new_keys |= {
            (int(code) - const.BOX_WITH_KEY) // const.NUM_COLORS
            for code in cells[reached]
            if const.BOX_WITH_KEY <= code < const.NUM_CELLS
        }
        if new_keys <= keys:
            return reached, keys
        keys |= new_keys


def _may_enter(code: int, task: int, keys: set[int]) -> bool:
    """Whether the agent may be able to enter a cell, once what it contains has moved or is open, and go on."""
    if task == const.DYNAMIC_OBSTACLES:  # anything else is a collision, and nothing can be opened or picked up
        return code == const.EMPTY or const.BALL <= code < const.BOX
    if code in (const.LAVA, const.GOAL):
        return False
    if const.CLOSED_DOOR <= code < const.KEY and task in (const.GO_TO_DOOR, const.GO_TO_OBJECT):
        return False  # opening a door ends the episode
    if task == const.RED_BLUE_DOORS and code == const.CLOSED_DOOR + const.BLUE:
        return False  # opening this one ends the episode
    if const.LOCKED_DOOR <= code < const.KEY:
        return code - const.LOCKED_DOOR in keys
    return True


@jit
def load_map(env, params, map_cells, scratch):
    """Start an episode on a map, (MAX_SIZE * MAX_SIZE,) row by row; sample its target if there are several."""
    clear(env, params.width, params.height)
    first, last = TARGET_RANGES[env.task]
    count = 0
    for y in range(env.height):
        for x in range(env.width):
            code, cell = np.int64(map_cells[y * env.width + x]), cell_at(x, y)
            if code >= AGENT:
                env.cell, env.direction = cell, code - AGENT
                code = const.EMPTY
            elif env.task == const.DYNAMIC_OBSTACLES and const.BALL <= code < const.BOX:
                code = const.BALL + const.BLUE
                if env.num_obstacles < const.MAX_OBSTACLES:
                    env.obstacles[env.num_obstacles] = cell
                    env.num_obstacles += 1
            env.grid[cell] = code
            if env.task == const.RED_BLUE_DOORS:
                if code == const.CLOSED_DOOR + const.RED:
                    env.target_cell = cell
                elif code == const.CLOSED_DOOR + const.BLUE:
                    env.other_cell = cell
            elif first <= code <= last:
                scratch[count] = cell
                count += 1
    if env.task == const.PUT_NEAR:
        choose_pair(env, scratch, count)
    elif count > 0:
        env.target_cell = scratch[pcg64.integers(env.rng, 0, count)]
        code = env.grid[env.target_cell]
        if env.task == const.FETCH:
            set_mission(env, const.MISSION_FETCH, const.CELL_COLOR[code], const.CELL_OBJECT[code])
        elif env.task != const.UNLOCK:
            set_mission(env, const.MISSION[env.task], const.CELL_COLOR[code], const.CELL_OBJECT[code])
    return True
