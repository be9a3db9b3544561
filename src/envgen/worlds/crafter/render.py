"""The reference's image of the view, byte for byte (tiles from an atlas, blended with the daylight), and map images.

An atlas holds everything that can be drawn in advance for one image size, from the reference's textures and with its
arithmetic. At night the reference draws noise from the environment's own random generator, and so does `draw_env`.

`draw_map` shows a whole map from above, with markers that stay visible when a cell has only a few pixels. Ores and
creatures are marked by colored squares, the player by a large frame. What the level's `near` setting placed is
outlined; it is found by comparison with the map that the same level and seed give without `near`.
"""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from envgen.jit import jit

from .. import validation
from ..kernels import mt19937
from ..world import TileGrid
from . import constants as const
from .level import CrafterLevel, Near

SPRITES = (
    "none", "player-left", "player-right", "player-up", "player-down", "player-sleep", "cow", "zombie", "skeleton",
    "arrow-left", "arrow-right", "arrow-up", "arrow-down", "plant", "plant-ripe",
)  # fmt: skip
# Indices in SPRITES; the player's and the arrow's are followed by their other directions.
(
    PLAYER_SPRITE, SLEEPING_SPRITE, COW_SPRITE, ZOMBIE_SPRITE, SKELETON_SPRITE, ARROW_SPRITE, SAPLING_SPRITE,
    RIPE_PLANT_SPRITE,
) = 1, 5, 6, 7, 8, 9, 13, 14  # fmt: skip

NUM_COUNTS = const.MAX_ITEM_COUNT + 1  # an inventory cell shows 0 (empty) to 9
OUTSIDE_GRAY = 127
COLUMNS, ROWS = const.LOCAL_VIEW
NIGHT_TINT = (0.0, 16.0, 64.0)
SLEEP_TINT = (0.0, 0.0, 16.0)
MIN_IMAGE_SIZE, MAX_IMAGE_SIZE = 18, 4096


# --- image sizes


def parse_image_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """`size` as (width, height). Raises ValueError for an invalid size."""
    return validation.parse_image_size(size, MIN_IMAGE_SIZE, MAX_IMAGE_SIZE)


def words_per_night_frame(size: tuple[int, int]) -> int:
    """The number of words of the random generator that the reference uses for an image at night."""
    return 2 * (size[0] // const.VIEW[0] * COLUMNS) * (size[1] // const.VIEW[1] * ROWS)


def make_tile_grid(size: tuple[int, int]) -> TileGrid:
    """The tiles of an image: the map and, below it, the inventory. The border around them is black."""
    unit_x, unit_y = size[0] // const.VIEW[0], size[1] // const.VIEW[1]
    left, top = (size[0] - unit_x * const.VIEW[0]) // 2, (size[1] - unit_y * const.VIEW[1]) // 2
    rows, columns = const.VIEW[1], const.VIEW[0]
    agent = (const.LOCAL_VIEW[1] // 2) * columns + const.LOCAL_VIEW[0] // 2  # in the middle of the map
    return TileGrid(unit_y, unit_x, top, left, rows, columns, agent)


# --- the atlas


class Atlas(NamedTuple):
    """Everything drawn in advance for one image size. A tile is (unit_y * unit_x * 3) bytes, row by row."""

    tiles: np.ndarray  # (sprites, materials, tile) uint8
    items: np.ndarray  # (items, NUM_COUNTS, tile) uint8
    vignette: np.ndarray  # (map_width * map_height) float64, column by column like the noise
    shape: np.ndarray  # (6,) int64: width, height, unit_x, unit_y, border_x, border_y


@cache
def make_atlas(size: tuple[int, int]) -> Atlas:
    unit_y, unit_x, border_y, border_x, *_ = make_tile_grid(size)
    tiles = np.zeros((len(SPRITES), len(const.MATERIALS), unit_y * unit_x * 3), np.uint8)
    for m, material in enumerate(const.MATERIALS):
        ground = np.full((unit_x, unit_y, 3), OUTSIDE_GRAY, np.uint8)
        if m != const.OUTSIDE:
            ground = _resize_texture(material, unit_x, unit_y)[..., :3]
        tiles[0, m] = _to_tile(ground)
        for k, sprite in enumerate(SPRITES[1:], 1):
            canvas = ground.copy()
            _paste(canvas, 0, 0, _resize_texture(sprite, unit_x, unit_y))
            tiles[k, m] = _to_tile(canvas)
    return Atlas(
        tiles=tiles,
        items=_draw_items(unit_x, unit_y),
        vignette=_make_vignette(unit_x * COLUMNS, unit_y * ROWS),
        shape=np.array([*size, unit_x, unit_y, border_x, border_y]),
    )


@cache
def _load_textures() -> dict[str, np.ndarray]:
    """The reference's textures by name, from the installed `crafter` package, as (width, height, channels)."""
    spec = importlib.util.find_spec("crafter")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("Crafter's textures come from the package `crafter`: pip install crafter==1.8.3")
    folder = Path(spec.submodule_search_locations[0]) / "assets"
    textures = {}
    for file in sorted(folder.glob("*.png")):
        with Image.open(file) as image:
            textures[file.stem] = np.array(image).transpose(1, 0, 2)
    return textures


def _resize_texture(name: str, width: int, height: int) -> np.ndarray:
    image = Image.fromarray(_load_textures()[name])  # transposed, as the reference resizes it
    return np.array(image.resize((height, width), resample=Image.Resampling.NEAREST))


def _paste(canvas: np.ndarray, x: int, y: int, texture: np.ndarray) -> None:
    """Blend a texture into a canvas (width, height, 3), in single precision like the reference."""
    width, height = texture.shape[:2]
    if texture.shape[-1] == 4:
        alpha = texture[..., 3:].astype(np.float32) / 255
        color = texture[..., :3].astype(np.float32) / 255
        background = canvas[x : x + width, y : y + height].astype(np.float32) / 255
        texture = (255 * (alpha * color + (1 - alpha) * background)).astype(np.uint8)
    canvas[x : x + width, y : y + height] = texture


def _to_tile(canvas: np.ndarray) -> np.ndarray:
    return canvas.transpose(1, 0, 2).reshape(-1)


def _draw_items(unit_x: int, unit_y: int) -> np.ndarray:
    unit = np.array([unit_x, unit_y])
    items = np.zeros((len(const.ITEMS), NUM_COUNTS, unit_y * unit_x * 3), np.uint8)
    for k, item in enumerate(const.ITEMS):
        corner = np.array([k % const.VIEW[0], k // const.VIEW[0]])
        icon_offset = (corner * unit + 0.1 * unit).astype(np.int32) - corner * unit
        count_offset = (corner * unit + 0.4 * unit).astype(np.int32) - corner * unit
        for count in range(1, NUM_COUNTS):
            canvas = np.zeros((unit_x, unit_y, 3), np.uint8)
            _paste(canvas, icon_offset[0], icon_offset[1], _resize_texture(item, int(0.8 * unit_x), int(0.8 * unit_y)))
            number = _resize_texture(str(count), int(0.6 * unit_x), int(0.6 * unit_y))
            _paste(canvas, count_offset[0], count_offset[1], number)
            items[k, count] = _to_tile(canvas)
    return items


def _make_vignette(width: int, height: int) -> np.ndarray:
    xs, ys = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
    return (1 - np.exp(-0.5 * (xs**2 + ys**2) / (0.5**2)).T).reshape(-1)


# --- drawing


class RenderBuffers(NamedTuple):
    """Temporary memory for drawing a frame, one row per thread."""

    lit_tiles: np.ndarray  # (threads, sprites, materials, tile) uint8, tiles in the current daylight
    lit_frames: np.ndarray  # (threads, sprites, materials) int64, the frame for which each tile was lit
    frames: np.ndarray  # (threads,) int64, number of frames drawn
    noise: np.ndarray  # (threads, map_width * map_height) float64
    colors: np.ndarray  # (threads, 3, map_width) int32, one row of pixels
    masks: np.ndarray  # (threads, 2, map_width) float64, darkness and noise of that row


def make_render_buffers(threads: int, atlas: Atlas) -> RenderBuffers:
    return RenderBuffers(
        lit_tiles=np.zeros((threads, *atlas.tiles.shape), np.uint8),
        lit_frames=np.zeros((threads, *atlas.tiles.shape[:2]), np.int64),
        frames=np.zeros(threads, np.int64),
        noise=np.zeros((threads, len(atlas.vignette))),
        colors=np.zeros((threads, 3, atlas.shape[2] * COLUMNS), np.int32),
        masks=np.zeros((threads, 2, atlas.shape[2] * COLUMNS)),
    )


@jit
def sprite_of(env, entities, row):
    """The index in SPRITES of an entity."""
    entity = entities[row]
    if entity.kind == const.PLAYER:
        return SLEEPING_SPRITE if env.sleeping else PLAYER_SPRITE + env.facing
    if entity.kind == const.COW:
        return COW_SPRITE
    if entity.kind == const.ZOMBIE:
        return ZOMBIE_SPRITE
    if entity.kind == const.SKELETON:
        return SKELETON_SPRITE
    if entity.kind == const.ARROW:
        return ARROW_SPRITE + entity.facing
    return RIPE_PLANT_SPRITE if entity.counter > const.RIPE_AFTER else SAPLING_SPRITE


@jit
def draw_env(env, entities, rng, atlas, buffers, thread, out):
    """Draw an environment into `out`, flat (height * width * 3) uint8. At night this draws noise from `rng`."""
    width, unit_x, unit_y = atlas.shape[0], atlas.shape[2], atlas.shape[3]
    corner = 3 * (atlas.shape[5] * width + atlas.shape[4])
    out[:] = 0
    daylight = env.daylight
    is_night = daylight < 0.5
    buffers.frames[thread] += 1
    player = entities[0]
    for row in range(ROWS):
        for column in range(COLUMNS):
            x, y = player.x + column - COLUMNS // 2, player.y + row - ROWS // 2
            material, sprite = 0, 0
            if 0 <= x < const.MAP_SIZE and 0 <= y < const.MAP_SIZE:
                material = np.int64(env.ground[x, y])
                slot = env.entity_slots[x, y]
                if slot > 0:
                    sprite = sprite_of(env, entities, slot - 1)
            offset = corner + 3 * (row * unit_y * width + column * unit_x)
            if is_night:  # noise makes every pixel different
                _copy_tile(atlas.tiles[sprite, material], out, offset, width, unit_x, unit_y)
                continue
            lit_tile = buffers.lit_tiles[thread, sprite, material]
            if buffers.lit_frames[thread, sprite, material] != buffers.frames[thread]:
                buffers.lit_frames[thread, sprite, material] = buffers.frames[thread]
                _light_tile(atlas.tiles[sprite, material], lit_tile, daylight)
            _copy_tile(lit_tile, out, offset, width, unit_x, unit_y)
    map_width, map_height = COLUMNS * unit_x, ROWS * unit_y
    if is_night:
        noise = buffers.noise[thread]
        mt19937.fill_uniform(rng, noise)
        _apply_night(
            out, corner, width, map_width, map_height, noise, atlas.vignette, daylight,
            buffers.colors[thread], buffers.masks[thread],
        )  # fmt: skip
    if env.sleeping:
        _apply_sleep(out, corner, width, map_width, map_height)
    for item in range(len(const.ITEMS)):
        count = env.inventory[item]
        if count > 0:
            column, row = item % const.VIEW[0], ROWS + item // const.VIEW[0]
            offset = corner + 3 * (row * unit_y * width + column * unit_x)
            _copy_tile(atlas.items[item, count], out, offset, width, unit_x, unit_y)


@jit
def _copy_tile(tile, out, offset, width, unit_x, unit_y):
    """Copy a tile into a flat image with rows of `width` pixels, its corner at byte `offset`."""
    row_bytes = 3 * unit_x
    for y in range(unit_y):
        # Unsigned indices need no wrap-around check, so the compiler copies many bytes at once.
        target, source = np.uint64(offset + 3 * width * y), np.uint64(row_bytes * y)
        for k in range(row_bytes):
            out[target + np.uint64(k)] = tile[source + np.uint64(k)]


@jit
def _light_tile(tile, out, daylight):
    for p in range(0, tile.size, 3):
        gray = _to_gray(tile[p], tile[p + 1], tile[p + 2])
        for k in range(3):
            out[p + k] = _apply_daylight(np.float64(tile[p + k]), tile[p + k], gray, NIGHT_TINT[k], daylight)


@jit
def _to_gray(r, g, b):
    scaled = np.int32(19595) * np.int32(r) + np.int32(38470) * np.int32(g) + np.int32(7471) * np.int32(b)
    return np.int32((scaled + np.int32(32768)) >> np.int32(16))


@jit
def _desaturate(color, gray):
    """The color at 40% saturation, as PIL computes it: single precision, truncated."""
    return np.float64(np.int32(np.float32(gray) + np.float32(0.4) * np.float32(np.int32(color) - gray)))


@jit
def _lerp(color, mask, noise):
    return np.int32((1 - mask) * color + mask * noise)


@jit
def _apply_daylight(color, night_color, gray, tint, daylight):
    """Blend a color with its tinted night version. `night_color` differs from `color` by the noise."""
    return np.int32(daylight * color + (1 - daylight) * (0.5 * _desaturate(night_color, gray) + 0.5 * tint))


@jit
def _apply_night(out, corner, width, map_width, map_height, noise, vignette, daylight, colors, masks):
    """Darken the map row by row, with noise that grows away from the middle.

    Each row is split into color channels, blended, and joined again, so that the middle loop is vectorized.
    """
    red, green, blue = colors[0], colors[1], colors[2]
    darkness, grain = masks[0], masks[1]
    strength = 2 * (0.5 - daylight)
    for y in range(map_height):
        start = np.uint64(corner + 3 * y * width)
        for x in range(map_width):
            o, q, p = start + np.uint64(3 * x), np.uint64(x * map_height + y), np.uint64(x)
            red[p], green[p], blue[p] = out[o], out[o + np.uint64(1)], out[o + np.uint64(2)]
            darkness[p] = strength * vignette[q]
            grain[p] = 32 + 95 * noise[q]
        for x in range(map_width):
            p = np.uint64(x)
            mask, n = darkness[p], grain[p]
            r, g, b = np.float64(red[p]), np.float64(green[p]), np.float64(blue[p])
            noisy_r, noisy_g, noisy_b = _lerp(r, mask, n), _lerp(g, mask, n), _lerp(b, mask, n)
            gray = _to_gray(noisy_r, noisy_g, noisy_b)
            red[p] = _apply_daylight(r, noisy_r, gray, NIGHT_TINT[0], daylight)
            green[p] = _apply_daylight(g, noisy_g, gray, NIGHT_TINT[1], daylight)
            blue[p] = _apply_daylight(b, noisy_b, gray, NIGHT_TINT[2], daylight)
        for x in range(map_width):
            o, p = start + np.uint64(3 * x), np.uint64(x)
            out[o], out[o + np.uint64(1)], out[o + np.uint64(2)] = red[p], green[p], blue[p]


@jit
def _apply_sleep(out, corner, width, map_width, map_height):
    """Turn the map gray, at half brightness."""
    for y in range(map_height):
        for x in range(map_width):
            o = corner + 3 * (y * width + x)
            gray = 0.5 * _to_gray(out[o], out[o + 1], out[o + 2])
            out[o] = np.uint8(gray + 0.5 * SLEEP_TINT[0])
            out[o + 1] = np.uint8(gray + 0.5 * SLEEP_TINT[1])
            out[o + 2] = np.uint8(gray + 0.5 * SLEEP_TINT[2])


# --- maps

CELL_SIZE = 6  # pixels
LEGEND_CELL_SIZE = 12
MIN_CELL_SIZE, MAX_CELL_SIZE = 4, 64

ORE_COLORS = {const.COAL: (20, 20, 20), const.IRON: (255, 215, 0), const.DIAMOND: (0, 255, 255)}
CREATURE_COLORS = {const.COW: (255, 182, 193), const.ZOMBIE: (220, 0, 0), const.SKELETON: (255, 255, 255)}
PLAYER_COLOR = (255, 0, 0)
NEAR_COLOR = (255, 0, 255)
LEGEND_MATERIALS = ("grass", "tree", "water", "sand", "stone", "path", "lava", "table", "furnace")


def draw_map(
    env: Any, entities: np.ndarray, ground_without_near: np.ndarray, level: CrafterLevel, cell_size: int
) -> np.ndarray:
    """Draw the start of an episode in daylight, (64 * cell_size, 64 * cell_size, 3), with markers.

    Args:
        env: The ENV record of the episode.
        entities: Its entities.
        ground_without_near: The ground of the same episode without the level's `near` setting.
        level: The level.
        cell_size: Pixels along a side of a cell.
    """
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
        _draw_outline(cells, _near_mask(level, env, entities, ground_without_near))
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


def _near_mask(
    level: CrafterLevel, env: np.ndarray, entities: np.ndarray, ground_without_near: np.ndarray
) -> np.ndarray:
    """The cells (x, y) that `near` changed or put an entity on."""
    mask = env["ground"] != ground_without_near
    cows = entities[entities["kind"] == const.COW]
    mask |= _to_mask(cows[len(cows) - level.near.cows :])  # the level's cows come last
    if level.near.creature != "none":
        creatures = entities[entities["kind"] == const.ENTITIES.index(level.near.creature)]
        mask |= _to_mask(creatures[-1:])
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
