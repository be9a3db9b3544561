"""Observations of MiniGrid: `pixels`, `symbols` and `text`.

The agent sees the 7 x 7 cells in front of it, itself in the middle of the lowest row. `symbols` is a vector of
SYMBOLS_SIZE bytes with what the package's observation holds:

    [  0: 49]  the objects in view, row by row from the top: an index in OBJECTS, 0 for cells that are not visible. The
               agent's own cell (45) shows the object that it carries
    [ 49: 98]  their colors: an index in COLORS
    [ 98:147]  the states of doors: an index in DOOR_STATES
    [147]      the direction that the agent faces: an index in DIRECTIONS
    [148:153]  the mission: an index in MISSIONS, then the color (1 + index in COLORS) and the kind (index in OBJECTS)
               of the object that it names, and of a second one; 0 for none

`text` says the same in words, and `pixels` shows the view as the package's `RGBImgPartialObsWrapper` does, in tiles of
8 x 8 pixels.
"""

from typing import Any

import numpy as np

from envgen.jit import jit

from ..observations import ObservationFormat
from ..world import SymbolMap, TileGrid
from . import constants as const

VIEW = const.VIEW_SIZE
NUM_PLANES = 3
DIRECTION_INDEX = NUM_PLANES * const.VIEW_CELLS
MISSION_INDEX = DIRECTION_INDEX + 1
MISSION_SIZE = 5
SYMBOLS_SIZE = MISSION_INDEX + MISSION_SIZE
SYMBOL_MAP = SymbolMap(NUM_PLANES, VIEW, VIEW, const.AGENT_VIEW_CELL, near_radius=2)
MAX_SYMBOLS = np.array(  # the highest value of each byte
    [len(const.OBJECTS) - 1] * const.VIEW_CELLS
    + [const.NUM_COLORS - 1] * const.VIEW_CELLS
    + [len(const.DOOR_STATES) - 1] * const.VIEW_CELLS
    + [len(const.DIRECTIONS) - 1]
    + [len(const.MISSIONS) - 1, const.NUM_COLORS, const.TYPE_BOX, const.NUM_COLORS, const.TYPE_BOX],
    np.uint8,
)
TILE_SIZE = 8  # pixels
IMAGE_SIZE = VIEW * TILE_SIZE
IMAGE_BYTES = IMAGE_SIZE * IMAGE_SIZE * 3
TILE_GRID = TileGrid(TILE_SIZE, TILE_SIZE, 0, 0, VIEW, VIEW, const.AGENT_VIEW_CELL)
TILE_WORDS = TILE_SIZE * 3 // 8  # of a row of a tile, which is copied eight bytes at a time
IMAGE_WORDS = IMAGE_SIZE * 3 // 8
HIDDEN, VISIBLE, AGENT = range(3)  # how a tile of the view is drawn

# Rows of the view are seven-bit masks, bit i for column i.
ALL_COLUMNS = (1 << VIEW) - 1
ALL_BUT_FIRST, ALL_BUT_LAST = ALL_COLUMNS & ~1, ALL_COLUMNS >> 1


@jit
def write_view(env, view):
    """Write the code of each cell in view, UNSEEN for those behind walls and closed doors, into `view`, (49,) uint8.

    The package determines what is visible row by row, starting at the agent: light spreads to the right and then to the
    left through transparent cells, and from each of them to the three cells ahead. Here a row is a bit mask, and light
    spreads by a few shifts.
    """
    ahead, right = const.STEPS[env.direction], const.STEPS[(env.direction + 1) % 4]
    grid = env.grid
    lit = 1 << (VIEW // 2)
    first = env.cell - VIEW // 2 * right
    for j in range(VIEW - 1, -1, -1):
        transparent, cell = 0, first
        for i in range(VIEW):
            code = grid[cell]
            view[j * VIEW + i] = code
            transparent |= np.int64(const.IS_TRANSPARENT[code]) << i
            cell += right
        first += ahead
        if env.sees_through_walls:
            continue
        sources = _spread_up(lit & transparent, transparent) & ALL_BUT_LAST
        lit |= sources << 1
        next_lit = sources | sources << 1
        sources = _spread_down(lit & transparent, transparent) & ALL_BUT_FIRST
        lit |= sources >> 1
        next_lit |= sources | sources >> 1
        if lit != ALL_COLUMNS:
            for i in range(VIEW):
                if not lit >> i & 1:
                    view[j * VIEW + i] = const.UNSEEN
        lit = next_lit
    view[const.AGENT_VIEW_CELL] = env.carrying


@jit
def _spread_up(lit, transparent):
    """The lit columns, and those that light reaches from them through transparent columns to their right."""
    for _ in range(3):
        lit |= (lit << 1) & transparent
        lit |= (lit << 1) & transparent
    return lit


@jit
def _spread_down(lit, transparent):
    """The same to their left."""
    for _ in range(3):
        lit |= (lit >> 1) & transparent
        lit |= (lit >> 1) & transparent
    return lit


@jit
def write_symbols(env, symbols):
    """Write the symbols of an environment into `symbols`, (SYMBOLS_SIZE,) uint8."""
    write_view(env, symbols)
    for k in range(const.VIEW_CELLS):
        code = symbols[k]
        symbols[const.VIEW_CELLS + k] = const.CELL_COLOR[code]
        symbols[2 * const.VIEW_CELLS + k] = const.CELL_STATE[code]
        symbols[k] = const.CELL_OBJECT[code]
    symbols[DIRECTION_INDEX] = env.direction
    for k in range(MISSION_SIZE):
        symbols[MISSION_INDEX + k] = env.mission[k]


@jit
def render_view(env, tiles, view, pixels):
    """Draw the view into `pixels`, (IMAGE_BYTES,) uint8. `tiles` is (NUM_CELLS, 3, TILE_SIZE, TILE_WORDS) uint64."""
    write_view(env, view)
    words = pixels.view(np.uint64)
    for k in range(const.VIEW_CELLS):
        look = AGENT if k == const.AGENT_VIEW_CELL else VISIBLE if view[k] != const.UNSEEN else HIDDEN
        tile = tiles[view[k], look]
        first = k // VIEW * TILE_SIZE * IMAGE_WORDS + k % VIEW * TILE_WORDS
        for y in range(TILE_SIZE):
            for x in range(TILE_WORDS):
                words[first + x] = tile[y, x]
            first += IMAGE_WORDS


# --- symbols as names


def mission_text(mission: np.ndarray) -> str:
    """The mission of a symbol vector or of a state, (MISSION_SIZE,), in words."""
    index, color, kind, other_color, other_kind = (int(value) for value in mission)
    names = ("", *const.COLORS)
    return const.MISSIONS[index].format(
        color=names[color], object=const.OBJECTS[kind], other_color=names[other_color],
        other_object=const.OBJECTS[other_kind],
    )  # fmt: skip


def decode_symbols(symbols: np.ndarray) -> dict[str, Any]:
    """The package's observation of a symbol vector: `image` (column, row, plane), `direction` and `mission`."""
    if np.shape(symbols) != (SYMBOLS_SIZE,):
        raise ValueError(f"a symbol vector has shape ({SYMBOLS_SIZE},), not {np.shape(symbols)}")
    return {
        "image": symbols[:DIRECTION_INDEX].reshape(NUM_PLANES, VIEW, VIEW).transpose(2, 1, 0),
        "direction": int(symbols[DIRECTION_INDEX]),
        "mission": mission_text(symbols[MISSION_INDEX:]),
    }


# --- text

CHARACTERS = {"unseen": " ", "empty": ".", "wall": "#", "floor": "_", "door": "D", "key": "k", "ball": "o", "box": "B",
              "goal": "G", "lava": "~"}  # fmt: skip
DOOR_CHARACTERS = "'DL"  # open, closed, locked
ARROWS = ">v<^"
LEGEND = "^ you, # wall, . empty, D door, ' open door, L locked door, k key, o ball, B box, G goal, ~ lava, _ floor"


def view_map(symbols: np.ndarray) -> str:
    """The view as rows of characters."""
    planes = symbols[:DIRECTION_INDEX].reshape(NUM_PLANES, VIEW, VIEW)
    rows = []
    for objects, states in zip(planes[0], planes[2], strict=True):
        names = [const.OBJECTS[kind] for kind in objects]
        rows.append(
            [
                DOOR_CHARACTERS[state] if name == "door" else CHARACTERS[name]
                for name, state in zip(names, states, strict=True)
            ]
        )
    rows[VIEW - 1][VIEW // 2] = "^"
    return "\n".join("".join(row) for row in rows)


def describe_symbols(symbols: np.ndarray) -> str:
    """A symbol vector in a few exact sentences, and a map of the view."""
    planes = symbols[:DIRECTION_INDEX].reshape(NUM_PLANES, const.VIEW_CELLS)
    carried = _object_name(*planes[:, const.AGENT_VIEW_CELL])
    objects = []  # (distance, cells ahead, cells to the right, name)
    for k, kind in enumerate(planes[0]):
        if kind >= const.TYPE_DOOR and k != const.AGENT_VIEW_CELL:
            ahead, right = VIEW - 1 - k // VIEW, k % VIEW - VIEW // 2
            objects.append((ahead + abs(right), ahead, right, _object_name(*planes[:, k])))
    nearest = sorted(objects)[:MAX_NAMED_OBJECTS]
    visible = ", ".join(f"{name} {_offset_text(ahead, right)}" for _, ahead, right, name in nearest)
    return "\n".join(
        [
            f"Your mission: {mission_text(symbols[MISSION_INDEX:])}.",
            f"You face {const.DIRECTIONS[symbols[DIRECTION_INDEX]]} and carry {carried or 'nothing'}.",
            f"You see: {visible or 'no objects'}.",
            f"What is ahead of you ({LEGEND}):",
            view_map(symbols),
        ]
    )


MAX_NAMED_OBJECTS = 20  # the text has a limited length


def _object_name(kind: int, color: int, state: int) -> str:
    name = const.OBJECTS[kind]
    if kind <= const.TYPE_WALL:
        return ""
    if kind in (const.TYPE_GOAL, const.TYPE_LAVA):
        return name
    prefix = f"{const.DOOR_STATES[state]} " if kind == const.TYPE_DOOR else ""
    return f"{prefix}{const.COLORS[color]} {name}"


def _offset_text(ahead: int, right: int) -> str:
    parts = [f"{ahead} ahead"] if ahead else []
    parts += [f"{abs(right)} {'right' if right > 0 else 'left'}"] if right else []
    return " ".join(parts)


def observation_format(observation: str) -> ObservationFormat:
    """The format of an observation."""
    return ObservationFormat(
        observation, (IMAGE_SIZE, IMAGE_SIZE), MAX_SYMBOLS, describe_symbols, len(const.SKILLS)
    )  # fmt: skip
