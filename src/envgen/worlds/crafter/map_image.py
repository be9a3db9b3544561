"""Images of whole worlds from above, with markers that stay visible when a cell has only a few pixels.

Ores and creatures are marked by colored squares, the player by a large frame. What the level's `near` setting placed is
outlined; it is found by comparison with the world that the same level and seed give without `near`.
"""

from typing import Any

import numpy as np

from . import constants as const
from .engine import Engine
from .level import CrafterLevel, Near
from .render import make_atlas, sprite_of

CELL_SIZE = 6  # pixels
LEGEND_CELL_SIZE = 12
MIN_CELL_SIZE, MAX_CELL_SIZE = 4, 64

ORE_COLORS = {const.COAL: (20, 20, 20), const.IRON: (255, 215, 0), const.DIAMOND: (0, 255, 255)}
CREATURE_COLORS = {const.COW: (255, 182, 193), const.ZOMBIE: (220, 0, 0), const.SKELETON: (255, 255, 255)}
PLAYER_COLOR = (255, 0, 0)
NEAR_COLOR = (255, 0, 255)
LEGEND_MATERIALS = ("grass", "tree", "water", "sand", "stone", "path", "lava", "table", "furnace")


def draw_map(level: Any = None, seed: int = 0, cell_size: int = CELL_SIZE) -> np.ndarray:
    """The whole world of a level and seed in daylight, (64 * cell_size, 64 * cell_size, 3), with markers."""
    if not MIN_CELL_SIZE <= cell_size <= MAX_CELL_SIZE:
        raise ValueError(f"cell_size must be from {MIN_CELL_SIZE} to {MAX_CELL_SIZE} pixels, not {cell_size}")
    level = CrafterLevel.parse(level)
    engine = Engine(2, [level, level.model_copy(update={"near": Near()})], False, threads=1)
    engine.start([seed, seed])
    env, entities = engine.state.envs[0], engine.state.entities[0][: engine.state.envs["num_entities"][0]]
    sprites = np.zeros((const.MAP_SIZE, const.MAP_SIZE), np.int64)
    for row in range(len(entities)):
        sprites[entities[row]["x"], entities[row]["y"]] = sprite_of(env, entities, row)
    cells = _tiles(cell_size)[sprites, env["ground"]]  # (x, y, pixel row, pixel column, color)
    for material, color in ORE_COLORS.items():
        _draw_square(cells, env["ground"] == material, color)
    for kind, color in CREATURE_COLORS.items():
        of_kind = entities[entities["kind"] == kind]
        _draw_square(cells, _to_mask(of_kind), color)
    if level.near != Near():
        _draw_outline(cells, _near_mask(level, env, entities, engine.state.envs[1]["ground"]))
    image = cells.transpose(1, 2, 0, 3, 4).reshape(const.MAP_SIZE * cell_size, const.MAP_SIZE * cell_size, 3)
    _draw_player_frame(image, int(entities[0]["x"]), int(entities[0]["y"]), cell_size)
    return image


def draw_legend() -> list[tuple[np.ndarray, str]]:
    """What `draw_map` shows: icons (height, width, 3) with their descriptions."""
    tiles = _tiles(LEGEND_CELL_SIZE)
    marked = np.ones((1, 1), np.bool_)

    def icon(material: int, color: tuple[int, int, int] | None = None) -> np.ndarray:
        cell = tiles[0, material][None, None].copy()
        if color is not None:
            _draw_square(cell, marked, color)
        return cell[0, 0]

    player = icon(const.GRASS)
    _draw_frame(player)
    near = tiles[0, const.GRASS][None, None].copy()
    _draw_outline(near, marked)
    legend = [(player, "start")]
    for kind, color in CREATURE_COLORS.items():
        ground = const.PATH if kind == const.SKELETON else const.GRASS
        legend.append((icon(ground, color), const.ENTITIES[kind]))
    legend += [(icon(material, color), const.MATERIALS[material]) for material, color in ORE_COLORS.items()]
    legend += [(icon(const.MATERIALS.index(name)), name) for name in LEGEND_MATERIALS]
    return [*legend, (near[0, 0], "placed by near")]


def _tiles(cell_size: int) -> np.ndarray:
    """(sprites, materials, cell_size, cell_size, 3)"""
    tiles = make_atlas((cell_size * const.VIEW[0], cell_size * const.VIEW[1])).tiles
    return tiles.reshape(*tiles.shape[:2], cell_size, cell_size, 3)


def _to_mask(entities: np.ndarray) -> np.ndarray:
    mask = np.zeros((const.MAP_SIZE, const.MAP_SIZE), np.bool_)
    mask[entities["x"], entities["y"]] = True
    return mask


def _near_mask(level: CrafterLevel, env: np.ndarray, entities: np.ndarray, other_ground: np.ndarray) -> np.ndarray:
    """The cells (x, y) that `near` changed or put an entity on. `other_ground` is the ground without `near`."""
    mask = env["ground"] != other_ground
    cows = entities[entities["kind"] == const.COW]
    mask |= _to_mask(cows[len(cows) - level.near.cows :])  # the level's cows come last
    return mask | _to_mask(entities[entities["kind"] == const.PLANT])


def _draw_square(cells: np.ndarray, mask: np.ndarray, color: tuple[int, int, int]) -> None:
    """Fill the middle of the cells in the mask."""
    margin = cells.shape[2] // 6
    inner = cells[:, :, margin : cells.shape[2] - margin, margin : cells.shape[3] - margin]
    inner[mask] = color


def _draw_outline(cells: np.ndarray, mask: np.ndarray) -> None:
    """Draw the border of the region that the mask covers."""
    padded = np.pad(mask, 1)
    width = max(1, cells.shape[2] // 6)
    cells[:, :, :, :width][mask & ~padded[:-2, 1:-1]] = NEAR_COLOR
    cells[:, :, :, -width:][mask & ~padded[2:, 1:-1]] = NEAR_COLOR
    cells[:, :, :width][mask & ~padded[1:-1, :-2]] = NEAR_COLOR
    cells[:, :, -width:][mask & ~padded[1:-1, 2:]] = NEAR_COLOR


def _draw_player_frame(image: np.ndarray, x: int, y: int, cell_size: int) -> None:
    """A frame around the 3 x 3 cells around the player."""
    top, left = (y - 1) * cell_size, (x - 1) * cell_size
    _draw_frame(image[top : top + 3 * cell_size, left : left + 3 * cell_size])


def _draw_frame(image: np.ndarray) -> None:
    """Draw a red line along the border of a square image, and a white one inside it."""
    for offset, color in ((0, PLAYER_COLOR), (1, (255, 255, 255))):
        first, last = offset, len(image) - 1 - offset
        image[[first, last], first : last + 1] = color
        image[first : last + 1, [first, last]] = color
