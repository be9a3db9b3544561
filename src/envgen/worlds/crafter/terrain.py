"""How a world is made: the ground from noise, then the creatures, drawing in the original's order.

The noise of whole planes is splatted (kernels/splat.py), which is nearly exact. Where a value lies so close to a
threshold that the error could matter, the cell is computed again with the exact noise: the result is always the
original's.
"""

import math
from typing import NamedTuple

import numpy as np

from ..kernels import mt19937
from ..kernels.jit import jit
from ..kernels.simplex import noise3, permute
from ..kernels.splat import ERROR, splat
from . import tables as t
from .things import add, lay

CELLS = t.SIDE * t.SIDE
PLANES = 11
WATER, MOUNTAIN, START, CAVE, ACROSS, DOWNWARDS, COAL, IRON, LAVA, SAND, TREE = range(PLANES)

# The single planes: (x scale, y scale, z). WATER and MOUNTAIN are sums of two octaves, at 1/15 and 1/5.
_SCALES = np.zeros((PLANES, 3))
_SCALES[START] = 3, 3, 8
_SCALES[CAVE] = 7, 7, 6
_SCALES[COAL] = 8, 8, 1
_SCALES[IRON] = 6, 6, 2
_SCALES[LAVA] = 5, 5, 6
_SCALES[SAND] = 9, 9, 4
_SCALES[TREE] = 7, 7, 5

# Bounds on the error of a splatted value. start = sigmoid(4 - d + 2 n) moves by at most half of n's error; water is
# n + .15 n' - 2 start, mountain is (n + .3 n') / 1.3 - 4 start - .3 water. FAR from the player start is taken as 0.
FAR = 16  # cells
START_ERROR = 0.5 * ERROR + 2e-5  # 2e-5 > sigmoid(4 - 17 + 2)
WATER_ERROR = 1.15 * ERROR + 2 * START_ERROR
MOUNTAIN_ERROR = ERROR + 4 * START_ERROR + 0.3 * WATER_ERROR


class Scratch(NamedTuple):
    """What making one world needs for the moment; one row per thread."""

    planes: np.ndarray  # (threads, PLANES, CELLS) float32
    tunnels: np.ndarray  # (threads, SIDE, SIDE) bool
    perm: np.ndarray  # (threads, 256) int64
    order: np.ndarray  # (threads, 256) int64


def scratch(threads: int) -> Scratch:
    return Scratch(
        planes=np.zeros((threads, PLANES, CELLS), np.float32),
        tunnels=np.zeros((threads, t.SIDE, t.SIDE), np.bool_),
        perm=np.zeros((threads, 256), np.int64),
        order=np.zeros((threads, 256), np.int64),
    )


@jit
def make_ground(s, i, dial, w, k):
    """The ground of environment i, whose random stream stands at its beginning. `k` is the row of scratch."""
    mt, perm = s.mt[i], w.perm[k]
    permute(mt19937.randint(mt, 0, 2**31 - 1), perm, w.order[k])
    _splat_planes(perm, w.planes[k])
    w.tunnels[k] = False
    s.grass[i] = 0
    s.path[i] = 0
    s.ground[i] = t.OUTSIDE
    for x in range(t.SIDE):
        for y in range(t.SIDE):
            lay(s, i, x, y, _material(mt, perm, w.planes[k], w.tunnels[k], dial, x, y))


@jit
def _splat_planes(perm, planes):
    planes[:] = 0
    splat(perm, planes[WATER], 1.0, 1 / 15, 1 / 15, 3.0, False)
    splat(perm, planes[WATER], 0.15, 1 / 5, 1 / 5, 3.0, False)
    splat(perm, planes[MOUNTAIN], 1 / 1.3, 1 / 15, 1 / 15, 0.0, False)
    splat(perm, planes[MOUNTAIN], 0.3 / 1.3, 1 / 5, 1 / 5, 0.0, False)
    for p in (START, CAVE, COAL, IRON, LAVA, SAND, TREE):
        splat(perm, planes[p], 1.0, 1 / _SCALES[p, 0], 1 / _SCALES[p, 1], _SCALES[p, 2], False)
    splat(perm, planes[ACROSS], 1.0, 2 / 3, 1 / 15, 7.0, False)
    splat(perm, planes[DOWNWARDS], 1.0, 2 / 3, 1 / 15, 7.0, True)  # transposed: at [y, x]


@jit
def _exact(perm, plane, x, y):
    """The original's noise for one of the single planes, by its own divisions."""
    if plane == ACROSS:
        return noise3(perm, 2 * x / 3, y / 5 / 3, 7.0)
    if plane == DOWNWARDS:
        return noise3(perm, x / 5 / 3, 2 * y / 3, 7.0)
    return noise3(perm, x / _SCALES[plane, 0], y / _SCALES[plane, 1], _SCALES[plane, 2])


@jit
def _above(perm, planes, plane, x, y, threshold):
    """Is the noise of a single plane above a threshold?"""
    value = np.float64(planes[plane, y * t.SIDE + x] if plane == DOWNWARDS else planes[plane, x * t.SIDE + y])
    if abs(value - threshold) > ERROR:
        return value > threshold
    return _exact(perm, plane, x, y) > threshold


@jit
def _start_distance(x, y):
    return math.sqrt(np.float64((x - t.CENTER) ** 2 + (y - t.CENTER) ** 2))


@jit
def _exact_heights(perm, x, y):
    """(start, water, mountain) of a cell as the original computes them."""
    start = 4 - _start_distance(x, y)
    start += 2 * _exact(perm, START, x, y)
    start = 1 / (1 + math.exp(-start))
    water = 0.0 + 1 * noise3(perm, x / 15, y / 15, 3.0)
    water += 0.15 * noise3(perm, x / 5, y / 5, 3.0)
    water += 0.1
    water -= 2 * start
    mountain = 0.0 + 1 * noise3(perm, x / 15, y / 15, 0.0)
    mountain += 0.3 * noise3(perm, x / 5, y / 5, 0.0)
    mountain /= 1.3
    mountain -= 4 * start + 0.3 * water
    return start, water, mountain


@jit
def _heights(perm, planes, dial, x, y):
    """(start, water, mountain) of a cell: each on the right side of every threshold it is compared with."""
    cell = x * t.SIDE + y
    away = _start_distance(x, y)
    start, sure = 0.0, True
    if away <= FAR:
        raw = 4 - away + 2 * np.float64(planes[START, cell])
        start = 1 / (1 + math.exp(-raw))
        sure = abs(raw) > 3 * ERROR
    water = np.float64(planes[WATER, cell]) + 0.1 - 2 * start
    mountain = np.float64(planes[MOUNTAIN, cell]) - (4 * start + 0.3 * water)
    low, high = water + dial.water_shift, mountain + dial.mountain_shift
    for threshold in (0.3, 0.35, dial.sand, dial.lake):
        sure &= abs(low - threshold) > WATER_ERROR
    for threshold in (0.15, 0.18, 0.3):
        sure &= abs(high - threshold) > MOUNTAIN_ERROR
    if not sure:
        start, water, mountain = _exact_heights(perm, x, y)
    return start, water + dial.water_shift, mountain + dial.mountain_shift


@jit
def _material(mt, perm, planes, tunnels, dial, x, y):
    start, water, mountain = _heights(perm, planes, dial, x, y)
    if start > 0.5:
        return t.GRASS
    if mountain > 0.15 and not water > dial.lake:
        if mountain > 0.3 and _above(perm, planes, CAVE, x, y, 0.15):
            return t.PATH
        if _above(perm, planes, ACROSS, x, y, dial.tunnel) or _above(perm, planes, DOWNWARDS, x, y, dial.tunnel):
            tunnels[x, y] = True
            return t.PATH
        if _above(perm, planes, COAL, x, y, dial.coal_noise) and mt19937.uniform(mt) > dial.coal:
            return t.COAL
        if _above(perm, planes, IRON, x, y, dial.iron_noise) and mt19937.uniform(mt) > dial.iron:
            return t.IRON
        if mountain > 0.18 and mt19937.uniform(mt) > dial.diamond:
            return t.DIAMOND
        if mountain > 0.3 and _above(perm, planes, LAVA, x, y, dial.lava):
            return t.LAVA
        return t.STONE
    if dial.sand < water <= 0.35 and _above(perm, planes, SAND, x, y, -0.2):
        return t.SAND
    if water > 0.3:
        return t.WATER
    if _above(perm, planes, TREE, x, y, dial.tree_noise) and mt19937.uniform(mt) > dial.tree:
        return t.TREE
    return t.GRASS


@jit
def populate(s, i, dial, tunnels):
    """The first creatures. False if the list of things is too short for them."""
    mt = s.mt[i]
    row = 0
    for x in range(t.SIDE):
        for y in range(t.SIDE):
            material = np.int64(s.ground[i, x, y])
            if (t.WALKABLE >> material) & 1 == 0:
                continue
            away = _start_distance(x, y)
            if away > 3 and material == t.GRASS and mt19937.uniform(mt) > dial.cow:
                row = add(s, i, t.COW, x, y, t.COW_HEALTH)
            elif away > 10 and mt19937.uniform(mt) > dial.zombie:
                row = add(s, i, t.ZOMBIE, x, y, t.ZOMBIE_HEALTH)
            elif material == t.PATH and tunnels[x, y] and mt19937.uniform(mt) > dial.skeleton:
                row = add(s, i, t.SKELETON, x, y, t.SKELETON_HEALTH)
            if row < 0:
                return False
    return True
