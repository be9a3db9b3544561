"""What a restored state must be for the kernels, which check nothing, to play on from it."""

import numpy as np

from ..engine import NOT_STARTED
from ..state_validation import MAX_EPISODES, check_ranges, check_stream, require
from . import constants as t
from .reset import GEM_HEIGHT, HALF, KEY_HEIGHT
from .rules import CORNER, PLAYER

ALL_SEEDS = 2**31 - 1
MOST_REWARD = 1e9
FASTEST = 1.0  # cells a step; no level's push leads to more
RANGES = {
    "total": (-MOST_REWARD, MOST_REWARD), "bonus": (0, MOST_REWARD), "episode": (0, MAX_EPISODES),
    "level_seed": (0, ALL_SEEDS), "first_seed": (0, ALL_SEEDS), "seeds": (1, ALL_SEEDS),
    "mode": (0, len(t.MODES) - 1), "side": (0, t.SIDE), "background": (-1, t.BACKGROUNDS - 1), "num_keys": (0, t.KEYS),
    "num_doors": (0, t.KEYS), "shortest": (-1, 2**31 - 1), "x": (0, t.SIDE), "y": (0, t.SIDE),
    "vx": (-FASTEST, FASTEST), "vy": (-FASTEST, FASTEST), "rotation": (-4, 4), "facing": (0, t.MOVES - 1),
    "redraw": (0, 1), "won": (0, 1), "has_key": (0, 1), "possible": (0, 1), "achievements": (0, 2**30),
    "grid": (0, t.GEM),
}  # fmt: skip
THING_RANGES = {
    "x": (0, t.SIDE), "y": (0, t.SIDE), "kind": (0, t.A_GEM), "colour": (0, t.KEYS - 1), "alive": (0, 1),
}  # fmt: skip
WIDTHS = np.array([0, PLAYER, HALF, PLAYER], np.float32)  # half of them, by kind
HEIGHTS = np.array([0, KEY_HEIGHT, HALF, GEM_HEIGHT], np.float32)
FIRST_SIGN = np.array([0, t.KEY, t.DOOR, t.GEM])


def check_state(envs: np.ndarray, phase: np.ndarray) -> None:
    """Raise ValueError about what no play leads to. The level and its numbers are checked already."""
    begun = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(envs["things"], THING_RANGES, "a thing's ")
    for name in ("chain", "mt"):
        check_stream(envs, name)
    require(envs["first_seed"].astype(np.int64) + envs["seeds"] <= ALL_SEEDS, "seeds")
    for name in ("mode", "side"):
        require((envs[name] == envs["params"][name]) | ~begun, name)
    require((envs["count"] >= begun) & (envs["count"] <= t.THINGS), "count")
    _check_things(envs)
    _check_place(envs, begun)


def _check_things(envs: np.ndarray) -> None:
    """Each thing has the size of its kind, and stands on a cell that says so until it is gone."""
    things = envs["things"]
    used = np.arange(t.THINGS) < envs["count"][:, None]
    kind, colour = things["kind"], things["colour"]
    require(~used | (kind > 0), "a thing's kind")
    require(~used | (kind != t.A_GEM) | (colour == 0), "a thing's colour")
    require(~used | ((things["rx"] == WIDTHS[kind]) & (things["ry"] == HEIGHTS[kind])), "a thing's size")
    x, y = things["x"].astype(np.int64), things["y"].astype(np.int64)
    inside = (x < envs["side"][:, None]) & (y < envs["side"][:, None])
    require(~used | inside, "a thing's place")
    cell = envs["grid"][np.arange(len(envs))[:, None], np.minimum(y, t.SIDE - 1), np.minimum(x, t.SIDE - 1)]
    sign = np.where(things["alive"] != 0, FIRST_SIGN[kind] + colour, t.FLOOR)
    require(~used | (cell == sign), "grid")


def _check_place(envs: np.ndarray, begun: np.ndarray) -> None:
    """The agent stands in no wall, and inside the world: from there it cannot leave it."""
    rows, side = np.arange(len(envs)), envs["side"]
    for dx in (-CORNER, CORNER):
        for dy in (-CORNER, CORNER):
            i = np.floor(envs["x"] + dx).astype(np.int64)
            j = np.floor(envs["y"] + dy).astype(np.int64)
            inside = (i >= 0) & (j >= 0) & (i < side) & (j < side)
            free = envs["grid"][rows, np.clip(j, 0, t.SIDE - 1), np.clip(i, 0, t.SIDE - 1)] != t.WALL
            require(~begun | (inside & free), "the agent's place")
