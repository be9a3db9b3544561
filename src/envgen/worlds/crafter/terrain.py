"""Map generation: the ground from noise, then the first creatures, with random numbers in the reference's order.

The material of a cell depends on about a dozen comparisons of noise with a threshold. These are evaluated first, for
whole noise maps at once, into one word of flags per cell. Only then are the random numbers drawn.

Noise maps are computed with `kernels/noise.py`, which is fast but has a small error. Where a value is so close to
its threshold that the error could matter, the cell is recomputed with the exact noise, so all flags equal the
reference's.
"""

import math
from typing import NamedTuple

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from ..kernels.noise import MAX_ERROR, add_noise, noise3, permute
from . import constants as const
from .entities import add_entity, count_ground
from .level import NEVER

NUM_CELLS = const.MAP_SIZE * const.MAP_SIZE
NUM_BLOCKS = const.MAP_SIZE // 8  # blocks of 8 x 8 cells along a side

# The noise maps. WATER and MOUNTAIN are sums of two octaves; START matters only near the start.
NUM_MAPS = 11
CAVE, LAVA, TUNNEL_X, TUNNEL_Y, COAL, IRON, SAND, TREE, START, WATER, MOUNTAIN = range(NUM_MAPS)
_SCALE = np.ones(NUM_MAPS)
_Z = np.ones(NUM_MAPS)
for _map, _scale, _z in (
    (CAVE, 7, 6), (COAL, 8, 1), (IRON, 6, 2), (LAVA, 5, 6), (SAND, 9, 4), (TREE, 7, 5), (START, 3, 8),
):  # fmt: skip
    _SCALE[_map], _Z[_map] = _scale, _z

# The flags of a cell. Bit m, up to TREE, says that noise map m is above its threshold. The others compare the values
# of START, MOUNTAIN and WATER.
SPAWN = 1 << 8  # start > 0.5: the area around the start
ROCK, ORES, HIGH = 1 << 9, 1 << 10, 1 << 11  # mountain > 0.15, > 0.18, > 0.3
LAKE, SHORE, WET = 1 << 12, 1 << 13, 1 << 14  # water > lake; sand < water <= 0.35; water > 0.3
NEEDS_EXACT = 1 << 20  # some flag of this cell must be computed with the exact noise

# Error bounds of the fast noise n. start = sigmoid(4 - d + 2 n) changes by at most half of n's error; water is
# n + 0.15 n' - 2 start; mountain is (n + 0.3 n') / 1.3 - 4 start - 0.3 water. Beyond START_RADIUS start is taken as 0.
START_RADIUS = 16  # cells
START_ERROR = 0.5 * MAX_ERROR + 2e-5  # 2e-5 > sigmoid(4 - 17 + 2)
WATER_ERROR = 1.15 * MAX_ERROR + 2 * START_ERROR
MOUNTAIN_ERROR = MAX_ERROR + 4 * START_ERROR + 0.3 * WATER_ERROR


class TerrainBuffers(NamedTuple):
    """Temporary memory for map generation, one row per thread."""

    noise_maps: np.ndarray  # (threads, NUM_MAPS, NUM_CELLS) float32
    flags: np.ndarray  # (threads, NUM_CELLS) int32
    blocks: np.ndarray  # (threads, 2, 8, 8) bool, the blocks of cells where a noise map matters, and their transpose
    tunnels: np.ndarray  # (threads, MAP_SIZE, MAP_SIZE) bool
    perm: np.ndarray  # (threads, 256) int64, the permutation of the noise
    order: np.ndarray  # (threads, 256) int64


def make_terrain_buffers(threads: int) -> TerrainBuffers:
    return TerrainBuffers(
        noise_maps=np.zeros((threads, NUM_MAPS, NUM_CELLS), np.float32),
        flags=np.zeros((threads, NUM_CELLS), np.int32),
        blocks=np.zeros((threads, 2, NUM_BLOCKS, NUM_BLOCKS), np.bool_),
        tunnels=np.zeros((threads, const.MAP_SIZE, const.MAP_SIZE), np.bool_),
        perm=np.zeros((threads, 256), np.int64),
        order=np.zeros((threads, 256), np.int64),
    )


@jit
def make_ground(env, params, buffers, thread):
    """Create the ground of an environment whose random generator has just been seeded."""
    perm, noise_maps = buffers.perm[thread], buffers.noise_maps[thread]
    flags, blocks, tunnels = buffers.flags[thread], buffers.blocks[thread], buffers.tunnels[thread]
    permute(mt19937.randint(env.rng, 0, 2**31 - 1), perm, buffers.order[thread])
    noise_maps[:] = 0
    _set_height_flags(perm, noise_maps, flags, blocks, params)
    for m in range(START):
        if m == CAVE:
            _mark_blocks(flags, blocks, SPAWN | HIGH, HIGH)
        elif m == TUNNEL_X:
            _mark_blocks(flags, blocks, SPAWN | LAKE | ROCK, ROCK)
        elif m == SAND:
            _mark_blocks(flags, blocks, SHORE, SHORE)
        elif m == TREE:
            _mark_blocks(flags, blocks, SPAWN | ROCK | WET, 0)
        _set_noise_flag(perm, noise_maps[m], flags, blocks, m, _threshold(params, m))
    tunnels[:] = False
    _choose_materials(env, flags, tunnels, params)
    count_ground(env)


@jit
def _threshold(params, m):
    if m == CAVE:
        return 0.15
    if m == COAL:
        return params.coal_noise
    if m == IRON:
        return params.iron_noise
    if m == LAVA:
        return params.lava
    if m == SAND:
        return -0.2
    if m == TREE:
        return params.tree_noise
    return params.tunnel


@jit
def _mark_blocks(flags, blocks, mask, bits):
    """Mark the blocks with a cell whose flags under `mask` equal `bits`."""
    for p in range(NUM_BLOCKS):
        for q in range(NUM_BLOCKS):
            is_marked = False
            for x in range(8 * p, 8 * p + 8):
                for y in range(8 * q, 8 * q + 8):
                    is_marked |= flags[x * const.MAP_SIZE + y] & mask == bits
            blocks[0, p, q] = is_marked
            blocks[1, q, p] = is_marked


@jit
def _set_noise_flag(perm, noise_map, flags, blocks, m, threshold):
    """Set bit m of every cell in the marked blocks where noise map m is above the threshold."""
    if threshold >= NEVER:
        return
    last = const.MAP_SIZE - 1
    if m == TUNNEL_X:
        add_noise(perm, noise_map, 1.0, 2 / 3, 1 / 15, 7.0, False, 0, last, blocks[0])
    elif m == TUNNEL_Y:  # transposed: at [y, x]
        add_noise(perm, noise_map, 1.0, 2 / 3, 1 / 15, 7.0, True, 0, last, blocks[1])
    else:
        add_noise(perm, noise_map, 1.0, 1 / _SCALE[m], 1 / _SCALE[m], _Z[m], False, 0, last, blocks[0])
    limit, error = np.float32(threshold), np.float32(MAX_ERROR)
    num_uncertain = 0
    if m == TUNNEL_Y:
        for x in range(const.MAP_SIZE):
            for y in range(const.MAP_SIZE):
                value = noise_map[y * const.MAP_SIZE + x] - limit
                flags[x * const.MAP_SIZE + y] |= (value > 0) << m | (abs(value) < error) * NEEDS_EXACT
                num_uncertain += abs(value) < error
    else:
        for cell in range(NUM_CELLS):
            value = noise_map[cell] - limit
            flags[cell] |= np.int32(value > 0) << m | np.int32(abs(value) < error) * NEEDS_EXACT
            num_uncertain += abs(value) < error
    if num_uncertain > 0:
        for cell in range(NUM_CELLS):
            if flags[cell] & NEEDS_EXACT:
                is_above = _exact_noise(perm, m, cell // const.MAP_SIZE, cell % const.MAP_SIZE) > threshold
                flags[cell] = (flags[cell] & ~(NEEDS_EXACT | 1 << m)) | is_above << m


@jit
def _set_height_flags(perm, noise_maps, flags, blocks, params):
    """Set the flags from SPAWN to WET of every cell."""
    blocks[:] = True
    start_map, water_map, mountain_map = noise_maps[START], noise_maps[WATER], noise_maps[MOUNTAIN]
    last = const.MAP_SIZE - 1
    add_noise(perm, water_map, 1.0, 1 / 15, 1 / 15, 3.0, False, 0, last, blocks[0])
    add_noise(perm, water_map, 0.15, 1 / 5, 1 / 5, 3.0, False, 0, last, blocks[0])
    add_noise(perm, mountain_map, 1 / 1.3, 1 / 15, 1 / 15, 0.0, False, 0, last, blocks[0])
    add_noise(perm, mountain_map, 0.3 / 1.3, 1 / 5, 1 / 5, 0.0, False, 0, last, blocks[0])
    first, last = const.CENTER - START_RADIUS, const.CENTER + START_RADIUS
    add_noise(perm, start_map, 1.0, 1 / _SCALE[START], 1 / _SCALE[START], _Z[START], False, first, last, blocks[0])
    for x in range(const.MAP_SIZE):
        for y in range(const.MAP_SIZE):
            cell = x * const.MAP_SIZE + y
            flags[cell] = 0
            start = 0.0
            if first <= x <= last and first <= y <= last:
                logit = 4 - _start_distance(x, y) + 2 * np.float64(start_map[cell])
                start = 1 / (1 + math.exp(-logit))
                flags[cell] = (abs(logit) < 3 * MAX_ERROR) * NEEDS_EXACT
            start_map[cell] = start
    for cell in range(NUM_CELLS):
        start = np.float64(start_map[cell])
        original_water = np.float64(water_map[cell]) + 0.1 - 2 * start
        water = original_water + params.water_shift
        mountain = np.float64(mountain_map[cell]) - (4 * start + 0.3 * original_water) + params.mountain_shift
        water_margin = min(abs(water - 0.3), abs(water - 0.35), abs(water - params.sand), abs(water - params.lake))
        mountain_margin = min(abs(mountain - 0.15), abs(mountain - 0.18), abs(mountain - 0.3))
        is_uncertain = (water_margin < WATER_ERROR) | (mountain_margin < MOUNTAIN_ERROR)
        flags[cell] |= _height_flags(start, water, mountain, params) | np.int32(is_uncertain) * NEEDS_EXACT
    for cell in range(NUM_CELLS):
        if flags[cell] & NEEDS_EXACT:
            start, water, mountain = _exact_heights(perm, cell // const.MAP_SIZE, cell % const.MAP_SIZE)
            flags[cell] = _height_flags(start, water + params.water_shift, mountain + params.mountain_shift, params)


@jit
def _height_flags(start, water, mountain, params):
    return (
        np.int32(start > 0.5) * SPAWN
        | np.int32(mountain > 0.15) * ROCK
        | np.int32(mountain > 0.18) * ORES
        | np.int32(mountain > 0.3) * HIGH
        | np.int32(water > params.lake) * LAKE
        | np.int32((water > params.sand) & (water <= 0.35)) * SHORE
        | np.int32(water > 0.3) * WET
    )


@jit
def _exact_noise(perm, m, x, y):
    """The reference's noise for one of the maps up to START, with its divisions."""
    if m == TUNNEL_X:
        return noise3(perm, 2 * x / 3, y / 5 / 3, 7.0)
    if m == TUNNEL_Y:
        return noise3(perm, x / 5 / 3, 2 * y / 3, 7.0)
    return noise3(perm, x / _SCALE[m], y / _SCALE[m], _Z[m])


@jit
def _start_distance(x, y):
    return math.sqrt(np.float64((x - const.CENTER) ** 2 + (y - const.CENTER) ** 2))


@jit
def _exact_heights(perm, x, y):
    """(start, water, mountain) of a cell, computed as the reference does."""
    start = 4 - _start_distance(x, y)
    start += 2 * _exact_noise(perm, START, x, y)
    start = 1 / (1 + math.exp(-start))
    water = 0.0
    mountain = 0.0
    for size, water_weight, mountain_weight in ((15.0, 1.0, 1.0), (5.0, 0.15, 0.3)):
        water += water_weight * noise3(perm, x / size, y / size, 3.0)
        mountain += mountain_weight * noise3(perm, x / size, y / size, 0.0)
    water += 0.1
    water -= 2 * start
    mountain /= 1.3
    mountain -= 4 * start + 0.3 * water
    return start, water, mountain


@jit
def _choose_materials(env, flags, tunnels, params):
    """Choose the material of every cell, drawing random numbers where the reference does."""
    rng = env.rng
    for cell in range(NUM_CELLS):
        bits = flags[cell]
        material = const.GRASS
        if bits & SPAWN:
            pass
        elif bits & ROCK and not bits & LAKE:
            if bits & HIGH and bits & 1 << CAVE:
                material = const.PATH
            elif bits & (1 << TUNNEL_X | 1 << TUNNEL_Y):
                material = const.PATH
                tunnels[cell // const.MAP_SIZE, cell % const.MAP_SIZE] = True
            elif bits & 1 << COAL and mt19937.uniform(rng) > params.coal:
                material = const.COAL
            elif bits & 1 << IRON and mt19937.uniform(rng) > params.iron:
                material = const.IRON
            elif bits & ORES and mt19937.uniform(rng) > params.diamond:
                material = const.DIAMOND
            elif bits & HIGH and bits & 1 << LAVA:
                material = const.LAVA
            else:
                material = const.STONE
        elif bits & SHORE and bits & 1 << SAND:
            material = const.SAND
        elif bits & WET:
            material = const.WATER
        elif bits & 1 << TREE and mt19937.uniform(rng) > params.tree:
            material = const.TREE
        env.ground[cell // const.MAP_SIZE, cell % const.MAP_SIZE] = material


@jit
def populate(env, entities, params, tunnels):
    """Add the first creatures. Returns False if the entity array is too short for them."""
    rng = env.rng
    row = 0
    for x in range(const.MAP_SIZE):
        for y in range(const.MAP_SIZE):
            material = np.int64(env.ground[x, y])
            if (const.WALKABLE >> material) & 1 == 0:
                continue
            squared_distance = (x - const.CENTER) ** 2 + (y - const.CENTER) ** 2
            if squared_distance > 3**2 and material == const.GRASS and mt19937.uniform(rng) > params.cow:
                row = add_entity(env, entities, const.COW, x, y, const.COW_HEALTH)
            elif squared_distance > 10**2 and mt19937.uniform(rng) > params.zombie:
                row = add_entity(env, entities, const.ZOMBIE, x, y, const.ZOMBIE_HEALTH)
            elif material == const.PATH and tunnels[x, y] and mt19937.uniform(rng) > params.skeleton:
                row = add_entity(env, entities, const.SKELETON, x, y, const.SKELETON_HEALTH)
            if row < 0:
                return False
    return True
