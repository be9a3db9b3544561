"""Checks that a restored state is one that an environment can reach: kernels do not check array bounds."""

import numpy as np

from ..engine import NOT_STARTED
from ..state_validation import MAX_EPISODES, check_ranges, check_stream, require
from . import constants as const
from .reset import GEM_RY, HALF, KEY_RY
from .rules import AGENT_RADIUS, COLLISION_RADIUS

ALL_SEEDS = 2**31 - 1
MAX_RETURN = 1e9
MAX_SPEED = 1.0  # cells per step; no level allows more
COORDINATES = (0, const.MAX_WORLD_SIZE)
COLOR_COUNTS = (0, const.NUM_COLORS)
RANGES = {
    "episode_return": (-MAX_RETURN, MAX_RETURN), "bonus": (0, MAX_RETURN), "episode": (0, MAX_EPISODES),
    "level_seed": (0, ALL_SEEDS), "first_seed": (0, ALL_SEEDS), "num_seeds": (1, ALL_SEEDS),
    "mode": (0, len(const.MODES) - 1), "world_size": COORDINATES, "background": (-1, const.NUM_BACKGROUNDS - 1),
    "num_key_slots": COLOR_COUNTS, "num_doors": COLOR_COUNTS, "shortest_path": (-1, 2**31 - 1), "x": COORDINATES,
    "y": COORDINATES, "vx": (-MAX_SPEED, MAX_SPEED), "vy": (-MAX_SPEED, MAX_SPEED), "rotation": (-4, 4),
    "facing": (0, const.NUM_MOVES - 1), "needs_redraw": (0, 1), "won": (0, 1), "has_key": (0, 1), "possible": (0, 1),
    "achievements": (0, 2**30), "grid": (0, const.GEM),
}  # fmt: skip
ENTITY_RANGES = {
    "x": COORDINATES, "y": COORDINATES, "kind": (0, const.ENTITY_GEM), "color": (0, const.NUM_COLORS - 1),
    "alive": (0, 1),
}  # fmt: skip
ENTITY_RX = np.array([0, AGENT_RADIUS, HALF, AGENT_RADIUS], np.float32)  # by kind
ENTITY_RY = np.array([0, KEY_RY, HALF, GEM_RY], np.float32)
ENTITY_CELL = np.array([0, const.KEY, const.DOOR, const.GEM])


def check_state(envs: np.ndarray, phase: np.ndarray) -> None:
    """Raise ValueError for a state that no episode can reach. Levels and their params have already been checked."""
    is_started = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(envs["entities"], ENTITY_RANGES, "an entity's ")
    for name in ("seed_stream", "mt"):
        check_stream(envs, name)
    require(envs["first_seed"].astype(np.int64) + envs["num_seeds"] <= ALL_SEEDS, "num_seeds")
    for name in ("mode", "world_size"):
        require((envs[name] == envs["params"][name]) | ~is_started, name)
    require((envs["num_entities"] >= is_started) & (envs["num_entities"] <= const.MAX_ENTITIES), "num_entities")
    _check_entities(envs)
    _check_position(envs, is_started)


def _check_entities(envs: np.ndarray) -> None:
    """Each entity has the size of its kind, and its cell contains it until it is removed."""
    entities = envs["entities"]
    is_unused = np.arange(const.MAX_ENTITIES) >= envs["num_entities"][:, None]
    kind, color = entities["kind"], entities["color"]
    require(is_unused | (kind > 0), "an entity's kind")
    require(is_unused | (kind != const.ENTITY_GEM) | (color == 0), "an entity's color")
    has_size = (entities["rx"] == ENTITY_RX[kind]) & (entities["ry"] == ENTITY_RY[kind])
    require(is_unused | has_size, "an entity's size")
    i, j = entities["x"].astype(np.int64), entities["y"].astype(np.int64)
    is_inside = (i < envs["world_size"][:, None]) & (j < envs["world_size"][:, None])
    require(is_unused | is_inside, "an entity's position")
    content = _cell_contents(envs, i, j)
    expected = np.where(entities["alive"] != 0, ENTITY_CELL[kind] + color, const.FLOOR)
    require(is_unused | (content == expected), "grid")


def _check_position(envs: np.ndarray, is_started: np.ndarray) -> None:
    """The agent is inside the world and in no wall. The rules keep it there."""
    size = envs["world_size"]
    for dx in (-COLLISION_RADIUS, COLLISION_RADIUS):
        for dy in (-COLLISION_RADIUS, COLLISION_RADIUS):
            i = np.floor(envs["x"] + dx).astype(np.int64)
            j = np.floor(envs["y"] + dy).astype(np.int64)
            is_inside = (i >= 0) & (j >= 0) & (i < size) & (j < size)
            is_free = _cell_contents(envs, i[:, None], j[:, None])[:, 0] != const.WALL
            require(~is_started | (is_inside & is_free), "the agent's position")


def _cell_contents(envs: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """The contents of the cells (i, j), each (num_envs, n); the nearest cell if one is outside."""
    last = const.MAX_WORLD_SIZE - 1
    return envs["grid"][np.arange(len(envs))[:, None], np.clip(j, 0, last), np.clip(i, 0, last)]
