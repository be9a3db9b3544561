"""The `symbols` and `text` observations, and a character map for terminals.

A symbol vector holds what the image shows, and nothing that it does not show (NUM_SYMBOLS bytes):

    [  0:63]   material of each cell of the 9 x 7 map, row by row; index in MATERIALS, 0 outside the map
    [ 63:126]  entity on each cell; index in ENTITY_SYMBOLS. The player, always in the middle (cell 31), is left out
    [126:142]  inventory in the order of ITEMS: health, food, drink, energy, then the items, each 0 to 9
    [142]      1 + the direction the player faces (left, right, up, down), or 0 during sleep, when the image hides it
    [143]      1 during sleep, else 0
    [144]      daylight, from 0 (dark) to 255 (bright)

`decode_symbols` turns a vector into names, `describe_symbols` into the `text` observation, and `ascii_map` into a map
of characters.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from envgen.jit import jit

from ..observations import ObservationFormat
from ..world import SymbolMap
from . import constants as const
from .render import COW_SPRITE, RIPE_PLANT_SPRITE, sprite_of

if TYPE_CHECKING:
    from .engine import Engine


ENTITY_SYMBOLS = (
    "none", "cow", "zombie", "skeleton", "arrow left", "arrow right", "arrow up", "arrow down", "sapling", "ripe plant",
)  # fmt: skip
COLUMNS, ROWS = const.LOCAL_VIEW
NUM_CELLS = COLUMNS * ROWS
PLAYER_CELL = NUM_CELLS // 2
ENTITY_OFFSET, ITEM_OFFSET = NUM_CELLS, 2 * NUM_CELLS
FACING_INDEX = ITEM_OFFSET + len(const.ITEMS)
ASLEEP_INDEX, DAYLIGHT_INDEX = FACING_INDEX + 1, FACING_INDEX + 2
NUM_SYMBOLS = FACING_INDEX + 3
assert len(ENTITY_SYMBOLS) == RIPE_PLANT_SPRITE - COW_SPRITE + 2

MAX_SYMBOLS = np.array(  # the highest value of each byte
    [len(const.MATERIALS) - 1] * NUM_CELLS
    + [len(ENTITY_SYMBOLS) - 1] * NUM_CELLS
    + [const.MAX_ITEM_COUNT] * len(const.ITEMS)
    + [len(const.DIRECTIONS), 1, 255],
    np.uint8,
)
SYMBOL_MAP = SymbolMap(
    planes=2,
    rows=ROWS,
    columns=COLUMNS,
    center=PLAYER_CELL,
    facing_index=FACING_INDEX,
    direction_offsets=const.DIRECTION_OFFSETS,
)


def _make_skill_events() -> np.ndarray:
    """The event in which each skill is usually achieved for the first time: an action and the symbol of the faced cell,
    where the symbols of both planes are numbered one after the other. -1 for `wake_up`, which depends on neither.

    (skills, 2) int16.
    """
    symbols = [*const.MATERIALS, *ENTITY_SYMBOLS[1:]]
    faced = {f"collect_{name}": name for name in ("coal", "diamond", "iron", "stone")}
    faced |= {"collect_wood": "tree", "collect_sapling": "grass", "collect_drink": "water", "eat_plant": "ripe plant"}
    faced |= {"eat_cow": "cow", "defeat_zombie": "zombie", "defeat_skeleton": "skeleton"}
    events = {skill: ("do", symbol) for skill, symbol in faced.items()}
    places = {"stone": "path", "furnace": "path", "table": "grass", "plant": "grass"}
    events |= {f"place_{name}": (f"place_{name}", symbol) for name, symbol in places.items()}
    for tool in ("pickaxe", "sword"):
        for material, symbol in (("wood", "table"), ("stone", "table"), ("iron", "furnace")):
            events[f"make_{material}_{tool}"] = (f"make_{material}_{tool}", symbol)
    return np.array([
        (const.ACTIONS.index(events[name][0]), symbols.index(events[name][1])) if name in events else (-1, -1)
        for name in (skill.name for skill in const.SKILLS)
    ], np.int16)  # fmt: skip


SKILL_EVENTS = _make_skill_events()


@jit
def write_symbols(env, entities, out):
    """Write the symbols of an environment to `out` (NUM_SYMBOLS,)."""
    player = entities[0]
    cell = 0
    for y in range(player.y - ROWS // 2, player.y + ROWS // 2 + 1):
        for x in range(player.x - COLUMNS // 2, player.x + COLUMNS // 2 + 1):
            material, symbol = 0, 0
            if 0 <= x < const.MAP_SIZE and 0 <= y < const.MAP_SIZE:
                material = np.int64(env.ground[x, y])
                slot = env.entity_slots[x, y]
                if slot > 1:
                    symbol = sprite_of(env, entities, slot - 1) - COW_SPRITE + 1
            out[cell] = material
            out[ENTITY_OFFSET + cell] = symbol
            cell += 1
    for item in range(len(const.ITEMS)):
        out[ITEM_OFFSET + item] = env.inventory[item]
    sleeping = env.sleeping
    out[FACING_INDEX] = 0 if sleeping else 1 + env.facing
    out[ASLEEP_INDEX] = sleeping
    out[DAYLIGHT_INDEX] = np.uint8(255 * env.daylight)


def semantic_map(engine: "Engine", i: int) -> np.ndarray:
    """The reference's semantic map of environment i, at [x, y]: the material, or the entity on it."""
    env = engine.state.envs[i]
    result = env["ground"].copy()
    entities = engine.state.entities[i][: env["num_entities"]]
    result[entities["x"], entities["y"]] = entities["kind"].astype(np.uint8) + len(const.MATERIALS) - 1
    return result


def decode_symbols(symbols: np.ndarray) -> dict:
    """The names behind a symbol vector: the map as rows of names, the inventory by item.

    The keys are `materials`, `entities`, `inventory`, `facing` (None during sleep), `sleeping` and `daylight`.
    """
    if np.shape(symbols) != (NUM_SYMBOLS,):
        raise ValueError(f"a symbol vector has shape ({NUM_SYMBOLS},), not {np.shape(symbols)}")
    facing = int(symbols[FACING_INDEX])
    materials = symbols[:NUM_CELLS].reshape(ROWS, COLUMNS)
    entities = symbols[ENTITY_OFFSET:ITEM_OFFSET].reshape(ROWS, COLUMNS)
    return {
        "materials": [[const.MATERIALS[m] for m in row] for row in materials],
        "entities": [[ENTITY_SYMBOLS[k] for k in row] for row in entities],
        "inventory": {item: int(symbols[ITEM_OFFSET + k]) for k, item in enumerate(const.ITEMS)},
        "facing": const.DIRECTIONS[facing - 1] if facing else None,
        "sleeping": bool(symbols[ASLEEP_INDEX]),
        "daylight": int(symbols[DAYLIGHT_INDEX]) / 255,
    }


# --- text


def describe_symbols(symbols: np.ndarray) -> str:
    """A symbol vector in words: vitals, inventory, what is ahead of the player and beside it, the nearest of everything
    in view with its direction and distance, and a map of the view.
    """
    items = {item: int(symbols[ITEM_OFFSET + k]) for k, item in enumerate(const.ITEMS)}
    lines = [
        ", ".join(f"{vital} {items[vital]}" for vital in const.VITALS) + " of 9.",
        f"You have {', '.join(_item_counts(items)) or 'nothing'}.",
        f"It is {_time_of_day(symbols)} ({symbols[DAYLIGHT_INDEX] / 255:.0%} light).",
    ]
    ground = const.MATERIALS[symbols[PLAYER_CELL]]
    if symbols[ASLEEP_INDEX]:
        lines.append(f"You are asleep on {ground}.")
    else:
        direction = const.DIRECTIONS[int(symbols[FACING_INDEX]) - 1]
        lines.append(f"You stand on {ground} and face {direction}: {_describe_cell_ahead(symbols)}.")
    beside = [f"{direction} {_describe_cell(symbols, k)}" for k, direction in enumerate(const.DIRECTIONS)]
    lines.append(f"Next to you: {', '.join(beside)}.")
    nearest: dict[str, tuple[int, int, int, int]] = {}  # name: (distance, dy, dx, count)
    for cell in range(NUM_CELLS):
        if cell == PLAYER_CELL:
            continue
        dy, dx = cell // COLUMNS - ROWS // 2, cell % COLUMNS - COLUMNS // 2
        symbol = int(symbols[ENTITY_OFFSET + cell])
        for name in (const.MATERIALS[symbols[cell]], ENTITY_SYMBOLS[symbol] if symbol else None):
            if name:
                previous = nearest.get(name, (99, 0, 0, 0))
                nearest[name] = (*min(previous[:3], (abs(dx) + abs(dy), dy, dx)), previous[3] + 1)
    sights = [
        f"{name} {_describe_offset(dx, dy)}" + (f" (nearest of {count})" if count > 1 else "")
        for name, (_, dy, dx, count) in sorted(nearest.items(), key=lambda entry: entry[1])
    ]
    lines.append(f"You see: {', '.join(sights)}.")
    rows, legend = _map_rows(symbols)
    lines.append(f"The map ({', '.join(f'{character} {name}' for character, name in legend.items())}):")
    return "\n".join([*lines, *rows])


def _item_counts(items: Mapping[str, int]) -> list[str]:
    return [f"{count} {item.replace('_', ' ')}" for item, count in items.items() if count and item not in const.VITALS]


def _time_of_day(symbols: np.ndarray) -> str:
    daylight = symbols[DAYLIGHT_INDEX] / 255
    return "bright" if daylight > 0.75 else "getting dark" if daylight > 0.4 else "night"


def _describe_offset(dx: int, dy: int) -> str:
    parts = []
    if dy:
        parts.append(f"{abs(dy)} {'up' if dy < 0 else 'down'}")
    if dx:
        parts.append(f"{abs(dx)} {'left' if dx < 0 else 'right'}")
    return " ".join(parts)


def _describe_cell_ahead(symbols: np.ndarray) -> str:
    return _describe_cell(symbols, int(symbols[FACING_INDEX]) - 1)


def _describe_cell(symbols: np.ndarray, direction: int) -> str:
    """The cell next to the player in a direction."""
    dx, dy = const.DIRECTION_OFFSETS[direction]
    cell = PLAYER_CELL + dy * COLUMNS + dx
    symbol, material = int(symbols[ENTITY_OFFSET + cell]), const.MATERIALS[symbols[cell]]
    return f"{ENTITY_SYMBOLS[symbol]} on {material}" if symbol else material


FREE_CELLS = ("grass", "sand", "path")  # where the player can walk and survive


def describe_result(action: str, before: str, after: str) -> str:
    """What an action did, from the texts before and after it. The player acts before everything else in a step."""
    was_asleep = "You are asleep" in before
    parts = []
    if action.startswith("move_") and not was_asleep:
        direction = action.removeprefix("move_")
        obstacle = _read_cell(before, direction).replace("outside", "the edge of the map")
        if obstacle == "lava":
            parts.append(f"you moved {direction} into lava and died")
        else:
            parts.append(f"you moved {direction}" if obstacle in FREE_CELLS
                         else f"you face {direction} but did not move, because of {obstacle}")  # fmt: skip
    elif was_asleep and "You are asleep" not in after:
        parts.append("you woke up")
    elif was_asleep:
        parts.append("you were asleep, so the action had no effect")
    elif "You are asleep" in after:
        parts.append("you fell asleep")
    else:
        direction = _facing(before)
        cells = [_read_cell(text, direction) for text in (before, after)]
        parts += [f"ahead: {cells[0]} -> {cells[1]}"] if cells[0] != cells[1] else []
    counts = [_read_counts(text) for text in (before, after)]
    for name in [*counts[0], *(name for name in counts[1] if name not in counts[0])]:
        old, new = (count.get(name, 0) for count in counts)
        parts += [f"{name} {old} -> {new}"] if old != new else []
    return "; ".join(parts) or "no visible effect"


def _read_cell(text: str, direction: str) -> str:
    """What a text says about the cell next to the player in a direction."""
    cells = text.split("Next to you: ")[1].split(".\n")[0].split(", ")
    return next(cell.removeprefix(f"{direction} ") for cell in cells if cell.startswith(f"{direction} "))


def _facing(text: str) -> str:
    return text.split(" and face ")[1].split(":")[0]


def _read_counts(text: str) -> dict[str, int]:
    """Vitals and inventory in a text."""
    vitals, items, *_ = text.split("\n")
    counts = {name: int(count) for name, count in re.findall(r"([a-z]+) (\d+)", vitals)}
    return counts | {name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", items)}


# --- a map of characters

MATERIAL_CHARACTERS: dict[str, str] = dict(zip(const.MATERIALS, " ~.#_:T!cidtf", strict=True))
ENTITY_CHARACTERS: dict[str, str] = dict(zip(ENTITY_SYMBOLS[1:], "CZS--||pP", strict=True))
PLAYER_CHARACTERS = "z<>^v"  # asleep, then facing left, right, up, down


def ascii_map(symbols: np.ndarray) -> str:
    """What the image shows as characters: the 9 x 7 map with vitals and inventory beside it, and a legend below.

    The player is `<`, `>`, `^` or `v`, which points where it faces, or `z` during sleep. Capitals are creatures, trees
    and ripe plants. The legend names the characters in view.
    """
    items = {item: int(symbols[ITEM_OFFSET + k]) for k, item in enumerate(const.ITEMS)}
    facing = int(symbols[FACING_INDEX])
    tools = [item.replace("_", " ") for item in const.TOOLS if items[item]]
    status = [
        "  ".join(f"{vital} {items[vital]}" for vital in const.VITALS),
        "  ".join(f"{item} {items[item]}" for item in const.MATERIAL_ITEMS if items[item]) or "no materials",
        ", ".join(tools) or "no tools",
        "",
        f"facing {const.DIRECTIONS[facing - 1]}: {_describe_cell_ahead(symbols)}" if facing else "asleep",
        f"{_time_of_day(symbols)} ({symbols[DAYLIGHT_INDEX] / 255:.0%} light)",
        "",
    ]
    rows, legend = _map_rows(symbols)
    lines = [f"{row}   {text}".rstrip() for row, text in zip(rows, status, strict=True)]
    return "\n".join([*lines, "", "  ".join(f"{character} {name}" for character, name in legend.items())])


def _map_rows(symbols: np.ndarray) -> tuple[list[str], dict[str, str]]:
    """The view as rows of characters, and what those in it mean."""
    facing = int(symbols[FACING_INDEX])
    legend = {PLAYER_CHARACTERS[facing]: "you"}
    rows = []
    for row in range(ROWS):
        characters = []
        for cell in range(row * COLUMNS, (row + 1) * COLUMNS):
            name = const.MATERIALS[symbols[cell]]
            character = MATERIAL_CHARACTERS[name]
            if symbol := int(symbols[ENTITY_OFFSET + cell]):
                name = ENTITY_SYMBOLS[symbol]
                character = ENTITY_CHARACTERS[name]
            if cell == PLAYER_CELL:
                character = PLAYER_CHARACTERS[facing]
            elif character != " ":
                legend[character] = name.split()[0] if name.startswith("arrow") else name
            characters.append(character)
        rows.append(" ".join(characters))
    return rows, legend


def observation_format(observation: str, image_size: tuple[int, int]) -> ObservationFormat:
    return ObservationFormat(observation, image_size, MAX_SYMBOLS, describe_symbols, len(const.SKILLS))
