"""Draws textures without smoothing, as the reference's paint library does: nearest texel, in 16.16 fixed point.

A canvas is a flat image of size * size * 3 bytes. A texel is one uint32 with red, green, blue and alpha from the
lowest byte up; colors are premultiplied by alpha. A texture is (first texel, width, height). Rectangles are in pixels,
with y pointing down.
"""

import math

import numpy as np

from envgen.jit import jit

FIXED_ONE = 0x10000  # 1.0 in 16.16 fixed point


@jit
def _copy_texel(canvas, offset, texel):
    # Unsigned indices need no check for negative values.
    offset = np.uint64(offset)
    canvas[offset] = np.uint8(texel)
    canvas[offset + np.uint64(1)] = np.uint8(texel >> np.uint32(8))
    canvas[offset + np.uint64(2)] = np.uint8(texel >> np.uint32(16))


@jit
def _blend_channel(below, transparency, above):
    t = np.uint32(below) * transparency
    return np.uint8(np.uint32(above & np.uint32(255)) + ((t + (t >> np.uint32(8)) + np.uint32(128)) >> np.uint32(8)))


@jit
def _blend_texel(canvas, offset, texel):
    """Draw a texel over the pixel at byte `offset`."""
    transparency = np.uint32(255) - (texel >> np.uint32(24))
    if transparency == 0:
        _copy_texel(canvas, offset, texel)
    elif transparency < 255:
        offset = np.uint64(offset)
        canvas[offset] = _blend_channel(canvas[offset], transparency, texel)
        canvas[offset + np.uint64(1)] = _blend_channel(
            canvas[offset + np.uint64(1)], transparency, texel >> np.uint32(8)
        )
        canvas[offset + np.uint64(2)] = _blend_channel(
            canvas[offset + np.uint64(2)], transparency, texel >> np.uint32(16)
        )


@jit
def clip_span(start, length, num_texels, size):
    """The visible part of a texture along one axis: (first pixel, one past the last, first texel, texels per pixel).

    The last two are 16.16 fixed point. A negative `num_texels` mirrors the texture.
    """
    scale = length / num_texels
    step = np.int64(FIXED_ONE / scale)
    first = max(np.int64(math.floor(start + 0.5)), 0)
    last = min(np.int64(math.floor(start + length + 0.5)), size)
    if num_texels > 0:
        texel = np.int64(math.ceil((first + 0.5 - start) * step)) - 1
        end = num_texels * FIXED_ONE
    else:
        texel = np.int64(math.floor((first + 0.5 - start) * step)) + 1 - num_texels * FIXED_ONE
        end = -num_texels * FIXED_ONE
    if last > first and not 0 <= texel + (last - first - 1) * step < end:
        last -= 1  # rounding went one texel too far
    return first, last, texel, step


@jit
def blit(canvas, size, texels, texture, x, y, width, height, flipped):
    """Draw a texture over a rectangle, upright or, if `flipped`, rotated by half a turn."""
    if x >= size or y >= size or x + width <= 0 or y + height <= 0:
        return  # not visible: skip the more expensive clipping
    sign = -1 if flipped else 1
    x0, x1, u0, du = clip_span(x, width, sign * texture[1], size)
    y0, y1, v, dv = clip_span(y, height, sign * texture[2], size)
    for py in range(y0, y1):
        row = texture[0] + (v >> 16) * texture[1]
        offset = 3 * (py * size + x0)
        u = u0
        for _ in range(x0, x1):
            _blend_texel(canvas, offset, texels[np.uint64(row + (u >> 16))])
            offset += 3
            u += du
        v += dv


@jit
def blit_rotated(canvas, size, texels, texture, x, y, width, height, cos, sin):
    """Draw a texture over a rectangle that is rotated clockwise around its center, scanline by scanline."""
    center_x, center_y = x + width / 2, y + height / 2
    x, y = -width / 2, -height / 2
    u, v = float(texture[1]), float(texture[2])
    right, below = x + width, y + height
    corners = (  # clockwise: (x, y) after the rotation, (u, v) of the texel there
        (cos * x - sin * y + center_x, sin * x + cos * y + center_y, 0.0, 0.0),
        (cos * right - sin * y + center_x, sin * right + cos * y + center_y, u, 0.0),
        (cos * right - sin * below + center_x, sin * right + cos * below + center_y, u, v),
        (cos * x - sin * below + center_x, sin * x + cos * below + center_y, 0.0, v),
    )
    highest = 0
    for k in range(1, 4):
        if corners[k][1] < corners[highest][1]:
            highest = k
    top, right_corner, bottom, left_corner = (
        corners[highest],
        corners[(highest + 1) & 3],
        corners[(highest + 2) & 3],
        corners[(highest + 3) & 3],
    )
    mapping = _inverse_transform(top, left_corner, bottom)
    for band in range(3):  # between two corners in height, both edges are straight
        upper_y, lower_y = min(left_corner[1], right_corner[1]), max(left_corner[1], right_corner[1])
        y0 = top[1] if band == 0 else (upper_y if band == 1 else lower_y)
        y1 = bottom[1] if band == 2 else (upper_y if band == 0 else lower_y)
        first = max(np.int64(math.floor(y0 + 0.5)), 0)
        last = min(np.int64(math.floor(y1 + 0.5)), size)
        if first >= last:
            continue
        below_left = band == 2 or (band == 1 and left_corner[1] < right_corner[1])  # below the left corner
        below_right = band == 2 or (band == 1 and left_corner[1] >= right_corner[1])
        x0, dx0 = _edge_at(left_corner, bottom, first) if below_left else _edge_at(top, left_corner, first)
        x1, dx1 = _edge_at(right_corner, bottom, first) if below_right else _edge_at(top, right_corner, first)
        for py in range(first, last):
            _draw_scanline(canvas, size, texels, texture, py, max(x0 >> 16, 0), min(x1 >> 16, size), mapping)
            x0 += dx0
            x1 += dx1


@jit
def _inverse_transform(top, left, bottom):
    """The mapping from pixels to texels, in 16.16: (u, v) of pixel (0, 0), then the change per pixel in x and in y."""
    ax, ay, au, av = left[0] - top[0], left[1] - top[1], left[2] - top[2], left[3] - top[3]
    bx, by, bu, bv = bottom[0] - top[0], bottom[1] - top[1], bottom[2] - top[2], bottom[3] - top[3]
    factor = 1.0 / (ax * by - ay * bx)
    u_x, u_y = (au * by - ay * bu) * factor, (ax * bu - au * bx) * factor
    v_x, v_y = (av * by - ay * bv) * factor, (ax * bv - av * bx) * factor
    u0 = top[2] - u_x * top[0] - u_y * top[1]
    v0 = top[3] - v_x * top[0] - v_y * top[1]
    return (
        np.int64(math.ceil((0.5 * u_x + 0.5 * u_y + u0) * FIXED_ONE)) - 1,
        np.int64(math.ceil((0.5 * v_x + 0.5 * v_y + v0) * FIXED_ONE)) - 1,
        np.int64(u_x * FIXED_ONE),
        np.int64(v_x * FIXED_ONE),
        np.int64(u_y * FIXED_ONE),
        np.int64(v_y * FIXED_ONE),
    )


@jit
def _edge_at(start, end, y):
    """The x at which an edge crosses the scanline y, and its change per scanline, in 16.16."""
    slope = (end[0] - start[0]) / (end[1] - start[1])
    return np.int64((start[0] + (0.5 + y - start[1]) * slope + 0.5) * FIXED_ONE), np.int64(slope * FIXED_ONE)


@jit
def _draw_scanline(canvas, size, texels, texture, y, x0, x1, mapping):
    """Draw the pixels [x0, x1) of a scanline. Outside the texture, the nearest texel is used."""
    u = mapping[0] + x0 * mapping[2] + y * mapping[4]
    v = mapping[1] + x0 * mapping[3] + y * mapping[5]
    offset = 3 * (y * size + x0)
    for _ in range(x0, x1):
        column = min(max(u >> 16, 0), texture[1] - 1)
        row = min(max(v >> 16, 0), texture[2] - 1)
        _blend_texel(canvas, offset, texels[np.uint64(texture[0] + row * texture[1] + column)])
        offset += 3
        u += mapping[2]
        v += mapping[3]
