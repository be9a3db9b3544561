"""The original's picture of a Heist, 64 x 64, byte for byte: floor, walls, things, the agent, and the keys it holds.

While the whole world is seen, floor, walls and things are painted once and kept: they change only when `redraw` says
so. In memory mode the view moves with the agent, and everything is painted each time.
"""

import math
from typing import NamedTuple

import numpy as np

from envgen.jit import jit

from . import textures as skins
from .background import GROUND, PIXELS, VIEW, pave
from .blit import stretch, turn
from .constants import A_DOOR, A_KEY, ACTIONS, KEYS, MEMORY, MOVES, NOOP

SIZE = PIXELS * PIXELS * 3
TWO = np.float32(2)


class Easel(NamedTuple):
    """What drawing needs besides records. A record from elsewhere, as of a snapshot, must have `redraw` set."""

    base: np.ndarray  # (n, SIZE) uint8, the still part of every environment's picture
    ground: np.ndarray  # (threads,) GROUND, scratch


def easel(n: int, threads: int) -> Easel:
    return Easel(np.zeros((n, SIZE), np.uint8), np.zeros(threads, GROUND))


def _turns() -> np.ndarray:
    """(MOVES, 2) cosine and sine by the direction faced, from single-precision degrees as the original has them."""
    turns = np.zeros((MOVES, 2))
    for facing in range(MOVES):
        radians = np.float32(-math.atan2(facing % 3 - 1, facing // 3 - 1))
        degrees = float(radians * np.float32(180) / np.float32(math.pi))
        if degrees in (90.0, -90.0):
            turns[facing] = 0.0, math.copysign(1.0, degrees)
        else:
            turns[facing] = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return turns


def _ring() -> np.ndarray:
    """(KEYS, 4) float32: left and upper edge, half the width and height of the keys held, as shares of the picture;
    before they are turned upright."""
    radius = np.float32(0.03)
    half = radius / np.float32(84 / 52)
    middles = [np.float32(1 - float(radius) * (2 * k + 1.25)) for k in range(KEYS)]
    y = np.float32(float(radius) * 0.75)
    return np.array([(x - radius, y + half, radius, half) for x in middles], np.float32)


TURNS = _turns()
RING = _ring()
LEFT, RIGHT = ACTIONS.index("left"), ACTIONS.index("right")


@jit
def camera(e):
    """(pixels a cell, cells seen, left and lower edge of the view in pixels), in single precision as the original."""
    seen = np.float32(VIEW if e.mode == MEMORY else e.side)
    unit = np.float32(PIXELS) / seen
    view = np.float32(float(PIXELS) / float(unit))
    half = view / TWO
    if e.mode == MEMORY:
        return unit, view, unit * (e.x - half), unit * (e.y - half)
    middle = np.float32(e.side * 0.5)
    return unit, view, unit * (middle - half), unit * (middle - half)


@jit
def draw(e, skin, easel, i, k, out):
    """Draw environment i, whose record is `e`, into `out`, flat (64 * 64 * 3) uint8, in thread k."""
    cam = camera(e)
    if e.mode == MEMORY:
        _paint_still(e, cam, skin, easel.ground[k], out)
    else:
        if e.redraw:
            _paint_still(e, cam, skin, easel.ground[k], easel.base[i])
        out.view(np.uint64)[:] = easel.base[i].view(np.uint64)  # many bytes at once
    e.redraw = 0
    _paint_agent(e, cam, skin, out)
    for colour in range(min(e.num_keys, KEYS)):
        if e.has_key[colour]:
            _paint_held_key(colour, cam, skin, out)


@jit
def _paint_still(e, cam, skin, ground, out):
    """All but the agent and what it holds."""
    pave(e, cam, skin, ground, out)
    for row in range(e.count):
        thing = e.things[row]
        if thing.alive:
            texture = skins.GEM
            if thing.kind == A_KEY:
                texture = skins.KEY + thing.colour
            elif thing.kind == A_DOOR:
                texture = skins.DOOR + thing.colour
            _paint_box(out, skin, texture, cam, thing.x, thing.y, thing.rx, thing.ry)


@jit
def _paint_box(out, skin, texture, cam, x, y, rx, ry):
    """A texture upright over a box of the world, given by its middle and half its sides."""
    unit, view, left, lower = cam
    px, py = float((x - rx) * unit - left), float((view - (y + ry)) * unit + lower)
    width, height = float(TWO * rx * unit), float(TWO * ry * unit)
    stretch(out, PIXELS, skin.texels, skin.textures[texture], px, py, width, height, False)


@jit
def _paint_agent(e, cam, skin, out):
    unit, view, left, lower = cam
    r = np.float32(0.375)
    x, y, size = float((e.x - r) * unit - left), float((view - (e.y + r)) * unit + lower), float(TWO * r * unit)
    texture = skin.textures[skins.AGENT]
    if e.facing == RIGHT or e.facing == LEFT or e.facing == NOOP:
        stretch(out, PIXELS, skin.texels, texture, x, y, size, size, e.facing == LEFT)
    else:
        turn(out, PIXELS, skin.texels, texture, x, y, size, size, TURNS[e.facing, 0], TURNS[e.facing, 1])


@jit
def _paint_held_key(colour, cam, skin, out):
    """On the ring in the upper right corner, upright."""
    unit, view = cam[0], cam[1]
    x, y = view * RING[colour, 0] * unit, view * RING[colour, 1] * unit
    width, height = TWO * view * RING[colour, 2] * unit, TWO * view * RING[colour, 3] * unit
    texture = skin.textures[skins.KEY + colour]
    turn(out, PIXELS, skin.texels, texture, float(x), float(y), float(width), float(height), 0.0, 1.0)
