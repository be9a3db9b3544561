"""Observations of Heist: `pixels`, `symbols` and `text`.

`symbols` is what the image shows as a vector of SYMBOLS_SIZE bytes:

    [  0:625]  the contents of a map of 25 x 25 cells with the agent in its center (cell 312), row by row from the top:
               an index in CELL_NAMES, 0 for walls and for what is not visible. The grids of the reference's easy and
               hard modes always fit on the map. In memory mode 9 x 9 cells are visible, all that the image shows at
               least a part of
    [625:627]  the position of the agent's center in its cell, from the left and from the bottom edge, in 1/32 cells
    [627:629]  the velocity to the right and upwards: 128 + 128 v for v cells per step, 128 at rest
    [629:632]  1 if the blue, green, red key is held, else 0
    [632]      the direction that the agent faces: an index in DIRECTIONS

`text` says the same in words. `SYMBOL_MAP` tells agents that do not read the whole map which cells matter individually:
the walls around the agent.
"""

import numpy as np

from envgen.jit import jit

from ..observations import ObservationFormat
from ..world import SymbolMap
from . import constants as const
from .background import FRAME_SIZE

# --- symbols

MAP_RADIUS = 12  # cells of the map in each direction
MEMORY_RADIUS = 4  # visible cells in each direction in memory mode
MAP_SIZE = 2 * MAP_RADIUS + 1
MAP_CELLS = MAP_SIZE * MAP_SIZE
POSITION_INDEX, VELOCITY_INDEX, KEYS_INDEX = MAP_CELLS, MAP_CELLS + 2, MAP_CELLS + 4
FACING_INDEX = KEYS_INDEX + const.NUM_COLORS
SYMBOLS_SIZE = FACING_INDEX + 1
SYMBOL_MAP = SymbolMap(planes=1, rows=MAP_SIZE, columns=MAP_SIZE, center=MAP_CELLS // 2, near_radius=MEMORY_RADIUS)
SUBCELLS = 32  # steps of the position within a cell; agents treat bytes with few values as symbols, others as numbers
ZERO_VELOCITY = 128
MAX_VELOCITY = 255
DIRECTIONS = (
    "right", "up and left", "left", "down and left", "down", "up", "down and right", "up and right",
)  # fmt: skip
# By action, an index in DIRECTIONS. NOOP stands for no direction pressed yet: the agent then faces right.
DIRECTION_OF_ACTION = np.array([3, 2, 1, 4, 0, 5, 6, 0, 7], np.uint8)

MAX_SYMBOLS = np.array(  # the highest value of each byte
    [len(const.CELL_NAMES) - 1] * MAP_CELLS
    + [SUBCELLS - 1] * 2
    + [MAX_VELOCITY] * 2
    + [1] * const.NUM_COLORS
    + [len(DIRECTIONS) - 1],
    np.uint8,
)


@jit
def _clip(value, highest):
    return np.uint8(min(max(np.int64(value), 0), highest))


@jit
def write_symbols(env, symbols, cell_changed):
    """Write the symbols of an environment into `symbols`, (SYMBOLS_SIZE,) uint8.

    The map is rewritten only if the agent came to another cell (`cell_changed`) or the environment needs a redraw.
    """
    if cell_changed or env.needs_redraw:
        _write_map(env, symbols)
        env.needs_redraw = 0
    i, j = np.int64(env.x), np.int64(env.y)
    symbols[POSITION_INDEX] = _clip((env.x - np.float32(i)) * SUBCELLS, SUBCELLS - 1)
    symbols[POSITION_INDEX + 1] = _clip((env.y - np.float32(j)) * SUBCELLS, SUBCELLS - 1)
    symbols[VELOCITY_INDEX] = _clip(np.rint(ZERO_VELOCITY + env.vx * ZERO_VELOCITY), MAX_VELOCITY)
    symbols[VELOCITY_INDEX + 1] = _clip(np.rint(ZERO_VELOCITY + env.vy * ZERO_VELOCITY), MAX_VELOCITY)
    for color in range(const.NUM_COLORS):
        symbols[KEYS_INDEX + color] = env.has_key[color]
    symbols[FACING_INDEX] = DIRECTION_OF_ACTION[env.facing]


@jit
def _write_map(env, symbols):
    i, j = np.int64(env.x), np.int64(env.y)
    radius = MEMORY_RADIUS if env.mode == const.MEMORY else MAP_RADIUS
    symbols[:MAP_CELLS] = 0
    left, right = max(i - radius, 0), min(i + radius, env.world_size - 1)
    for y in range(max(j - radius, 0), min(j + radius, env.world_size - 1) + 1):
        first = (j + MAP_RADIUS - y) * MAP_SIZE + MAP_RADIUS - i
        for x in range(left, right + 1):
            symbols[first + x] = env.grid[y, x]


def decode_symbols(symbols: np.ndarray) -> dict:
    """A symbol vector as names and numbers: the map as rows of names from the top; position and velocity in cells."""
    if np.shape(symbols) != (SYMBOLS_SIZE,):
        raise ValueError(f"a symbol vector has shape ({SYMBOLS_SIZE},), not {np.shape(symbols)}")
    return {
        "map": [[const.CELL_NAMES[s] for s in row] for row in symbols[:MAP_CELLS].reshape(MAP_SIZE, MAP_SIZE)],
        "position": tuple(int(p) / SUBCELLS for p in symbols[POSITION_INDEX:VELOCITY_INDEX]),
        "velocity": tuple((int(v) - ZERO_VELOCITY) / ZERO_VELOCITY for v in symbols[VELOCITY_INDEX:KEYS_INDEX]),
        "keys": tuple(c for c, is_held in zip(const.COLORS, symbols[KEYS_INDEX:FACING_INDEX], strict=True) if is_held),
        "facing": DIRECTIONS[symbols[FACING_INDEX]],
    }


# --- text

CELL_CHARACTERS = "#.bgrBGR*"  # by CELL_NAMES
LEGEND = "@ you, # wall, . free, b g r keys, B G R doors of their color, * gem"


def describe_symbols(symbols: np.ndarray) -> str:
    """A symbol vector in a few exact sentences, and a map of the free cells and the walls around them."""
    decoded = decode_symbols(symbols)
    cells = symbols[:MAP_CELLS].reshape(MAP_SIZE, MAP_SIZE)
    characters = np.array(list(CELL_CHARACTERS))[cells]
    characters[MAP_RADIUS, MAP_RADIUS] = "@"
    rows, columns = np.nonzero(characters != "#")
    top, left = max(rows.min() - 1, 0), max(columns.min() - 1, 0)
    map_lines = ["".join(row) for row in characters[top : rows.max() + 2, left : columns.max() + 2]]
    held_keys = " and ".join(decoded["keys"])
    entities = []  # (distance, cells to the right, cells up, name)
    for row, column in zip(rows, columns, strict=True):
        if cells[row, column] > const.FLOOR:
            dx, dy = int(column) - MAP_RADIUS, MAP_RADIUS - int(row)
            entities.append((abs(dx) + abs(dy), dx, dy, const.CELL_NAMES[cells[row, column]]))
    visible = ", ".join(f"{name} {_offset_text(dx, dy)}" for _, dx, dy, name in sorted(entities))
    return "\n".join(
        [
            f"You hold {f'the {held_keys} key' + 's' * (len(decoded['keys']) > 1) if held_keys else 'no key'}.",
            f"You face {decoded['facing']} and {_motion_text(decoded['velocity'])}; "
            f"you are {_position_text(decoded['position'])}.",
            f"You see: {visible or 'nothing but walls'}.",
            f"The map ({LEGEND}):",
            *map_lines,
        ]
    )


def _offset_text(dx: int, dy: int) -> str:
    parts = [f"{abs(dx)} {'left' if dx < 0 else 'right'}"] if dx else []
    parts += [f"{abs(dy)} {'down' if dy < 0 else 'up'}"] if dy else []
    return " ".join(parts) or "here"


def _motion_text(velocity: tuple[float, float]) -> str:
    if velocity == (0.0, 0.0):
        return "stand still"
    return f"move {velocity[0]:+.2f} to the right and {velocity[1]:+.2f} upwards a step"


def _position_text(position: tuple[float, float]) -> str:
    return f"{position[0]:.2f} right of your cell's left edge and {position[1]:.2f} above its lower one"


def observation_format(observation: str) -> ObservationFormat:
    """The format of an observation."""
    return ObservationFormat(observation, (FRAME_SIZE, FRAME_SIZE), MAX_SYMBOLS, describe_symbols, len(const.SKILLS))
