"""What a restored state must be for the kernels, which check nothing, to play on from it."""

import numpy as np

from ..engine import NOT_STARTED
from ..state_validation import MAX_EPISODES, check_ranges, check_stream, require
from . import constants as const
from .reset import GEM_RY, HALF, KEY_RY
from .rules import AGENT_RADIUS, COLLISION_RADIUS

ALL_SEEDS = 2**31 - 1
MOST_REWARD = 1e9
FASTEST = 1.0  # cells a step; no level's push leads to more
COORDINATES = (0, const.MAX_WORLD_SIZE)
COLOR_COUNTS = (0, const.NUM_COLORS)
RANGES = {
    "episode_return": (-MOST_REWARD, MOST_REWARD), "bonus": (0, MOST_REWARD), "episode": (0, MAX_EPISODES),
    "level_seed": (0, ALL_SEEDS), "first_seed": (0, ALL_SEEDS), "num_seeds": (1, ALL_SEEDS),
    "mode": (0, len(const.MODES) - 1), "world_size": COORDINATES, "background": (-1, const.NUM_BACKGROUNDS - 1),
    "num_key_slots": COLOR_COUNTS, "num_doors": COLOR_COUNTS, "shortest_path": (-1, 2**31 - 1), "x": COORDINATES,
    "y": COORDINATES, "vx": (-FASTEST, FASTEST), "vy": (-FASTEST, FASTEST), "rotation": (-4, 4),
    "facing": (0, const.NUM_MOVES - 1), "needs_redraw": (0, 1), "won": (0, 1), "has_key": (0, 1), "possible": (0, 1),
    "achievements": (0, 2**30), "grid": (0, const.GEM),
}  # fmt: skip
ENTITY_RANGES = {
    "x": COORDINATES, "y": COORDINATES, "kind": (0, const.ENTITY_GEM), "color": (0, const.NUM_COLORS - 1),
    "alive": (0, 1),
}  # fmt: skip
WIDTHS = np.array([0, AGENT_RADIUS, HALF, AGENT_RADIUS], np.float32)  # half of them, by kind
HEIGHTS = np.array([0, KEY_RY, HALF, GEM_RY], np.float32)
FIRST_CELL = np.array([0, const.KEY, const.DOOR, const.GEM])


def check_state(envs: np.ndarray, phase: np.ndarray) -> None:
    """Raise ValueError about what no play leads to. The level and its numbers are checked already."""
    begun = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(envs["entities"], ENTITY_RANGES, "an entity's ")
    for name in ("seed_stream", "mt"):
        check_stream(envs, name)
    require(envs["first_seed"].astype(np.int64) + envs["num_seeds"] <= ALL_SEEDS, "num_seeds")
    for name in ("mode", "world_size"):
        require((envs[name] == envs["params"][name]) | ~begun, name)
    require((envs["num_entities"] >= begun) & (envs["num_entities"] <= const.MAX_ENTITIES), "num_entities")
    _check_entities(envs)
    _check_place(envs, begun)


def _check_entities(envs: np.ndarray) -> None:
    """Each entity has the size of its kind, and stands on a cell that says so until it is gone."""
    entities = envs["entities"]
    used = np.arange(const.MAX_ENTITIES) < envs["num_entities"][:, None]
    kind, color = entities["kind"], entities["color"]
    require(~used | (kind > 0), "an entity's kind")
    require(~used | (kind != const.ENTITY_GEM) | (color == 0), "an entity's color")
    require(~used | ((entities["rx"] == WIDTHS[kind]) & (entities["ry"] == HEIGHTS[kind])), "an entity's size")
    x, y = entities["x"].astype(np.int64), entities["y"].astype(np.int64)
    inside = (x < envs["world_size"][:, None]) & (y < envs["world_size"][:, None])
    require(~used | inside, "an entity's place")
    cell = envs["grid"][
        np.arange(len(envs))[:, None], np.minimum(y, const.MAX_WORLD_SIZE - 1), np.minimum(x, const.MAX_WORLD_SIZE - 1)
    ]
    sign = np.where(entities["alive"] != 0, FIRST_CELL[kind] + color, const.FLOOR)
    require(~used | (cell == sign), "grid")


def _check_place(envs: np.ndarray, begun: np.ndarray) -> None:
    """The agent stands in no wall, and inside the world: from there it cannot leave it."""
    rows, side = np.arange(len(envs)), envs["world_size"]
    for dx in (-COLLISION_RADIUS, COLLISION_RADIUS):
        for dy in (-COLLISION_RADIUS, COLLISION_RADIUS):
            i = np.floor(envs["x"] + dx).astype(np.int64)
            j = np.floor(envs["y"] + dy).astype(np.int64)
            inside = (i >= 0) & (j >= 0) & (i < side) & (j < side)
            free = (
                envs["grid"][rows, np.clip(j, 0, const.MAX_WORLD_SIZE - 1), np.clip(i, 0, const.MAX_WORLD_SIZE - 1)]
                != const.WALL
            )
            require(~begun | (inside & free), "the agent's place")
