"""Maps for the tests of MiniGrid."""

import numpy as np

from envgen.worlds.minigrid import constants as const
from envgen.worlds.minigrid.maps import AGENT, COLOR_LETTERS, OBJECT_CELLS, SIMPLE_CELLS, TOKEN
from envgen.worlds.minigrid.state import to_position


def room(*rows: str) -> list[str]:
    """Rows of cells with walls around them."""
    wall = "#" * (len(TOKEN.findall(rows[0])) + 2)
    return [wall, *(f"#{row}#" for row in rows), wall]


def format_map(env: np.void, grid: np.ndarray) -> tuple[str, ...]:
    """The rows of a map from a state and its grid without the margin: the inverse of `parse_map`."""
    symbols = {code: symbol for symbol, code in SIMPLE_CELLS.items()}
    for letter, first in OBJECT_CELLS.items():
        symbols |= {first + k: letter + color for k, color in enumerate(COLOR_LETTERS)}
    for k, key in enumerate(COLOR_LETTERS):
        for n, box in enumerate(COLOR_LETTERS):
            symbols[const.BOX_WITH_KEY + const.NUM_COLORS * k + n] = f"X{box}(K{key})"
    rows = [[symbols[int(code)] for code in row] for row in grid]
    x, y = to_position(env["cell"])
    rows[y][x] = symbols[AGENT + int(env["direction"])]
    return tuple("".join(row) for row in rows)
