"""The state of one Crafter environment as a record, and of many as an array of records.

`ENV` is what every rule takes, as `e`: one pointer, so that calls cost nothing. The entities on the map are a list beside
it, which grows by doubling when an environment needs more room; no kernel writes past its end. A row is plain numbers,
about 20 KB: copying it is an exact snapshot.
"""

from typing import NamedTuple

import numpy as np

from ..kernels import mt19937
from .constants import CHUNKS_PER_SIDE, DAY_LENGTH, ENTITIES, ITEMS, MAP_SIZE, MAX_EPISODE_STEPS, SKILLS
from .dials import DIALS

INITIAL_CAPACITY = 256  # entities an environment has room for at first; a fresh world holds about 60
MAX_CAPACITY = 2 * (
    MAP_SIZE * MAP_SIZE + 128
)  # room for one entity a cell and whatever a step may add: no world needs more
NUM_CHUNKS = CHUNKS_PER_SIDE * CHUNKS_PER_SIDE

ENTITY = np.dtype(
    [
        ("arrival", np.int32),  # when it came into its chunk, to order a chunk's entities
        ("counter", np.int16),  # zombie: cooldown; skeleton: reload; plant: steps grown
        ("health", np.int16),
        ("x", np.int8),
        ("y", np.int8),
        ("kind", np.int8),  # of tables.ENTITIES; 0 once it is removed
        ("facing", np.int8),  # of arrows
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("seed_hash", np.int64),  # Python's hash of the environment's seed
        ("daylight", np.float64),  # of this step, 0 to 1
        ("episode_return", np.float64),  # reward so far
        ("episode", np.int32),  # 1, 2, ... since the seed
        ("world_seed", np.int32),  # of this episode's random stream
        ("level", np.int32),  # which level this episode plays
        ("step", np.int32),
        ("num_entities", np.int32),  # rows of the list of entities in use; the player is row 0
        ("num_chunks", np.int32),  # entries of chunk_order in use
        ("next_arrival", np.int32),  # counts ENTITY.arrival
        ("facing", np.int32),
        ("sleeping", np.int32),
        ("hunger", np.int32),  # in half steps, as thirst and recover: the original counts .5 asleep
        ("thirst", np.int32),
        ("fatigue", np.int32),
        ("recover", np.int32),
        ("prev_health", np.int32),  # at the player's last update, to wake up when hurt
        ("rewarded_health", np.int32),  # at the last reward
        ("unlocked", np.int32),  # bit mask of skills already rewarded
        ("achievements", np.int32, len(SKILLS)),  # how often each skill succeeded this episode
        ("inventory", np.int8, len(ITEMS)),
        ("params", DIALS),  # the level's numbers
        ("rng", np.uint32, mt19937.SIZE),  # the random stream
        ("chunk_order", np.uint8, NUM_CHUNKS),  # chunks in order of their first entity
        ("grass_count", np.uint8, NUM_CHUNKS),  # grass cells of each chunk
        ("path_count", np.uint8, NUM_CHUNKS),  # path cells of each chunk
        ("chunk_counts", np.uint8, (NUM_CHUNKS, len(ENTITIES))),  # scratch of the balance
        ("ground", np.uint8, (MAP_SIZE, MAP_SIZE)),  # materials at [x, y]
        ("entity_slots", np.int16, (MAP_SIZE, MAP_SIZE)),  # 1 + the row of the entity at [x, y], or 0
    ],
    align=True,
)


class State(NamedTuple):
    envs: np.ndarray  # (n,) ENV
    entities: np.ndarray  # (n, capacity) ENTITY, in order of creation


def allocate(n: int) -> State:
    return State(np.zeros(n, ENV), np.zeros((n, INITIAL_CAPACITY), ENTITY))


def grow_capacity(state: State) -> State:
    """The same state with room for twice as many entities."""
    n, old = state.entities.shape
    if old >= MAX_CAPACITY:
        raise AssertionError(f"a Crafter world cannot need more than {MAX_CAPACITY} entities")
    entities = np.zeros((n, min(2 * old, MAX_CAPACITY)), ENTITY)
    entities[:, :old] = state.entities
    return state._replace(entities=entities)


def daylight_table() -> np.ndarray:
    """The light at each step, by the original's operations in the original's order: phases differ in the last bits."""
    table = np.empty(DAY_LENGTH + MAX_EPISODE_STEPS + 1)
    for step in range(len(table)):
        progress = (step / 300) % 1 + 0.3
        table[step] = 1 - np.abs(np.cos(np.pi * progress)) ** 3
    return table
