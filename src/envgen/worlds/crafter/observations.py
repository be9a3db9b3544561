"""`symbols`: the picture as a short vector of bytes, `decode` back to names, and `text`, the same for language models.

A symbol vector holds what the picture shows and nothing else (SIZE bytes):

    [  0:63]   material of each cell of the 9 x 7 map, row by row; index in MATERIALS, 0 outside the map
    [ 63:126]  entity on each cell; index in SIGNS: which way an arrow flies and whether a plant is ripe are part of it.
               The player, always in the middle (cell 31), is left out
    [126:142]  inventory in the order of ITEMS: health, food, drink, energy, then the items, each 0 to 9
    [142]      1 + direction the player faces (left, right, up, down), or 0 asleep, when the picture does not show it
    [143]      1 asleep, else 0
    [144]      daylight, 0 dark to 255 bright
"""

import string
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from envgen.jit import jit

from ..world import SymbolMap
from . import constants as const
from .render import COW_SPRITE, RIPE_PLANT_SPRITE, sprite_of

if TYPE_CHECKING:
    from .engine import Engine

NO_OBSERVATION, SYMBOLS, PIXELS = 0, 1, 2  # what the kernel writes
OBSERVATION_MODES = {"pixels": PIXELS, "symbols": SYMBOLS, "text": SYMBOLS}
MAX_TEXT_LENGTH = 2000
TEXT_CHARSET = frozenset(string.ascii_letters + string.digits + string.punctuation + " \n")

SIGNS = (
    "none", "cow", "zombie", "skeleton", "arrow left", "arrow right", "arrow up", "arrow down", "sapling", "ripe plant",
)  # fmt: skip
COLUMNS, ROWS = const.LOCAL_VIEW
CELLS = COLUMNS * ROWS
MIDDLE = CELLS // 2
SIGN_AT, ITEM_AT = CELLS, 2 * CELLS
FACING_AT = ITEM_AT + len(const.ITEMS)
ASLEEP_AT, LIGHT_AT = FACING_AT + 1, FACING_AT + 2
SIZE = FACING_AT + 3
assert len(SIGNS) == RIPE_PLANT_SPRITE - COW_SPRITE + 2

MAX_SYMBOLS = np.array(
    [len(const.MATERIALS) - 1] * CELLS
    + [len(SIGNS) - 1] * CELLS
    + [const.MAX_ITEM_COUNT] * len(const.ITEMS)
    + [4, 1, 255],
    np.uint8,
)  # of each byte

SYMBOL_MAP = SymbolMap(
    planes=2,
    rows=ROWS,
    columns=COLUMNS,
    center=MIDDLE,
    facing_index=FACING_AT,
    direction_offsets=const.DIRECTION_OFFSETS,
)


@jit
def write_symbols(env, entities, out):
    """The symbols of an environment into `out` (SIZE,)."""
    player = entities[0]
    cell = 0
    for y in range(player.y - ROWS // 2, player.y + ROWS // 2 + 1):
        for x in range(player.x - COLUMNS // 2, player.x + COLUMNS // 2 + 1):
            material, sign = 0, 0
            if 0 <= x < const.MAP_SIZE and 0 <= y < const.MAP_SIZE:
                material = np.int64(env.ground[x, y])
                slot = env.entity_slots[x, y]
                if slot > 1:
                    sign = sprite_of(env, entities, slot - 1) - COW_SPRITE + 1
            out[cell] = material
            out[SIGN_AT + cell] = sign
            cell += 1
    for item in range(len(const.ITEMS)):
        out[ITEM_AT + item] = env.inventory[item]
    asleep = env.sleeping
    out[FACING_AT] = 0 if asleep else 1 + env.facing
    out[ASLEEP_AT] = asleep
    out[LIGHT_AT] = np.uint8(255 * env.daylight)


def decode_symbols(symbols: np.ndarray) -> dict:
    """A symbol vector in words: the map as rows of names, the inventory by item."""
    if np.shape(symbols) != (SIZE,):
        raise ValueError(f"a symbol vector has shape ({SIZE},), not {np.shape(symbols)}")
    facing = int(symbols[FACING_AT])
    return {
        "materials": [[const.MATERIALS[m] for m in row] for row in symbols[:CELLS].reshape(ROWS, COLUMNS)],
        "entities": [[SIGNS[c] for c in row] for row in symbols[SIGN_AT:ITEM_AT].reshape(ROWS, COLUMNS)],
        "inventory": {item: int(symbols[ITEM_AT + k]) for k, item in enumerate(const.ITEMS)},
        "facing": const.DIRECTIONS[facing - 1] if facing else None,
        "sleeping": bool(symbols[ASLEEP_AT]),
        "daylight": int(symbols[LIGHT_AT]) / 255,
    }


def _place(dx: int, dy: int) -> str:
    parts = []
    if dy:
        parts.append(f"{abs(dy)} {'up' if dy < 0 else 'down'}")
    if dx:
        parts.append(f"{abs(dx)} {'left' if dx < 0 else 'right'}")
    return " ".join(parts)


def _ahead(symbols: np.ndarray) -> str:
    dx, dy = const.DIRECTION_OFFSETS[int(symbols[FACING_AT]) - 1]
    cell = MIDDLE + dy * COLUMNS + dx
    sign, material = int(symbols[SIGN_AT + cell]), const.MATERIALS[symbols[cell]]
    return f"{SIGNS[sign]} on {material}" if sign else material


def describe_symbols(symbols: np.ndarray) -> str:
    """The same in a few exact sentences: the body, belongings, what is ahead, the nearest of everything seen."""
    items = {item: int(symbols[ITEM_AT + k]) for k, item in enumerate(const.ITEMS)}
    nearest: dict[str, tuple[int, int, int, int]] = {}  # name: (distance, dy, dx, how many)
    for cell in range(CELLS):
        dy, dx = cell // COLUMNS - ROWS // 2, cell % COLUMNS - COLUMNS // 2
        if cell == MIDDLE:
            continue
        sign = int(symbols[SIGN_AT + cell])
        for name in (const.MATERIALS[symbols[cell]], SIGNS[sign] if sign else None):
            if name:
                seen = nearest.get(name, (99, 0, 0, 0))
                nearest[name] = (*min(seen[:3], (abs(dx) + abs(dy), dy, dx)), seen[3] + 1)
    held = [f"{count} {item.replace('_', ' ')}" for item, count in items.items() if count and item not in const.VITALS]
    light = symbols[LIGHT_AT] / 255
    asleep = bool(symbols[ASLEEP_AT])
    lines = [
        ", ".join(f"{vital} {items[vital]}" for vital in const.VITALS) + " of 9.",
        f"You have {', '.join(held) or 'nothing'}.",
        f"It is {'bright' if light > 0.75 else 'getting dark' if light > 0.4 else 'night'} ({light:.0%} light).",
    ]
    if asleep:
        lines.append(f"You are asleep on {const.MATERIALS[symbols[MIDDLE]]}.")
    else:
        direction = const.DIRECTIONS[int(symbols[FACING_AT]) - 1]
        lines.append(f"You stand on {const.MATERIALS[symbols[MIDDLE]]} and face {direction}: {_ahead(symbols)}.")
    views = [
        f"{name} {_place(dx, dy)}" + (f" (nearest of {many})" if many > 1 else "")
        for name, (_, dy, dx, many) in sorted(nearest.items(), key=lambda entry: entry[1])
    ]
    lines.append(f"You see: {', '.join(views)}.")
    return "\n".join(lines)


def make_observation_space(observation: str, size: tuple[int, int]) -> gymnasium.Space:
    if observation == "pixels":
        return spaces.Box(0, 255, (size[1], size[0], 3), np.uint8)
    if observation == "symbols":
        return spaces.Box(np.zeros_like(MAX_SYMBOLS), MAX_SYMBOLS, dtype=np.uint8)
    return spaces.Text(max_length=MAX_TEXT_LENGTH, min_length=1, charset=TEXT_CHARSET)


def read_observation(observation: str, size: tuple[int, int], row: np.ndarray) -> Any:
    """One environment's observation, a copy of its bytes."""
    if observation == "pixels":
        return row.reshape(size[1], size[0], 3).copy()
    return row.copy() if observation == "symbols" else describe_symbols(row)


def read_observations(observation: str, size: tuple[int, int], rows: np.ndarray) -> Any:
    """All environments' observations as one batch; `rows` are the caller's own."""
    if observation == "pixels":
        return rows.reshape(len(rows), size[1], size[0], 3)
    return rows if observation == "symbols" else tuple(describe_symbols(row) for row in rows)


def semantic_map(engine: "Engine", i: int) -> np.ndarray:
    """The original's semantic map of environment i, at [x, y]: materials, and entities above them."""
    env = engine.state.envs[i]
    canvas = env["ground"].copy()
    entities = engine.state.entities[i][: env["num_entities"]]
    canvas[entities["x"], entities["y"]] = entities["kind"].astype(np.uint8) + len(const.MATERIALS) - 1
    assert canvas.shape == (const.MAP_SIZE, const.MAP_SIZE)
    return canvas
