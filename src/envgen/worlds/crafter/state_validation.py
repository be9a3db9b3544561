"""Checks of a restored state. The kernels check nothing, so an invalid state must not reach them."""

import numpy as np

from ..engine import NOT_STARTED
from ..state_validation import MAX_EPISODES, check_ranges, check_stream, require
from . import constants as const
from .state import NUM_CHUNKS, State

MAX_ARRIVAL = 2**30
MAX_RETURN = 1e9
RANGES = {
    "daylight": (0, 1), "episode_return": (-MAX_RETURN, MAX_RETURN), "episode": (0, MAX_EPISODES),
    "world_seed": (0, 2**31 - 1), "num_chunks": (0, NUM_CHUNKS), "next_arrival": (0, MAX_ARRIVAL),
    "facing": (0, len(const.DIRECTIONS) - 1), "sleeping": (0, 1), "hunger": (0, 2 * 25), "thirst": (0, 2 * 20),
    "fatigue": (-10, 30), "recover": (-2 * 15, 2 * 25),
    "prev_health": (0, const.MAX_ITEM_COUNT),
    "rewarded_health": (0, const.MAX_ITEM_COUNT),
    "unlocked": (0, (1 << len(const.SKILLS)) - 1), "achievements": (0, 2**30), "inventory": (0, const.MAX_ITEM_COUNT),
    "ground": (0, len(const.MATERIALS) - 1), "entity_slots": (0, const.MAP_SIZE * const.MAP_SIZE),
}  # fmt: skip
ENTITY_RANGES = {
    "counter": (0, 2**15 - 1), "health": (0, const.MAX_ITEM_COUNT),
    "x": (0, const.MAP_SIZE - 1), "y": (0, const.MAP_SIZE - 1),
    "kind": (0, len(const.ENTITIES) - 1), "facing": (0, len(const.DIRECTIONS) - 1),
}  # fmt: skip


def check_state(state: State, phase: np.ndarray) -> None:
    """Raise ValueError if no episode can lead to this state. The level and its parameters are checked elsewhere."""
    envs, entities = state
    has_started = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(entities, ENTITY_RANGES, "an entity's ")
    check_stream(envs, "rng")
    require((envs["num_entities"] >= has_started) & (envs["num_entities"] <= entities.shape[1]), "num_entities")
    _check_entities(envs, entities)
    _check_chunks(envs, has_started)


def _check_entities(envs: np.ndarray, entities: np.ndarray) -> None:
    """The first entity is the only player, every entity has its own cell, and arrivals are unique."""
    rows = np.arange(entities.shape[1])
    is_used = rows < envs["num_entities"][:, None]
    kind, is_first = entities["kind"], rows == 0
    require(~is_used | (is_first & (kind == const.PLAYER)) | (~is_first & (kind > const.PLAYER)), "an entity's kind")
    slots = envs["entity_slots"][np.arange(len(envs))[:, None], entities["x"], entities["y"]]
    require(~is_used | (slots == rows + 1), "entity_slots")
    require(np.count_nonzero(envs["entity_slots"], axis=(1, 2)) == envs["num_entities"], "entity_slots")
    arrival = entities["arrival"]
    require(~is_used | ((arrival >= 0) & (arrival < envs["next_arrival"][:, None])), "an entity's arrival")
    in_order = np.sort(np.where(is_used, arrival, -1 - rows), axis=1)  # unused rows get unique negative numbers
    require(in_order[:, 1:] != in_order[:, :-1], "an entity's arrival")


def _check_chunks(envs: np.ndarray, has_started: np.ndarray) -> None:
    """`chunk_order` lists no chunk twice, and the counts of grass and path are correct."""
    indices = np.arange(NUM_CHUNKS)
    listed = np.where(indices < envs["num_chunks"][:, None], envs["chunk_order"], NUM_CHUNKS + indices)
    in_order = np.sort(listed, axis=1)
    are_valid = np.count_nonzero(in_order < NUM_CHUNKS, axis=1) == envs["num_chunks"]
    require(are_valid & (in_order[:, 1:] != in_order[:, :-1]).all(1), "chunk_order")
    edges = np.arange(0, const.MAP_SIZE, const.CHUNK_SIZE)
    for name, material in (("grass_count", const.GRASS), ("path_count", const.PATH)):
        cells = (envs["ground"] == material).astype(np.int32)
        counts = np.add.reduceat(np.add.reduceat(cells, edges, axis=1), edges, axis=2).reshape(len(envs), -1)
        require((counts == envs[name]).all(1) | ~has_started, name)
