"""What a restored state must be for the kernels, which check nothing, to play on from it."""

import numpy as np

from ..engine import NOT_STARTED
from ..state_validation import MAX_EPISODES, check_ranges, check_stream, require
from . import constants as const
from .state import NUM_CHUNKS, State

MOST_ARRIVALS = 2**30
MOST_REWARD = 1e9
RANGES = {
    "daylight": (0, 1), "episode_return": (-MOST_REWARD, MOST_REWARD), "episode": (0, MAX_EPISODES),
    "world_seed": (0, 2**31 - 1), "num_chunks": (0, NUM_CHUNKS), "next_arrival": (0, MOST_ARRIVALS),
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
    """Raise ValueError about what no play leads to. The level and its numbers are checked already."""
    envs, entities = state
    begun = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(entities, ENTITY_RANGES, "an entity's ")
    check_stream(envs, "rng")
    require((envs["num_entities"] >= begun) & (envs["num_entities"] <= entities.shape[1]), "num_entities")
    _check_entities(envs, entities)
    _check_chunks(envs, begun)


def _check_entities(envs: np.ndarray, entities: np.ndarray) -> None:
    """The player is the first entity and the only one of its kind; each entity stands on a cell of its own."""
    rows = np.arange(entities.shape[1])
    used = rows < envs["num_entities"][:, None]
    kind, first = entities["kind"], rows == 0
    require(~used | (first & (kind == const.PLAYER)) | (~first & (kind > const.PLAYER)), "an entity's kind")
    slots = envs["entity_slots"][np.arange(len(envs))[:, None], entities["x"], entities["y"]]
    require(~used | (slots == rows + 1), "entity_slots")
    require(np.count_nonzero(envs["entity_slots"], axis=(1, 2)) == envs["num_entities"], "entity_slots")
    arrival = entities["arrival"]
    require(~used | ((arrival >= 0) & (arrival < envs["next_arrival"][:, None])), "an entity's arrival")
    ordered = np.sort(np.where(used, arrival, -1 - rows), axis=1)  # rows that are not used differ from all
    require(ordered[:, 1:] != ordered[:, :-1], "an entity's arrival")


def _check_chunks(envs: np.ndarray, begun: np.ndarray) -> None:
    """No chunk is listed twice, and the cells of each are counted."""
    places = np.arange(NUM_CHUNKS)
    listed = np.where(places < envs["num_chunks"][:, None], envs["chunk_order"], NUM_CHUNKS + places)
    ordered = np.sort(listed, axis=1)
    in_use = np.count_nonzero(ordered < NUM_CHUNKS, axis=1) == envs["num_chunks"]
    require(in_use & (ordered[:, 1:] != ordered[:, :-1]).all(1), "chunk_order")
    edges = np.arange(0, const.MAP_SIZE, const.CHUNK_SIZE)
    for name, material in (("grass_count", const.GRASS), ("path_count", const.PATH)):
        cells = (envs["ground"] == material).astype(np.int32)
        counts = np.add.reduceat(np.add.reduceat(cells, edges, axis=1), edges, axis=2).reshape(len(envs), -1)
        require((counts == envs[name]).all(1) | ~begun, name)
