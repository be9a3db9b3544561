"""`symbols`: what the picture shows as a short vector of bytes, `decode` back to names, and `text`, the same in words.

A symbol vector holds (SIZE bytes):

    [  0:625]  what is on each cell of a map of 25 x 25 cells with the agent in its middle (cell 312), row by row
               from the top; index in SIGNS, 0 for walls and for what is not seen. The original's easy and hard worlds
               lie in it as a whole; in memory mode 9 x 9 cells are seen, all that the picture shows a part of
    [625:627]  where in its cell the agent's middle is, right of the left edge and above the lower one, in 1/32 cells
    [627:629]  velocity to the right and upwards, v in cells a step as 128 + 128 v: 128 at rest
    [629:632]  1 for the blue, green, red key held, else 0
    [632]      direction the agent faces: index in DIRECTIONS

For agents that do not look at the whole map, `MAP` says which cells matter each for itself: the walls around.
"""

import numpy as np

from envgen.jit import jit

from ..world import SymbolMap
from . import constants as t

RADIUS = 12  # cells of the map in each direction
MEMORY_RADIUS = 4
ACROSS = 2 * RADIUS + 1
CELLS = ACROSS * ACROSS
MIDDLE = CELLS // 2
PLACE_AT, VELOCITY_AT, KEYS_AT = CELLS, CELLS + 2, CELLS + 4
FACING_AT = KEYS_AT + t.KEYS
SIZE = FACING_AT + 1
MAP = SymbolMap(planes=1, rows=ACROSS, columns=ACROSS, center=MIDDLE, near_radius=MEMORY_RADIUS)
FINE = 32  # parts of a cell; agents take so few values for symbols, more for numbers
STILL = 128
FASTEST = 255
DIRECTIONS = (
    "right", "up and left", "left", "down and left", "down", "up", "down and right", "up and right",
)  # fmt: skip
_DIRECTION_OF = np.array([3, 2, 1, 4, 0, 5, 6, 0, 7], np.uint8)  # by the action that faces it; right before any

HIGHEST = np.array(
    [len(t.SIGNS) - 1] * CELLS + [FINE - 1] * 2 + [FASTEST] * 2 + [1] * t.KEYS + [len(DIRECTIONS) - 1], np.uint8
)  # of each byte


@jit
def _within(value, highest):
    return np.uint8(min(max(np.int64(value), 0), highest))


@jit
def write_symbols(e, out, moved):
    """The symbols of an environment into `out` (SIZE,).

    The map in `out` stays as it is while the agent has not `moved` to another cell and nothing asks to `redraw`.
    """
    if moved or e.redraw:
        _write_map(e, out)
        e.redraw = 0
    i, j = np.int64(e.x), np.int64(e.y)
    out[PLACE_AT] = _within((e.x - np.float32(i)) * FINE, FINE - 1)
    out[PLACE_AT + 1] = _within((e.y - np.float32(j)) * FINE, FINE - 1)
    out[VELOCITY_AT] = _within(np.rint(STILL + e.vx * STILL), FASTEST)
    out[VELOCITY_AT + 1] = _within(np.rint(STILL + e.vy * STILL), FASTEST)
    for colour in range(t.KEYS):
        out[KEYS_AT + colour] = e.has_key[colour]
    out[FACING_AT] = _DIRECTION_OF[e.facing]


@jit
def _write_map(e, out):
    i, j = np.int64(e.x), np.int64(e.y)
    radius = MEMORY_RADIUS if e.mode == t.MEMORY else RADIUS
    out[:CELLS] = 0
    left, right = max(i - radius, 0), min(i + radius, e.side - 1)
    for y in range(max(j - radius, 0), min(j + radius, e.side - 1) + 1):
        first = (j + RADIUS - y) * ACROSS + RADIUS - i
        for x in range(left, right + 1):
            out[first + x] = e.grid[y, x]


def decode(symbols: np.ndarray) -> dict:
    """A symbol vector in words: the map as rows of names, from the top; place and velocity in cells."""
    if np.shape(symbols) != (SIZE,):
        raise ValueError(f"a symbol vector has shape ({SIZE},), not {np.shape(symbols)}")
    return {
        "map": [[t.SIGNS[s] for s in row] for row in symbols[:CELLS].reshape(ACROSS, ACROSS)],
        "place": tuple(int(p) / FINE for p in symbols[PLACE_AT:VELOCITY_AT]),
        "velocity": tuple((int(v) - STILL) / STILL for v in symbols[VELOCITY_AT:KEYS_AT]),
        "keys": tuple(c for c, held in zip(t.COLOURS, symbols[KEYS_AT:FACING_AT], strict=True) if held),
        "facing": DIRECTIONS[symbols[FACING_AT]],
    }


LETTERS = "#.bgrBGR*"  # by SIGNS
LEGEND = "@ you, # wall, . free, b g r keys, B G R doors of their colour, * gem"


def describe(symbols: np.ndarray) -> str:
    """The same in a few exact sentences and a map of what is free, with the walls around it."""
    said = decode(symbols)
    signs = symbols[:CELLS].reshape(ACROSS, ACROSS)
    letters = np.array(list(LETTERS))[signs]
    letters[RADIUS, RADIUS] = "@"
    rows, columns = np.nonzero(letters != "#")
    top, left = max(rows.min() - 1, 0), max(columns.min() - 1, 0)
    lines = ["".join(row) for row in letters[top : rows.max() + 2, left : columns.max() + 2]]
    held = " and ".join(said["keys"])
    named = [(int(abs(y - RADIUS) + abs(x - RADIUS)), int(x) - RADIUS, RADIUS - int(y), t.SIGNS[signs[y, x]])
             for y, x in zip(rows, columns, strict=True) if signs[y, x] > t.FLOOR]  # fmt: skip
    things = ", ".join(f"{name} {_place(dx, dy)}" for _, dx, dy, name in sorted(named))
    return "\n".join(
        [
            f"You hold {f'the {held} key' + 's' * (len(said['keys']) > 1) if held else 'no key'}.",
            f"You face {said['facing']} and {_motion(said['velocity'])}; you are {_slack(said['place'])}.",
            f"You see: {things or 'nothing but walls'}.",
            f"The map ({LEGEND}):",
            *lines,
        ]
    )


def _place(dx: int, dy: int) -> str:
    parts = [f"{abs(dx)} {'left' if dx < 0 else 'right'}"] if dx else []
    parts += [f"{abs(dy)} {'down' if dy < 0 else 'up'}"] if dy else []
    return " ".join(parts) or "here"


def _motion(velocity: tuple[float, float]) -> str:
    if velocity == (0.0, 0.0):
        return "stand still"
    return f"move {velocity[0]:+.2f} to the right and {velocity[1]:+.2f} upwards a step"


def _slack(place: tuple[float, float]) -> str:
    return f"{place[0]:.2f} right of your cell's left edge and {place[1]:.2f} above its lower one"
