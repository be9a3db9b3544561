"""How a world is made: the ground from noise, then the creatures, drawing in the original's order.

Which material a cell is depends on a dozen questions of the form "is this noise above that threshold?". They are all
answered first, for whole planes at once, into one word of bits a cell; only then are the random numbers drawn.

The noise of a plane is splatted (kernels/splat.py), which is nearly exact. Where a value lies so close to its threshold
that the error could matter, the cell is computed again with the exact noise: the answers are always the original's.
"""

import math
from typing import NamedTuple

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from ..kernels.noise_map import MAX_ERROR, add_noise
from ..kernels.simplex import noise3, permute
from . import constants as const
from .dials import NEVER
from .entities import add_entity, count_ground

CELLS = const.MAP_SIZE * const.MAP_SIZE
BLOCKS = const.MAP_SIZE // 8

# The planes of noise. WATER and MOUNTAIN are sums of two octaves; START counts only near the start.
PLANES = 11
CAVE, LAVA, ACROSS, DOWNWARDS, COAL, IRON, SAND, TREE, START, WATER, MOUNTAIN = range(PLANES)
_SCALE = np.ones(PLANES)
_LAYER = np.ones(PLANES)
for _plane, _scale, _z in (
    (CAVE, 7, 6), (COAL, 8, 1), (IRON, 6, 2), (LAVA, 5, 6), (SAND, 9, 4), (TREE, 7, 5), (START, 3, 8),
):  # fmt: skip
    _SCALE[_plane], _LAYER[_plane] = _scale, _z

# The answers: bit p says that plane p, up to TREE, is above its threshold; then what the heights say.
HOME = 1 << 8  # start > .5
ROCK, GEMS, HIGH = 1 << 9, 1 << 10, 1 << 11  # mountain > .15, > .18, > .3
LAKE, SHORE, WET = 1 << 12, 1 << 13, 1 << 14  # water > lake; sand < water <= .35; water > .3
DOUBT = 1 << 20  # some answer of this cell needs the exact noise

# Bounds on the error of a splatted value. start = sigmoid(4 - d + 2 n) moves by at most half of n's error; water is
# n + .15 n' - 2 start, mountain is (n + .3 n') / 1.3 - 4 start - .3 water. FAR from the player start is taken as 0.
FAR = 16  # cells
START_ERROR = 0.5 * MAX_ERROR + 2e-5  # 2e-5 > sigmoid(4 - 17 + 2)
WATER_ERROR = 1.15 * MAX_ERROR + 2 * START_ERROR
MOUNTAIN_ERROR = MAX_ERROR + 4 * START_ERROR + 0.3 * WATER_ERROR


class TerrainBuffers(NamedTuple):
    """What making one world needs for the moment; one row per thread."""

    planes: np.ndarray  # (threads, PLANES, CELLS) float32, noise
    truths: np.ndarray  # (threads, CELLS) int32, the bits below
    wanted: np.ndarray  # (threads, 2, 8, 8) bool, blocks of 8 x 8 cells where a plane matters, and transposed
    tunnels: np.ndarray  # (threads, SIDE, SIDE) bool
    perm: np.ndarray  # (threads, 256) int64
    order: np.ndarray  # (threads, 256) int64


def make_terrain_buffers(threads: int) -> TerrainBuffers:
    return TerrainBuffers(
        planes=np.zeros((threads, PLANES, CELLS), np.float32),
        truths=np.zeros((threads, CELLS), np.int32),
        wanted=np.zeros((threads, 2, BLOCKS, BLOCKS), np.bool_),
        tunnels=np.zeros((threads, const.MAP_SIZE, const.MAP_SIZE), np.bool_),
        perm=np.zeros((threads, 256), np.int64),
        order=np.zeros((threads, 256), np.int64),
    )


@jit
def make_ground(env, dial, w, k):
    """The ground of an environment whose random stream stands at its beginning. `k` is the row of scratch."""
    perm, planes, truths, wanted = w.perm[k], w.planes[k], w.truths[k], w.wanted[k]
    permute(mt19937.randint(env.rng, 0, 2**31 - 1), perm, w.order[k])
    planes[:] = 0
    _decide_heights(perm, planes, truths, wanted, dial)
    for p in range(START):
        if p == CAVE:
            _want(truths, wanted, HOME | HIGH, HIGH)
        elif p == ACROSS:
            _want(truths, wanted, HOME | LAKE | ROCK, ROCK)
        elif p == SAND:
            _want(truths, wanted, SHORE, SHORE)
        elif p == TREE:
            _want(truths, wanted, HOME | ROCK | WET, 0)
        _decide(perm, planes[p], truths, wanted, p, _threshold(dial, p))
    w.tunnels[k] = False
    _lay_ground(env, truths, w.tunnels[k], dial)
    count_ground(env)


@jit
def _threshold(dial, plane):
    if plane == CAVE:
        return 0.15
    if plane == COAL:
        return dial.coal_noise
    if plane == IRON:
        return dial.iron_noise
    if plane == LAVA:
        return dial.lava
    if plane == SAND:
        return -0.2
    if plane == TREE:
        return dial.tree_noise
    return dial.tunnel


@jit
def _want(truths, wanted, mask, bits):
    """Mark the blocks that hold a cell whose answers under `mask` are `bits`."""
    for p in range(BLOCKS):
        for q in range(BLOCKS):
            some = False
            for x in range(8 * p, 8 * p + 8):
                for y in range(8 * q, 8 * q + 8):
                    some |= truths[x * const.MAP_SIZE + y] & mask == bits
            wanted[0, p, q] = some
            wanted[1, q, p] = some


@jit
def _decide(perm, plane, truths, wanted, p, threshold):
    """Set bit p of every cell in the wanted blocks where the noise of plane p is above the threshold."""
    if threshold >= NEVER:
        return
    last = const.MAP_SIZE - 1
    if p == ACROSS:
        add_noise(perm, plane, 1.0, 2 / 3, 1 / 15, 7.0, False, 0, last, wanted[0])
    elif p == DOWNWARDS:  # transposed: at [y, x]
        add_noise(perm, plane, 1.0, 2 / 3, 1 / 15, 7.0, True, 0, last, wanted[1])
    else:
        add_noise(perm, plane, 1.0, 1 / _SCALE[p], 1 / _SCALE[p], _LAYER[p], False, 0, last, wanted[0])
    limit, error = np.float32(threshold), np.float32(MAX_ERROR)
    doubts = 0
    if p == DOWNWARDS:
        for x in range(const.MAP_SIZE):
            for y in range(const.MAP_SIZE):
                value = plane[y * const.MAP_SIZE + x] - limit
                truths[x * const.MAP_SIZE + y] |= (value > 0) << p | (abs(value) < error) * DOUBT
                doubts += abs(value) < error
    else:
        for cell in range(CELLS):
            value = plane[cell] - limit
            truths[cell] |= np.int32(value > 0) << p | np.int32(abs(value) < error) * DOUBT
            doubts += abs(value) < error
    if doubts > 0:
        for cell in range(CELLS):
            if truths[cell] & DOUBT:
                above = _exact(perm, p, cell // const.MAP_SIZE, cell % const.MAP_SIZE) > threshold
                truths[cell] = (truths[cell] & ~(DOUBT | 1 << p)) | above << p


@jit
def _decide_heights(perm, planes, truths, wanted, dial):
    """Set the bits from HOME on of every cell."""
    wanted[:] = True
    start, water, mountain = planes[START], planes[WATER], planes[MOUNTAIN]
    last = const.MAP_SIZE - 1
    add_noise(perm, water, 1.0, 1 / 15, 1 / 15, 3.0, False, 0, last, wanted[0])
    add_noise(perm, water, 0.15, 1 / 5, 1 / 5, 3.0, False, 0, last, wanted[0])
    add_noise(perm, mountain, 1 / 1.3, 1 / 15, 1 / 15, 0.0, False, 0, last, wanted[0])
    add_noise(perm, mountain, 0.3 / 1.3, 1 / 5, 1 / 5, 0.0, False, 0, last, wanted[0])
    first, last = const.CENTER - FAR, const.CENTER + FAR
    add_noise(perm, start, 1.0, 1 / _SCALE[START], 1 / _SCALE[START], _LAYER[START], False, first, last, wanted[0])
    for x in range(const.MAP_SIZE):
        for y in range(const.MAP_SIZE):
            cell = x * const.MAP_SIZE + y
            truths[cell] = 0
            home = 0.0
            if first <= x <= last and first <= y <= last:
                raw = 4 - _start_distance(x, y) + 2 * np.float64(start[cell])
                home = 1 / (1 + math.exp(-raw))
                truths[cell] = (abs(raw) < 3 * MAX_ERROR) * DOUBT
            start[cell] = home
    for cell in range(CELLS):
        home = np.float64(start[cell])
        wet = np.float64(water[cell]) + 0.1 - 2 * home
        low = wet + dial.water_shift
        top = np.float64(mountain[cell]) - (4 * home + 0.3 * wet) + dial.mountain_shift
        wet_doubt = min(abs(low - 0.3), abs(low - 0.35), abs(low - dial.sand), abs(low - dial.lake)) < WATER_ERROR
        top_doubt = min(abs(top - 0.15), abs(top - 0.18), abs(top - 0.3)) < MOUNTAIN_ERROR
        truths[cell] |= _height_bits(home, low, top, dial) | np.int32(wet_doubt | top_doubt) * DOUBT
    for cell in range(CELLS):
        if truths[cell] & DOUBT:
            home, wet, top = _exact_heights(perm, cell // const.MAP_SIZE, cell % const.MAP_SIZE)
            truths[cell] = _height_bits(home, wet + dial.water_shift, top + dial.mountain_shift, dial)


@jit
def _height_bits(home, low, top, dial):
    return (
        np.int32(home > 0.5) * HOME
        | np.int32(top > 0.15) * ROCK
        | np.int32(top > 0.18) * GEMS
        | np.int32(top > 0.3) * HIGH
        | np.int32(low > dial.lake) * LAKE
        | np.int32((low > dial.sand) & (low <= 0.35)) * SHORE
        | np.int32(low > 0.3) * WET
    )


@jit
def _exact(perm, plane, x, y):
    """The original's noise for one of the single planes, by its own divisions."""
    if plane == ACROSS:
        return noise3(perm, 2 * x / 3, y / 5 / 3, 7.0)
    if plane == DOWNWARDS:
        return noise3(perm, x / 5 / 3, 2 * y / 3, 7.0)
    return noise3(perm, x / _SCALE[plane], y / _SCALE[plane], _LAYER[plane])


@jit
def _start_distance(x, y):
    return math.sqrt(np.float64((x - const.CENTER) ** 2 + (y - const.CENTER) ** 2))


@jit
def _exact_heights(perm, x, y):
    """(start, water, mountain) of a cell as the original computes them."""
    start = 4 - _start_distance(x, y)
    start += 2 * _exact(perm, START, x, y)
    start = 1 / (1 + math.exp(-start))
    water = 0.0
    mountain = 0.0
    for size, water_part, mountain_part in ((15.0, 1.0, 1.0), (5.0, 0.15, 0.3)):
        water += water_part * noise3(perm, x / size, y / size, 3.0)
        mountain += mountain_part * noise3(perm, x / size, y / size, 0.0)
    water += 0.1
    water -= 2 * start
    mountain /= 1.3
    mountain -= 4 * start + 0.3 * water
    return start, water, mountain


@jit
def _lay_ground(env, truths, tunnels, dial):
    """What every cell is, drawing from the stream where the original does."""
    rng = env.rng
    for cell in range(CELLS):
        truth = truths[cell]
        material = const.GRASS
        if truth & HOME:
            pass
        elif truth & ROCK and not truth & LAKE:
            if truth & HIGH and truth & 1 << CAVE:
                material = const.PATH
            elif truth & (1 << ACROSS | 1 << DOWNWARDS):
                material = const.PATH
                tunnels[cell // const.MAP_SIZE, cell % const.MAP_SIZE] = True
            elif truth & 1 << COAL and mt19937.uniform(rng) > dial.coal:
                material = const.COAL
            elif truth & 1 << IRON and mt19937.uniform(rng) > dial.iron:
                material = const.IRON
            elif truth & GEMS and mt19937.uniform(rng) > dial.diamond:
                material = const.DIAMOND
            elif truth & HIGH and truth & 1 << LAVA:
                material = const.LAVA
            else:
                material = const.STONE
        elif truth & SHORE and truth & 1 << SAND:
            material = const.SAND
        elif truth & WET:
            material = const.WATER
        elif truth & 1 << TREE and mt19937.uniform(rng) > dial.tree:
            material = const.TREE
        env.ground[cell // const.MAP_SIZE, cell % const.MAP_SIZE] = material


@jit
def populate(env, entities, dial, tunnels):
    """The first creatures. False if the list of entities is too short for them."""
    rng = env.rng
    row = 0
    for x in range(const.MAP_SIZE):
        for y in range(const.MAP_SIZE):
            material = np.int64(env.ground[x, y])
            if (const.WALKABLE >> material) & 1 == 0:
                continue
            away = (x - const.CENTER) ** 2 + (y - const.CENTER) ** 2  # squared
            if away > 3**2 and material == const.GRASS and mt19937.uniform(rng) > dial.cow:
                row = add_entity(env, entities, const.COW, x, y, const.COW_HEALTH)
            elif away > 10**2 and mt19937.uniform(rng) > dial.zombie:
                row = add_entity(env, entities, const.ZOMBIE, x, y, const.ZOMBIE_HEALTH)
            elif material == const.PATH and tunnels[x, y] and mt19937.uniform(rng) > dial.skeleton:
                row = add_entity(env, entities, const.SKELETON, x, y, const.SKELETON_HEALTH)
            if row < 0:
                return False
    return True
