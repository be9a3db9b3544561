"""What a restored state must be for the kernels, which check nothing, to play on from it."""

import numpy as np

from ..engine import NOT_STARTED
from ..state_validation import MAX_EPISODES, check_ranges, check_stream, require
from . import constants as t
from .state import ALL_CHUNKS, State

MOST_ARRIVALS = 2**30
MOST_REWARD = 1e9
RANGES = {
    "light": (0, 1), "total": (-MOST_REWARD, MOST_REWARD), "episode": (0, MAX_EPISODES),
    "world_seed": (0, 2**31 - 1), "chunks": (0, ALL_CHUNKS), "arrivals": (0, MOST_ARRIVALS),
    "facing": (0, len(t.DIRECTIONS) - 1), "sleeping": (0, 1), "hunger": (0, 2 * 25), "thirst": (0, 2 * 20),
    "fatigue": (-10, 30), "recover": (-2 * 15, 2 * 25), "felt_health": (0, t.MOST), "paid_health": (0, t.MOST),
    "unlocked": (0, (1 << len(t.SKILLS)) - 1), "achievements": (0, 2**30), "inventory": (0, t.MOST),
    "ground": (0, len(t.MATERIALS) - 1), "slots": (0, t.SIDE * t.SIDE),
}  # fmt: skip
THING_RANGES = {
    "clock": (0, 2**15 - 1), "health": (0, t.MOST), "x": (0, t.SIDE - 1), "y": (0, t.SIDE - 1),
    "kind": (0, len(t.THINGS) - 1), "facing": (0, len(t.DIRECTIONS) - 1),
}  # fmt: skip


def check_state(state: State, phase: np.ndarray) -> None:
    """Raise ValueError about what no play leads to. The level and its numbers are checked already."""
    envs, things = state
    begun = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(things, THING_RANGES, "a thing's ")
    check_stream(envs, "mt")
    require((envs["count"] >= begun) & (envs["count"] <= things.shape[1]), "count")
    _check_things(envs, things)
    _check_chunks(envs, begun)


def _check_things(envs: np.ndarray, things: np.ndarray) -> None:
    """The player is the first thing and the only one of its kind; each thing stands on a cell of its own."""
    rows = np.arange(things.shape[1])
    used = rows < envs["count"][:, None]
    kind, first = things["kind"], rows == 0
    require(~used | (first & (kind == t.PLAYER)) | (~first & (kind > t.PLAYER)), "a thing's kind")
    slots = envs["slots"][np.arange(len(envs))[:, None], things["x"], things["y"]]
    require(~used | (slots == rows + 1), "slots")
    require(np.count_nonzero(envs["slots"], axis=(1, 2)) == envs["count"], "slots")
    arrival = things["arrival"]
    require(~used | ((arrival >= 0) & (arrival < envs["arrivals"][:, None])), "a thing's arrival")
    ordered = np.sort(np.where(used, arrival, -1 - rows), axis=1)  # rows that are not used differ from all
    require(ordered[:, 1:] != ordered[:, :-1], "a thing's arrival")


def _check_chunks(envs: np.ndarray, begun: np.ndarray) -> None:
    """No chunk is listed twice, and the cells of each are counted."""
    places = np.arange(ALL_CHUNKS)
    listed = np.where(places < envs["chunks"][:, None], envs["chunk_order"], ALL_CHUNKS + places)
    ordered = np.sort(listed, axis=1)
    in_use = np.count_nonzero(ordered < ALL_CHUNKS, axis=1) == envs["chunks"]
    require(in_use & (ordered[:, 1:] != ordered[:, :-1]).all(1), "chunk_order")
    edges = np.arange(0, t.SIDE, t.CHUNK)
    for name, material in (("grass", t.GRASS), ("path", t.PATH)):
        cells = (envs["ground"] == material).astype(np.int32)
        counts = np.add.reduceat(np.add.reduceat(cells, edges, axis=1), edges, axis=2).reshape(len(envs), -1)
        require((counts == envs[name]).all(1) | ~begun, name)
