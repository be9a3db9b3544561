"""The original's picture of a world, byte for byte: tiles from an atlas, mixed with the light of the hour.

At night the original draws noise from the world's own random stream; so does this.
"""

from typing import NamedTuple

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const
from .atlas import COLUMNS, ROWS, Atlas

# Numbers in atlas.SPRITES.
FACING_PLAYER, SLEEPER, COW, ZOMBIE, SKELETON, FACING_ARROW, SAPLING, RIPE_PLANT = 1, 5, 6, 7, 8, 9, 13, 14
TINT = (0.0, 16.0, 64.0)  # of the night
DREAM = (0.0, 0.0, 16.0)  # of sleep


class RenderBuffers(NamedTuple):
    """What drawing one frame needs for the moment; one row per thread."""

    lit: np.ndarray  # (threads, sprites, materials, tile) uint8, tiles in today's light
    fresh: np.ndarray  # (threads, sprites, materials) int64, the frame for which each was lit
    frames: np.ndarray  # (threads,) int64, frames drawn so far
    noise: np.ndarray  # (threads, map_width * map_height) float64
    colours: np.ndarray  # (threads, 3, map_width) int32, one row of the map
    masks: np.ndarray  # (threads, 2, map_width) float64, how dark it is there and the noise


def make_render_buffers(threads: int, atlas: Atlas) -> RenderBuffers:
    return RenderBuffers(
        lit=np.zeros((threads, *atlas.tiles.shape), np.uint8),
        fresh=np.zeros((threads, *atlas.tiles.shape[:2]), np.int64),
        frames=np.zeros(threads, np.int64),
        noise=np.zeros((threads, len(atlas.vignette))),
        colours=np.zeros((threads, 3, atlas.shape[2] * COLUMNS), np.int32),
        masks=np.zeros((threads, 2, atlas.shape[2] * COLUMNS)),
    )


@jit
def sprite_of(env, entities, row):
    """The number in SPRITES of an entity."""
    entity = entities[row]
    if entity.kind == const.PLAYER:
        return SLEEPER if env.sleeping else FACING_PLAYER + env.facing
    if entity.kind == const.COW:
        return COW
    if entity.kind == const.ZOMBIE:
        return ZOMBIE
    if entity.kind == const.SKELETON:
        return SKELETON
    if entity.kind == const.ARROW:
        return FACING_ARROW + entity.facing
    return RIPE_PLANT if entity.counter > const.RIPE_AFTER else SAPLING


@jit
def _grey(r, g, b):
    sixteenths = np.int32(19595) * np.int32(r) + np.int32(38470) * np.int32(g) + np.int32(7471) * np.int32(b)
    return np.int32((sixteenths + np.int32(32768)) >> np.int32(16))


@jit
def _dull(colour, grey):
    """Colour at 40 %, as PIL enhances it: single precision, cut off."""
    return np.float64(np.int32(np.float32(grey) + np.float32(0.4) * np.float32(np.int32(colour) - grey)))


@jit
def _mix(colour, mask, noise):
    return np.int32((1 - mask) * colour + mask * noise)


@jit
def _lit(colour, seen, grey, tint, light):
    """A colour in the light of the hour, half of it tinted; what is `seen` at night may differ by noise."""
    return np.int32(light * colour + (1 - light) * (0.5 * _dull(seen, grey) + 0.5 * tint))


@jit
def _light_tile(tile, out, light):
    for p in range(0, tile.size, 3):
        grey = _grey(tile[p], tile[p + 1], tile[p + 2])
        for c in range(3):
            out[p + c] = _lit(np.float64(tile[p + c]), tile[p + c], grey, TINT[c], light)


@jit
def _copy_tile(tile, out, at, width, ux, uy):
    """Copy a tile into a flat picture whose rows are `width` pixels wide, its corner at byte `at`."""
    row = 3 * ux
    for y in range(uy):
        # Unsigned indices: no wrap-around to check, so the compiler copies many bytes at once.
        to, source = np.uint64(at + 3 * width * y), np.uint64(row * y)
        for k in range(row):
            out[to + np.uint64(k)] = tile[source + np.uint64(k)]


@jit
def draw(env, entities, rng, atlas, easel, k, out):
    """Draw an environment into `out`, flat (height * width * 3) uint8. At night this draws noise from `rng`."""
    width, ux, uy = atlas.shape[0], atlas.shape[2], atlas.shape[3]
    corner = 3 * (atlas.shape[5] * width + atlas.shape[4])
    out[:] = 0
    light = env.daylight
    dark = light < 0.5
    easel.frames[k] += 1
    player = entities[0]
    for cy in range(ROWS):
        for cx in range(COLUMNS):
            x, y = player.x + cx - COLUMNS // 2, player.y + cy - ROWS // 2
            material, sprite = 0, 0
            if 0 <= x < const.MAP_SIZE and 0 <= y < const.MAP_SIZE:
                material = np.int64(env.ground[x, y])
                slot = env.entity_slots[x, y]
                if slot > 0:
                    sprite = sprite_of(env, entities, slot - 1)
            at = corner + 3 * (cy * uy * width + cx * ux)
            if dark:  # noise makes every pixel its own
                _copy_tile(atlas.tiles[sprite, material], out, at, width, ux, uy)
                continue
            if easel.fresh[k, sprite, material] != easel.frames[k]:
                easel.fresh[k, sprite, material] = easel.frames[k]
                _light_tile(atlas.tiles[sprite, material], easel.lit[k, sprite, material], light)
            _copy_tile(easel.lit[k, sprite, material], out, at, width, ux, uy)
    if dark:
        mt19937.fill_uniform(rng, easel.noise[k])
        _darken(
            out,
            corner,
            width,
            COLUMNS * ux,
            ROWS * uy,
            easel.noise[k],
            atlas.vignette,
            light,
            easel.colours[k],
            easel.masks[k],
        )
    if env.sleeping:
        _dream(out, corner, width, COLUMNS * ux, ROWS * uy)
    for item in range(len(const.ITEMS)):
        count = env.inventory[item]
        if count > 0:
            cx, cy = item % const.VIEW[0], ROWS + item // const.VIEW[0]
            _copy_tile(atlas.items[item, count], out, corner + 3 * (cy * uy * width + cx * ux), width, ux, uy)


@jit
def _darken(out, corner, width, columns, rows, noise, vignette, light, colours, masks):
    """Lay the night over the map, row by row: noise, growing from the middle, is seen through the tint alone.

    A row is taken apart into colours, mixed, and put together: the middle loop then works on many pixels at once.
    """
    red, green, blue = colours[0], colours[1], colours[2]
    dark, grain = masks[0], masks[1]
    amount = 2 * (0.5 - light)
    for y in range(rows):
        start = np.uint64(corner + 3 * y * width)
        for x in range(columns):
            o, q, p = start + np.uint64(3 * x), np.uint64(x * rows + y), np.uint64(x)
            red[p], green[p], blue[p] = out[o], out[o + np.uint64(1)], out[o + np.uint64(2)]
            dark[p] = amount * vignette[q]
            grain[p] = 32 + 95 * noise[q]
        for x in range(columns):
            p = np.uint64(x)
            mask, n = dark[p], grain[p]
            r, g, b = np.float64(red[p]), np.float64(green[p]), np.float64(blue[p])
            nr, ng, nb = _mix(r, mask, n), _mix(g, mask, n), _mix(b, mask, n)
            grey = _grey(nr, ng, nb)
            red[p] = _lit(r, nr, grey, TINT[0], light)
            green[p] = _lit(g, ng, grey, TINT[1], light)
            blue[p] = _lit(b, nb, grey, TINT[2], light)
        for x in range(columns):
            o, p = start + np.uint64(3 * x), np.uint64(x)
            out[o], out[o + np.uint64(1)], out[o + np.uint64(2)] = red[p], green[p], blue[p]


@jit
def _dream(out, corner, width, columns, rows):
    """What a sleeper sees: grey, half as bright."""
    for y in range(rows):
        for x in range(columns):
            o = corner + 3 * (y * width + x)
            grey = 0.5 * _grey(out[o], out[o + 1], out[o + 2])
            out[o] = np.uint8(grey + 0.5 * DREAM[0])
            out[o + 1] = np.uint8(grey + 0.5 * DREAM[1])
            out[o + 2] = np.uint8(grey + 0.5 * DREAM[2])
