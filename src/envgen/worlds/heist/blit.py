"""How the original's paint library puts a texture on a canvas without smoothing: nearest texel, in 16.16 fixed point.

A canvas is a flat (side * side * 3) uint8 picture. A texel is one uint32: red, green, blue and alpha from the lowest
byte up, the colours already multiplied by alpha. A texture is (its first texel, width, height). Rectangles are in
pixels, y down.
"""

import math

import numpy as np

from envgen.jit import jit

ONE = 0x10000  # 1.0 in 16.16


@jit
def _copy(canvas, at, texel):
    # Unsigned indices: no wrap-around to check.
    at = np.uint64(at)
    canvas[at] = np.uint8(texel)
    canvas[at + np.uint64(1)] = np.uint8(texel >> np.uint32(8))
    canvas[at + np.uint64(2)] = np.uint8(texel >> np.uint32(16))


@jit
def _over(below, share, above):
    t = np.uint32(below) * share
    return np.uint8(np.uint32(above & np.uint32(255)) + ((t + (t >> np.uint32(8)) + np.uint32(128)) >> np.uint32(8)))


@jit
def _blend(canvas, at, texel):
    """Lay a texel over the pixel at byte `at`."""
    share = np.uint32(255) - (texel >> np.uint32(24))
    if share == 0:
        _copy(canvas, at, texel)
    elif share < 255:
        at = np.uint64(at)
        canvas[at] = _over(canvas[at], share, texel)
        canvas[at + np.uint64(1)] = _over(canvas[at + np.uint64(1)], share, texel >> np.uint32(8))
        canvas[at + np.uint64(2)] = _over(canvas[at + np.uint64(2)], share, texel >> np.uint32(16))


@jit
def span(low, length, texels, side):
    """Where a texture lies along one axis: (first pixel, one past the last, first texel, texels a pixel), in 16.16.

    `texels` negative: mirrored.
    """
    scale = length / texels
    step = np.int64(ONE / scale)
    first = max(np.int64(math.floor(low + 0.5)), 0)
    last = min(np.int64(math.floor(low + length + 0.5)), side)
    if texels > 0:
        start = np.int64(math.ceil((first + 0.5 - low) * step)) - 1
        end = texels * ONE
    else:
        start = np.int64(math.floor((first + 0.5 - low) * step)) + 1 - texels * ONE
        end = -texels * ONE
    if last > first and not 0 <= start + (last - first - 1) * step < end:
        last -= 1  # rounding went one texel too far
    return first, last, start, step


@jit
def stretch(canvas, side, texels, texture, x, y, width, height, turned):
    """Draw a texture over a rectangle, upright or `turned` by half a circle."""
    if x >= side or y >= side or x + width <= 0 or y + height <= 0:
        return  # out of sight; spans would be found empty, but later
    sign = -1 if turned else 1
    x0, x1, u0, du = span(x, width, sign * texture[1], side)
    y0, y1, v, dv = span(y, height, sign * texture[2], side)
    for py in range(y0, y1):
        row = texture[0] + (v >> 16) * texture[1]
        at = 3 * (py * side + x0)
        u = u0
        for _ in range(x0, x1):
            _blend(canvas, at, texels[np.uint64(row + (u >> 16))])
            at += 3
            u += du
        v += dv


@jit
def turn(canvas, side, texels, texture, x, y, width, height, cos, sin):
    """Draw a texture over a rectangle turned clockwise about its middle, scan line by scan line."""
    cx, cy = x + width / 2, y + height / 2
    x, y = -width / 2, -height / 2
    u, v = float(texture[1]), float(texture[2])
    right, below = x + width, y + height
    corners = (  # clockwise; where each comes to lie, and which texel lies there
        (cos * x - sin * y + cx, sin * x + cos * y + cy, 0.0, 0.0),
        (cos * right - sin * y + cx, sin * right + cos * y + cy, u, 0.0),
        (cos * right - sin * below + cx, sin * right + cos * below + cy, u, v),
        (cos * x - sin * below + cx, sin * x + cos * below + cy, 0.0, v),
    )
    highest = 0
    for k in range(1, 4):
        if corners[k][1] < corners[highest][1]:
            highest = k
    top, right_, bottom, left = (
        corners[highest],
        corners[(highest + 1) & 3],
        corners[(highest + 2) & 3],
        corners[(highest + 3) & 3],
    )
    texel = _inverse(top, left, bottom)
    for band in range(3):  # between two corners in height, both edges are straight
        y0 = top[1] if band == 0 else (min(left[1], right_[1]) if band == 1 else max(left[1], right_[1]))
        y1 = bottom[1] if band == 2 else (min(left[1], right_[1]) if band == 0 else max(left[1], right_[1]))
        low = max(np.int64(math.floor(y0 + 0.5)), 0)
        high = min(np.int64(math.floor(y1 + 0.5)), side)
        if low >= high:
            continue
        left_on = band == 2 or (band == 1 and left[1] < right_[1])  # past its corner on the left
        right_on = band == 2 or (band == 1 and left[1] >= right_[1])
        x0, dx0 = _edge(left, bottom, low) if left_on else _edge(top, left, low)
        x1, dx1 = _edge(right_, bottom, low) if right_on else _edge(top, right_, low)
        for py in range(low, high):
            _line(canvas, side, texels, texture, py, max(x0 >> 16, 0), min(x1 >> 16, side), texel)
            x0 += dx0
            x1 += dx1


@jit
def _inverse(top, left, bottom):
    """From pixels to texels, in 16.16: (u, v) of pixel (0, 0), then what one pixel to the right and one down add."""
    ax, ay, au, av = left[0] - top[0], left[1] - top[1], left[2] - top[2], left[3] - top[3]
    bx, by, bu, bv = bottom[0] - top[0], bottom[1] - top[1], bottom[2] - top[2], bottom[3] - top[3]
    factor = 1.0 / (ax * by - ay * bx)
    u_x, u_y = (au * by - ay * bu) * factor, (ax * bu - au * bx) * factor
    v_x, v_y = (av * by - ay * bv) * factor, (ax * bv - av * bx) * factor
    u0 = top[2] - u_x * top[0] - u_y * top[1]
    v0 = top[3] - v_x * top[0] - v_y * top[1]
    return (
        np.int64(math.ceil((0.5 * u_x + 0.5 * u_y + u0) * ONE)) - 1,
        np.int64(math.ceil((0.5 * v_x + 0.5 * v_y + v0) * ONE)) - 1,
        np.int64(u_x * ONE),
        np.int64(v_x * ONE),
        np.int64(u_y * ONE),
        np.int64(v_y * ONE),
    )


@jit
def _edge(start, end, y):
    """Where the edge between two corners crosses the scan line y, and what the next line adds; 16.16."""
    slope = (end[0] - start[0]) / (end[1] - start[1])
    return np.int64((start[0] + (0.5 + y - start[1]) * slope + 0.5) * ONE), np.int64(slope * ONE)


@jit
def _line(canvas, side, texels, texture, y, x0, x1, texel):
    """The pixels [x0, x1) of a scan line; what falls outside the texture takes its nearest texel."""
    u = texel[0] + x0 * texel[2] + y * texel[4]
    v = texel[1] + x0 * texel[3] + y * texel[5]
    at = 3 * (y * side + x0)
    for _ in range(x0, x1):
        column = min(max(u >> 16, 0), texture[1] - 1)
        row = min(max(v >> 16, 0), texture[2] - 1)
        _blend(canvas, at, texels[np.uint64(texture[0] + row * texture[1] + column)])
        at += 3
        u += texel[2]
        v += texel[3]
