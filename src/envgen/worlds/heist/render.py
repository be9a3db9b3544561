"""Renders Heist: the reference's 64 x 64 image, byte for byte, and images of any size for display.

`render_frame` draws what agents observe. While the whole grid is visible, floor, walls, keys, doors and gem are drawn
once and kept until `needs_redraw` is set. In memory mode the view moves with the agent and everything is drawn in every
step. `render_hd` shows the same entities at the same positions, but is not pixel-exact. `render_preview` adds markers.
"""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from envgen.jit import jit

from ..kernels.arrays import copy_elements
from .background import BACKGROUND_SCRATCH, FRAME_SIZE, MEMORY_VIEW_CELLS, draw_background
from .blit import blit, blit_rotated
from .constants import ACTIONS, ENTITY_DOOR, ENTITY_GEM, ENTITY_KEY, MEMORY, NOOP, NUM_COLORS, NUM_MOVES, WALL
from .level import HeistLevel
from .rules import AGENT_RADIUS
from .textures import (
    AGENT_TEXTURE,
    DOOR_TEXTURE,
    FLOOR_TEXTURE,
    GEM_TEXTURE,
    KEY_TEXTURE,
    WALL_TEXTURE,
    find_procgen_textures,
    load_images,
)

FRAME_BYTES = FRAME_SIZE * FRAME_SIZE * 3
TWO = np.float32(2)
SUPERSAMPLING = 2  # render_hd draws at this scale and then averages
HD_CELL_TEXELS = 64  # along a side
MIN_RENDER_SIZE, MAX_RENDER_SIZE = 32, 4096  # pixels along a side


class RenderBuffers(NamedTuple):
    """Memory for drawing. It is not part of a snapshot: set `needs_redraw` in an ENV record restored from one."""

    static_frames: np.ndarray  # (num_envs, FRAME_BYTES) uint8, the part of each image that rarely changes
    background: np.ndarray  # (num_threads,) BACKGROUND_SCRATCH


def allocate_buffers(num_envs: int, num_threads: int) -> RenderBuffers:
    return RenderBuffers(np.zeros((num_envs, FRAME_BYTES), np.uint8), np.zeros(num_threads, BACKGROUND_SCRATCH))


def _facing_rotations() -> np.ndarray:
    """(NUM_MOVES, 2) cosine and sine by facing, computed from single-precision degrees as in the reference."""
    rotations = np.zeros((NUM_MOVES, 2))
    for facing in range(NUM_MOVES):
        radians = np.float32(-math.atan2(facing % 3 - 1, facing // 3 - 1))
        degrees = float(radians * np.float32(180) / np.float32(math.pi))
        if degrees in (90.0, -90.0):
            rotations[facing] = 0.0, math.copysign(1.0, degrees)
        else:
            rotations[facing] = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return rotations


def _key_slots() -> np.ndarray:
    """(NUM_COLORS, 4) float32: left, top, half the width and half the height of each held key, as fractions of the
    image, before it is rotated upright."""
    rx = np.float32(0.03)
    ry = rx / np.float32(84 / 52)
    centers_x = [np.float32(1 - float(rx) * (2 * k + 1.25)) for k in range(NUM_COLORS)]
    y = np.float32(float(rx) * 0.75)
    return np.array([(x - rx, y + ry, rx, ry) for x in centers_x], np.float32)


FACING_ROTATIONS = _facing_rotations()
KEY_SLOTS = _key_slots()
LEFT, RIGHT = ACTIONS.index("left"), ACTIONS.index("right")
TEXTURES_BY_KIND = {ENTITY_KEY: KEY_TEXTURE, ENTITY_DOOR: DOOR_TEXTURE, ENTITY_GEM: GEM_TEXTURE}  # + color


@jit
def get_camera(env):
    """(pixels per cell, visible cells, left and bottom edge of the view in pixels), in the reference's precision."""
    visible = np.float32(MEMORY_VIEW_CELLS if env.mode == MEMORY else env.world_size)
    unit = np.float32(FRAME_SIZE) / visible
    view = np.float32(float(FRAME_SIZE) / float(unit))
    half = view / TWO
    if env.mode == MEMORY:
        return unit, view, unit * (env.x - half), unit * (env.y - half)
    center = np.float32(env.world_size * 0.5)
    return unit, view, unit * (center - half), unit * (center - half)


@jit
def render_frame(env, atlas, buffers, i, thread, frame):
    """Draw environment i, whose record is `env`, into `frame`, a flat array of FRAME_BYTES bytes."""
    camera = get_camera(env)
    if env.mode == MEMORY:
        _draw_static(env, camera, atlas, buffers.background[thread], frame)
    else:
        if env.needs_redraw:
            _draw_static(env, camera, atlas, buffers.background[thread], buffers.static_frames[i])
        copy_elements(buffers.static_frames[i].view(np.uint64), frame.view(np.uint64))
    env.needs_redraw = 0
    _draw_agent(env, camera, atlas, frame)
    for color in range(min(env.num_key_slots, NUM_COLORS)):
        if env.has_key[color]:
            _draw_held_key(color, camera, atlas, frame)


@jit
def _draw_static(env, camera, atlas, scratch, frame):
    """Draw everything except the agent and the keys it holds."""
    draw_background(env, camera, atlas, scratch, frame)
    for n in range(env.num_entities):
        entity = env.entities[n]
        if entity.alive:
            texture = GEM_TEXTURE
            if entity.kind == ENTITY_KEY:
                texture = KEY_TEXTURE + entity.color
            elif entity.kind == ENTITY_DOOR:
                texture = DOOR_TEXTURE + entity.color
            _draw_entity(frame, atlas, texture, camera, entity.x, entity.y, entity.rx, entity.ry)


@jit
def _draw_entity(frame, atlas, texture, camera, x, y, rx, ry):
    """Draw a texture upright over a box of the grid with center (x, y)."""
    unit, view, left, bottom = camera
    px, py = float((x - rx) * unit - left), float((view - (y + ry)) * unit + bottom)
    width, height = float(TWO * rx * unit), float(TWO * ry * unit)
    blit(frame, FRAME_SIZE, atlas.texels, atlas.regions[texture], px, py, width, height, False)


@jit
def _draw_agent(env, camera, atlas, frame):
    unit, view, left, bottom = camera
    r = AGENT_RADIUS
    x, y, size = float((env.x - r) * unit - left), float((view - (env.y + r)) * unit + bottom), float(TWO * r * unit)
    region = atlas.regions[AGENT_TEXTURE]
    if env.facing == RIGHT or env.facing == LEFT or env.facing == NOOP:
        blit(frame, FRAME_SIZE, atlas.texels, region, x, y, size, size, env.facing == LEFT)
    else:
        cos, sin = FACING_ROTATIONS[env.facing, 0], FACING_ROTATIONS[env.facing, 1]
        blit_rotated(frame, FRAME_SIZE, atlas.texels, region, x, y, size, size, cos, sin)


@jit
def _draw_held_key(color, camera, atlas, frame):
    """Draw a key upright in the upper right corner."""
    unit, view = camera[0], camera[1]
    x, y = view * KEY_SLOTS[color, 0] * unit, view * KEY_SLOTS[color, 1] * unit
    width, height = TWO * view * KEY_SLOTS[color, 2] * unit, TWO * view * KEY_SLOTS[color, 3] * unit
    region = atlas.regions[KEY_TEXTURE + color]
    blit_rotated(frame, FRAME_SIZE, atlas.texels, region, float(x), float(y), float(width), float(height), 0.0, 1.0)


# --- high-resolution rendering


@lru_cache(maxsize=1024)
def _resize_texture(skin: str, procgen_path: Path | None, texture: int, width: int, height: int) -> Image.Image:
    image = Image.fromarray(load_images(skin, procgen_path, HD_CELL_TEXELS)[texture])
    return image.resize((width, height), Image.Resampling.LANCZOS)


class HdCanvas:
    """A square image of a part of the grid, whose upper left corner is (left, top); `unit` is pixels per cell."""

    def __init__(self, skin: str, procgen_path: Path | None, pixels: int, unit: float, left: float, top: float):
        self.skin, self.procgen_path, self.unit, self.left, self.top = skin, procgen_path, unit, left, top
        self.image = Image.new("RGB", (pixels, pixels))

    def paste_texture(self, texture: int, x: float, y: float, width: float, height: float) -> None:
        """Paste a texture with its upper left corner at (x, y) of the grid."""
        x0, y0 = round((x - self.left) * self.unit), round((self.top - y) * self.unit)
        x1, y1 = round((x + width - self.left) * self.unit), round((self.top - y + height) * self.unit)
        if x1 <= 0 or y1 <= 0 or x0 >= self.image.width or y0 >= self.image.height:
            return
        resized = _resize_texture(self.skin, self.procgen_path, texture, max(x1 - x0, 1), max(y1 - y0, 1))
        self.image.paste(resized, (x0, y0), resized)

    def draw_floor(self, texture: int, world_size: int) -> None:
        """Draw the visible part of a texture that covers the grid."""
        image = Image.fromarray(load_images(self.skin, self.procgen_path, HD_CELL_TEXELS)[texture])
        view = self.image.width / self.unit
        x0, x1 = max(self.left, 0.0), min(self.left + view, world_size)
        y0, y1 = max(world_size - self.top, 0.0), min(world_size - self.top + view, world_size)  # from the top
        if x0 >= x1 or y0 >= y1:
            return
        size = max(round((x1 - x0) * self.unit), 1), max(round((y1 - y0) * self.unit), 1)
        scale_x, scale_y = image.width, image.height
        box = (
            x0 * scale_x / world_size, y0 * scale_y / world_size, x1 * scale_x / world_size, y1 * scale_y / world_size,
        )  # fmt: skip
        resized = image.resize(size, Image.Resampling.BICUBIC, box=box)
        position = round((x0 - self.left) * self.unit), round((y0 - world_size + self.top) * self.unit)
        self.image.paste(resized, position)

    def draw_rotated(self, texture: int, x: float, y: float, width: float, height: float, radians: float) -> None:
        """Draw a texture rotated clockwise around its center (x, y); all in pixels of the canvas."""
        resized = _resize_texture(self.skin, self.procgen_path, texture, max(round(width), 1), max(round(height), 1))
        rotated = resized.rotate(-math.degrees(radians), Image.Resampling.BICUBIC, expand=True)
        self.image.paste(rotated, (round(x - rotated.width / 2), round(y - rotated.height / 2)), rotated)


def render_hd(
    env: Any,
    size: int | tuple[int, int] = 512,
    skin: str = "envgen",
    procgen_path: str | Path | None = None,
    full_view: bool = False,
) -> np.ndarray:
    """Draw an ENV record smoothly at any size.

    Args:
        env: A record of `state.ENV`.
        size: The size in pixels, or (width, height). If these differ, the image is centered on black.
        skin: "envgen" or "procgen".
        procgen_path: Where the reference's textures are; see `textures.find_procgen_textures`.
        full_view: Show the whole grid in memory mode too.

    Returns:
        A uint8 array of shape (height, width, 3).
    """
    width, height = size if isinstance(size, tuple) else (size, size)
    side = min(width, height)
    if not (side >= MIN_RENDER_SIZE and max(width, height) <= MAX_RENDER_SIZE):
        raise ValueError(f"size {size} must be {MIN_RENDER_SIZE} to {MAX_RENDER_SIZE} pixels")
    path = find_procgen_textures(procgen_path) if skin == "procgen" else None
    world_size, x, y = int(env["world_size"]), float(env["x"]), float(env["y"])
    follows_agent = env["mode"] == MEMORY and not full_view
    view = MEMORY_VIEW_CELLS if follows_agent else world_size
    left, bottom = (x - MEMORY_VIEW_CELLS / 2, y - MEMORY_VIEW_CELLS / 2) if follows_agent else (0.0, 0.0)
    pixels = SUPERSAMPLING * side
    canvas = HdCanvas(skin, path, pixels, pixels / view, left, bottom + view)
    if env["background"] >= 0:
        canvas.draw_floor(FLOOR_TEXTURE + int(env["background"]), world_size)
    for i in range(math.floor(left), math.ceil(left + view)):
        for j in range(math.floor(bottom), math.ceil(bottom + view)):
            if not (0 <= i < world_size and 0 <= j < world_size) or env["grid"][j, i] == WALL:
                canvas.paste_texture(WALL_TEXTURE, i, j + 1, 1, 1)
    for entity in env["entities"][: int(env["num_entities"])]:
        if entity["alive"]:
            rx, ry = float(entity["rx"]), float(entity["ry"])
            texture = TEXTURES_BY_KIND[int(entity["kind"])] + int(entity["color"])
            canvas.paste_texture(texture, float(entity["x"]) - rx, float(entity["y"]) + ry, 2 * rx, 2 * ry)
    unit = canvas.unit
    agent_size = 2 * float(AGENT_RADIUS) * unit
    agent_x, agent_y = (x - left) * unit, (canvas.top - y) * unit
    canvas.draw_rotated(AGENT_TEXTURE, agent_x, agent_y, agent_size, agent_size, float(env["rotation"]))
    for color in range(min(int(env["num_key_slots"]), NUM_COLORS)):
        if env["has_key"][color]:
            x, y, rx, ry = (pixels * float(fraction) for fraction in KEY_SLOTS[color])
            canvas.draw_rotated(KEY_TEXTURE + color, x + rx, y + ry, 2 * rx, 2 * ry, math.pi / 2)
    image = np.zeros((height, width, 3), np.uint8)
    x0, y0 = (width - side) // 2, (height - side) // 2
    image[y0 : y0 + side, x0 : x0 + side] = np.asarray(canvas.image.reduce(SUPERSAMPLING))
    return image


# --- previews of levels

MARKER_COLOR = (255, 255, 255)
LEVEL_COLOR = (255, 0, 220)  # what the level placed or removed
MARKER_EDGE = (20, 20, 20)
ICON_SIZE = 22  # pixels
ICON_BACKGROUND = (150, 140, 125)


def render_preview(env: Any, unmodified_env: Any, level: HeistLevel, size: int) -> np.ndarray:
    """Draw the start of an episode with markers around the agent, the keys, the doors and the gem.

    Args:
        env: The ENV record of the episode.
        unmodified_env: The record of the same episode without held keys and open doors. What only this record contains
            is drawn as removed by the level.
        level: The level. What its settings place has a marker in LEVEL_COLOR.
        size: Width and height in pixels.
    """
    image = Image.fromarray(render_hd(env, size, full_view=True))
    unit = size / int(env["world_size"])
    is_placed = {
        ENTITY_KEY: level.keys != "original" or level.key_distance != "original",
        ENTITY_DOOR: level.keys != "original",
        ENTITY_GEM: level.gem_distance != "original",
    }
    entities = _entities_by_kind_and_color(env)
    for (kind, _), (x, y) in entities.items():
        color = LEVEL_COLOR if is_placed[kind] else MARKER_COLOR
        _draw_marker(image, x * unit, size - y * unit, 0.55 * unit, color, is_square=kind == ENTITY_DOOR)
    for (kind, color), (x, y) in _entities_by_kind_and_color(unmodified_env).items():
        if (kind, color) not in entities:
            center_x, center_y = (math.floor(x) + 0.5) * unit, size - (math.floor(y) + 0.5) * unit
            _draw_removed(image, center_x, center_y, 0.5 * unit, TEXTURES_BY_KIND[kind] + color)
    color = LEVEL_COLOR if level.start != "original" else MARKER_COLOR
    _draw_marker(image, float(env["x"]) * unit, size - float(env["y"]) * unit, 0.75 * unit, color)
    return np.asarray(image)


def preview_legend() -> list[tuple[np.ndarray, str]]:
    """What the images of `render_preview` show, as icons (ICON_SIZE, ICON_SIZE, 3) with their descriptions."""
    images = load_images(cell_texels=HD_CELL_TEXELS)
    legend = []
    for texture, text in (
        (AGENT_TEXTURE, "agent (held keys: upper right corner)"),
        (KEY_TEXTURE, "key"),
        (DOOR_TEXTURE, "locked door"),
        (GEM_TEXTURE, "gem"),
    ):
        sprite = Image.fromarray(images[texture])
        sprite.thumbnail((ICON_SIZE - 4, ICON_SIZE - 4))
        icon = Image.new("RGB", (ICON_SIZE, ICON_SIZE), ICON_BACKGROUND)
        icon.paste(sprite, ((ICON_SIZE - sprite.width) // 2, (ICON_SIZE - sprite.height) // 2), sprite)
        legend.append((np.asarray(icon), text))
    center = ICON_SIZE / 2
    for color, text in ((MARKER_COLOR, "as in the original"), (LEVEL_COLOR, "placed by the level")):
        icon = Image.new("RGB", (ICON_SIZE, ICON_SIZE), ICON_BACKGROUND)
        _draw_marker(icon, center, center, 0.35 * ICON_SIZE, color)
        legend.append((np.asarray(icon), text))
    icon = Image.new("RGB", (ICON_SIZE, ICON_SIZE), ICON_BACKGROUND)
    _draw_removed(icon, center, center, 0.4 * ICON_SIZE, DOOR_TEXTURE)
    legend.append((np.asarray(icon), "removed by the level: a held key or an open door"))
    return legend


def _entities_by_kind_and_color(env: Any) -> dict[tuple[int, int], tuple[float, float]]:
    return {
        (int(entity["kind"]), int(entity["color"])): (float(entity["x"]), float(entity["y"]))
        for entity in env["entities"][: int(env["num_entities"])]
    }


def _draw_marker(
    image: Image.Image, x: float, y: float, radius: float, color: tuple[int, int, int], is_square: bool = False
) -> None:
    """Draw a circle or a square with dark edges around (x, y); all in pixels."""
    canvas = ImageDraw.Draw(image)
    draw = canvas.rectangle if is_square else canvas.ellipse
    for offset, outline, width in ((1, MARKER_EDGE, 4), (0, color, 2)):
        r = radius + offset
        draw((x - r, y - r, x + r, y + r), outline=outline, width=width)


def _draw_removed(image: Image.Image, x: float, y: float, radius: float, texture: int) -> None:
    """Draw a faint, crossed-out texture around (x, y); all in pixels."""
    side = round(2 * radius)
    sprite = Image.fromarray(load_images(cell_texels=HD_CELL_TEXELS)[texture])
    sprite.thumbnail((side, side))
    alpha = Image.eval(sprite.getchannel("A"), lambda value: value // 2)
    image.paste(sprite, (round(x - sprite.width / 2), round(y - sprite.height / 2)), alpha)
    canvas = ImageDraw.Draw(image)
    for dy in (-radius, radius):
        canvas.line((x - radius, y - dy, x + radius, y + dy), fill=LEVEL_COLOR, width=2)
