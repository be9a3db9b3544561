"""Draws the floor and the walls of the 64 x 64 image, one row of pixels at a time.

The reference draws the floor, one image as large as the grid, and then the walls, column by column from the left and
each column from the bottom. Every wall overlaps its neighbors a little. Here, each pixel is written once: for every row
of cells, `_fill_wall_row` finds the wall that each pixel shows. Most rows of pixels lie in one row of cells; in some,
two rows of cells overlap.

Memory mode redraws the background in every step and spends most of its time here. The loops over all pixels are
therefore written so that the compiler vectorizes them: 32-bit integers, unsigned indices, no slices.
"""

import numpy as np

from envgen.jit import jit

from ..kernels.arrays import copy_elements
from .blit import clip_span
from .constants import MAX_WORLD_SIZE, MEMORY, WALL
from .textures import FLOOR_TEXTURE, WALL_TEXTURE

FRAME_SIZE = 64  # pixels along a side
MEMORY_VIEW_CELLS = 8  # cells along a side of the view in memory mode
VIEW_MARGIN = MEMORY_VIEW_CELLS // 2 + 1  # distance in cells at which a cell may be visible from the agent
MAX_VISIBLE_CELLS = max(MAX_WORLD_SIZE, 2 * VIEW_MARGIN + 2)  # along a side
MAX_WALL_PIXELS = 16  # enough for the width of a wall in the smallest grid, 5 x 5 cells
WALL_OVERLAP = np.float32(0.02)  # part of a cell by which each wall overlaps its neighbors
ONE, TWO = np.float32(1), np.float32(2)
EMPTY = -1
ALL_BITS, NO_BITS = -1, 0  # masks

BACKGROUND_SCRATCH = np.dtype(  # working memory of draw_background
    [
        ("columns", np.int64, (MAX_VISIBLE_CELLS, 4)),  # blit.clip_span of the walls in each column
        ("rows", np.int64, (MAX_VISIBLE_CELLS, 4)),
        ("codes", np.int32, (MAX_VISIBLE_CELLS, MAX_WALL_PIXELS)),  # of each pixel across a wall: column << 16 | texel
        ("walls", np.int32, (MAX_VISIBLE_CELLS, FRAME_SIZE)),  # code shown by each pixel in a row of cells, or EMPTY
        ("floor", np.int32, FRAME_SIZE),  # floor texel shown by each pixel across, or EMPTY
        ("column_texel", np.int32, FRAME_SIZE),  # part of the texel index that depends on the column only
        ("wall_mask", np.int32, FRAME_SIZE),  # ALL_BITS where a wall is visible, else NO_BITS
        ("floor_mask", np.int32, FRAME_SIZE),
        ("texel", np.int32, FRAME_SIZE * FRAME_SIZE),  # texel index of each pixel, row by row
    ],
    align=True,
)


@jit
def draw_background(env, camera, atlas, scratch, frame):
    """Draw floor and walls over the whole `frame`. `scratch` is a BACKGROUND_SCRATCH record."""
    unit, view, left, bottom = camera
    x0, y0, x1, y1 = 0, 0, env.world_size - 1, env.world_size - 1
    if env.mode == MEMORY:
        x0, y0 = int(env.x - np.float32(VIEW_MARGIN)), int(env.y - np.float32(VIEW_MARGIN))
        x1, y1 = int(env.x + np.float32(VIEW_MARGIN)), int(env.y + np.float32(VIEW_MARGIN))
    wall, floor = atlas.regions[WALL_TEXTURE], atlas.regions[FLOOR_TEXTURE + max(env.background, 0)]
    length = float((ONE + TWO * WALL_OVERLAP) * unit)
    for x in range(x0, x1 + 1):
        span = clip_span(float((np.float32(x) - WALL_OVERLAP) * unit - left), length, wall[1], FRAME_SIZE)
        copy_elements(span, scratch.columns[x - x0])
        for k in range(span[1] - span[0]):
            scratch.codes[x - x0, k] = (x - x0) << 16 | _texel_at(span, span[0] + k)
    for y in range(y0, y1 + 1):
        top = (view - np.float32(y + 1) - WALL_OVERLAP) * unit + bottom
        copy_elements(clip_span(float(top), length, wall[2], FRAME_SIZE), scratch.rows[y - y0])
        if scratch.rows[y - y0, 0] < scratch.rows[y - y0, 1]:
            _fill_wall_row(env, scratch, x0, x1, y, scratch.walls[y - y0])
    size = np.float32(env.world_size) * unit
    floor_x = clip_span(float(-left), float(size), floor[1], FRAME_SIZE)
    floor_y = clip_span(float((view - np.float32(env.world_size)) * unit + bottom), float(size), floor[2], FRAME_SIZE)
    scratch.floor[:] = EMPTY
    if env.background >= 0:
        for px in range(floor_x[0], floor_x[1]):
            scratch.floor[px] = _texel_at(floor_x, px)
    _select_texels(scratch, wall, floor, y1 - y0, floor_y, atlas.texels.size - 1)
    _write_pixels(scratch.texel, atlas.texels, frame.view(np.uint32))


@jit
def _is_wall(env, x, y):
    """Whether the cell shows a wall; cells outside the grid do."""
    return not (0 <= x < env.world_size and 0 <= y < env.world_size) or env.grid[y, x] == WALL


@jit
def _texel_at(span, pixel):
    """The texel of a span that a pixel shows."""
    return (span[2] + (pixel - span[0]) * span[3]) >> 16


@jit
def _fill_wall_row(env, scratch, x0, x1, y, codes):
    """Fill `codes` for the row of cells `y`. A wall covers the edge of the wall to its left."""
    codes[:] = EMPTY
    for x in range(x0, x1 + 1):
        first, last = scratch.columns[x - x0, 0], scratch.columns[x - x0, 1]
        if first < last and _is_wall(env, x, y):
            k = np.uint64(0)
            for px in range(np.uint64(first), np.uint64(last)):
                codes[px] = scratch.codes[x - x0, k]
                k += np.uint64(1)


@jit
def _select_texels(scratch, wall, floor, top_row, floor_y, black):
    """Select the texel of every pixel, from the top; `top_row` is the uppermost row of cells."""
    row, prepared_row = top_row, EMPTY
    for py in range(FRAME_SIZE):
        while row > 0 and py >= scratch.rows[row, 1]:
            row -= 1
        wall_row_texel = wall[0] + _texel_at(scratch.rows[row], py) * wall[1]
        has_floor = floor_y[0] <= py < floor_y[1]
        floor_row_texel = floor[0] + _texel_at(floor_y, py) * floor[1] if has_floor else EMPTY
        if row > 0 and py >= scratch.rows[row - 1, 0]:
            lower_row_texel = wall[0] + _texel_at(scratch.rows[row - 1], py) * wall[1]
            _select_overlapping(
                scratch, py, scratch.walls[row], wall_row_texel, scratch.walls[row - 1], lower_row_texel,
                floor_row_texel, black,
            )  # fmt: skip
        elif has_floor:
            if prepared_row != row:
                prepared_row = row
                _prepare_row(scratch, scratch.walls[row], black)
            offset = np.uint64(py * FRAME_SIZE)
            wall_row_texel, floor_row_texel = np.int32(wall_row_texel), np.int32(floor_row_texel)
            for px in range(np.uint64(FRAME_SIZE)):
                scratch.texel[offset + px] = (
                    scratch.column_texel[px]
                    + (scratch.wall_mask[px] & wall_row_texel)
                    + (scratch.floor_mask[px] & floor_row_texel)
                )
        else:
            _select_overlapping(
                scratch, py, scratch.walls[row], wall_row_texel, scratch.walls[row], wall_row_texel,
                floor_row_texel, black,
            )  # fmt: skip


@jit
def _prepare_row(scratch, codes, black):
    """Compute what the rows of pixels within one row of cells have in common."""
    for px in range(np.uint64(FRAME_SIZE)):
        is_wall, is_floor = codes[px] != EMPTY, scratch.floor[px] != EMPTY
        scratch.wall_mask[px] = ALL_BITS if is_wall else NO_BITS
        scratch.floor_mask[px] = ALL_BITS if is_floor and not is_wall else NO_BITS
        scratch.column_texel[px] = codes[px] & 0xFFFF if is_wall else scratch.floor[px] if is_floor else black


@jit
def _select_overlapping(
    scratch, py, upper_codes, upper_row_texel, lower_codes, lower_row_texel, floor_row_texel, black
):
    """Select the texels of a row of pixels in which two rows of cells overlap. The wall farther right is on top, and
    of two in one column the upper one."""
    for px in range(FRAME_SIZE):
        texel = black
        if lower_codes[px] >> 16 > upper_codes[px] >> 16:
            texel = lower_row_texel + (lower_codes[px] & 0xFFFF)
        elif upper_codes[px] != EMPTY:
            texel = upper_row_texel + (upper_codes[px] & 0xFFFF)
        elif floor_row_texel != EMPTY and scratch.floor[px] != EMPTY:
            texel = floor_row_texel + scratch.floor[px]
        scratch.texel[py * FRAME_SIZE + px] = texel


@jit
def _write_pixels(texel, texels, words):
    """Write three bytes per pixel from texels of four bytes: four pixels become three words."""
    offset = np.uint64(0)
    for px in range(np.uint64(0), np.uint64(FRAME_SIZE * FRAME_SIZE), np.uint64(4)):
        a, b = texels[np.uint64(texel[px])], texels[np.uint64(texel[px + np.uint64(1)])]
        c, d = texels[np.uint64(texel[px + np.uint64(2)])], texels[np.uint64(texel[px + np.uint64(3)])]
        words[offset] = a & np.uint32(0xFFFFFF) | b << np.uint32(24)
        words[offset + np.uint64(1)] = b >> np.uint32(8) & np.uint32(0xFFFF) | c << np.uint32(16)
        words[offset + np.uint64(2)] = c >> np.uint32(16) & np.uint32(0xFF) | d << np.uint32(8)
        offset += np.uint64(3)
