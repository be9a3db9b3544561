"""The floor and the walls of a Heist's picture, one row of pixels after the other.

The original lays the floor, one image as large as the world, where it shows; then the walls, column by column from the
left and in each from below, each of which covers a little of the cells around it. Here every pixel is written once: it
is first found out, for each row of cells, which wall each pixel shows; most rows of pixels lie in one row of cells, and
some where two overlap. This is where drawing in memory mode spends its time, so the loops over all pixels are of a kind
that the compiler makes fast: 32-bit numbers as they are stored, unsigned indices, no slices.
"""

import numpy as np

from envgen.jit import jit

from . import textures as skins
from .blit import span
from .constants import MEMORY, SIDE, WALL

PIXELS = 64  # along a side
VIEW = 8  # cells along a side of what is seen in memory mode
MARGIN = VIEW // 2 + 1  # cells from the agent that may be seen
CELLS = max(SIDE, 2 * MARGIN + 2)  # most columns or rows that are drawn
WIDEST = 16  # pixels that a wall may be wide, in a world of 5 cells
OVERLAP = np.float32(0.02)  # of a cell, by which each wall reaches into its neighbours
ONE, TWO = np.float32(1), np.float32(2)
NOTHING = -1
ALL, NONE = -1, 0  # masks

GROUND = np.dtype(  # what paving needs for the moment
    [
        ("columns", np.int64, (CELLS, 4)),  # where the walls of each column lie, by sampler.span
        ("rows", np.int64, (CELLS, 4)),
        ("codes", np.int32, (CELLS, WIDEST)),  # of each pixel across a wall: column << 16 | which of its texels
        ("walls", np.int32, (CELLS, PIXELS)),  # the code that each pixel of a row of cells shows, or NOTHING
        ("floor", np.int32, PIXELS),  # which texel across the floor each pixel shows, or NOTHING
        ("fixed", np.int32, PIXELS),  # the part of a texel's index that is the same for all pixels below each other
        ("on_wall", np.int32, PIXELS),  # ALL where a wall is seen, else NONE
        ("on_floor", np.int32, PIXELS),
        ("texel", np.int32, PIXELS * PIXELS),  # the index of each pixel's texel, row by row
    ],
    align=True,
)


@jit
def pave(e, cam, skin, g, out):
    """Paint floor and walls, seen by the camera `cam`, over all of `out`. `g` is a record of scratch."""
    unit, view, left, lower = cam
    x0, y0, x1, y1 = 0, 0, e.side - 1, e.side - 1
    if e.mode == MEMORY:
        x0, y0 = int(e.x - np.float32(MARGIN)), int(e.y - np.float32(MARGIN))
        x1, y1 = int(e.x + np.float32(MARGIN)), int(e.y + np.float32(MARGIN))
    wall, floor = skin.textures[skins.WALL], skin.textures[skins.FLOORS + max(e.background, 0)]
    length = float((ONE + TWO * OVERLAP) * unit)
    for x in range(x0, x1 + 1):
        across = span(float((np.float32(x) - OVERLAP) * unit - left), length, wall[1], PIXELS)
        g.columns[x - x0] = across
        for k in range(across[1] - across[0]):
            g.codes[x - x0, k] = (x - x0) << 16 | _texel(across, across[0] + k)
    for y in range(y0, y1 + 1):
        low = (view - np.float32(y + 1) - OVERLAP) * unit + lower
        g.rows[y - y0] = span(float(low), length, wall[2], PIXELS)
        if g.rows[y - y0, 0] < g.rows[y - y0, 1]:
            _line_up(e, g, x0, x1, y, g.walls[y - y0])
    size = np.float32(e.side) * unit
    across = span(float(-left), float(size), floor[1], PIXELS)
    down = span(float((view - np.float32(e.side)) * unit + lower), float(size), floor[2], PIXELS)
    g.floor[:] = NOTHING
    if e.background >= 0:
        for px in range(across[0], across[1]):
            g.floor[px] = _texel(across, px)
    _choose(g, wall, floor, y1 - y0, down, skin.texels.size - 1)
    _write(g.texel, skin.texels, out.view(np.uint32))


@jit
def _is_wall(e, x, y):
    """What lies outside the world is wall."""
    return not (0 <= x < e.side and 0 <= y < e.side) or e.grid[y, x] == WALL


@jit
def _texel(along, pixel):
    """Which texel of a span a pixel shows."""
    return (along[2] + (pixel - along[0]) * along[3]) >> 16


@jit
def _line_up(e, g, x0, x1, y, line):
    """What each pixel of the row of cells `y` shows of its walls; a wall covers the edge of the one to its left."""
    line[:] = NOTHING
    for x in range(x0, x1 + 1):
        first, last = g.columns[x - x0, 0], g.columns[x - x0, 1]
        if first < last and _is_wall(e, x, y):
            k = np.uint64(0)
            for px in range(np.uint64(first), np.uint64(last)):
                line[px] = g.codes[x - x0, k]
                k += np.uint64(1)


@jit
def _choose(g, wall, floor, top, down, black):
    """The texel of every pixel, from above; `top` is the uppermost row of cells."""
    row, planned = top, NOTHING
    for py in range(PIXELS):
        while row > 0 and py >= g.rows[row, 1]:
            row -= 1
        of_wall = wall[0] + _texel(g.rows[row], py) * wall[1]
        has_floor = down[0] <= py < down[1]
        of_floor = floor[0] + _texel(down, py) * floor[1] if has_floor else NOTHING
        if row > 0 and py >= g.rows[row - 1, 0]:
            of_lower = wall[0] + _texel(g.rows[row - 1], py) * wall[1]
            _join(g, py, g.walls[row], of_wall, g.walls[row - 1], of_lower, of_floor, black)
        elif has_floor:
            if planned != row:
                planned = row
                _plan(g, g.walls[row], black)
            at, of_wall, of_floor = np.uint64(py * PIXELS), np.int32(of_wall), np.int32(of_floor)
            for px in range(np.uint64(PIXELS)):
                g.texel[at + px] = g.fixed[px] + (g.on_wall[px] & of_wall) + (g.on_floor[px] & of_floor)
        else:
            _join(g, py, g.walls[row], of_wall, g.walls[row], of_wall, of_floor, black)


@jit
def _plan(g, line, black):
    """Prepare the rows of pixels that lie in one row of cells."""
    for px in range(np.uint64(PIXELS)):
        is_wall, is_floor = line[px] != NOTHING, g.floor[px] != NOTHING
        g.on_wall[px] = ALL if is_wall else NONE
        g.on_floor[px] = ALL if is_floor and not is_wall else NONE
        g.fixed[px] = line[px] & 0xFFFF if is_wall else g.floor[px] if is_floor else black


@jit
def _join(g, py, upper, of_upper, lower, of_lower, of_floor, black):
    """A row of pixels on which two rows of cells lie: the wall on the right covers, of two in a column the upper."""
    for px in range(PIXELS):
        texel = black
        if lower[px] >> 16 > upper[px] >> 16:
            texel = of_lower + (lower[px] & 0xFFFF)
        elif upper[px] != NOTHING:
            texel = of_upper + (upper[px] & 0xFFFF)
        elif of_floor != NOTHING and g.floor[px] != NOTHING:
            texel = of_floor + g.floor[px]
        g.texel[py * PIXELS + px] = texel


@jit
def _write(texel, texels, words):
    """Pixels have three bytes and texels four: four pixels become three words."""
    at = np.uint64(0)
    for px in range(np.uint64(0), np.uint64(PIXELS * PIXELS), np.uint64(4)):
        a, b = texels[np.uint64(texel[px])], texels[np.uint64(texel[px + np.uint64(1)])]
        c, d = texels[np.uint64(texel[px + np.uint64(2)])], texels[np.uint64(texel[px + np.uint64(3)])]
        words[at] = a & np.uint32(0xFFFFFF) | b << np.uint32(24)
        words[at + np.uint64(1)] = b >> np.uint32(8) & np.uint32(0xFFFF) | c << np.uint32(16)
        words[at + np.uint64(2)] = c >> np.uint32(16) & np.uint32(0xFF) | d << np.uint32(8)
        at += np.uint64(3)
