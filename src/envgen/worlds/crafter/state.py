"""The state of Crafter environments as numpy records: one `ENV` and an array of `ENTITY` records per environment.

An `ENV` record is about 16 KB of plain numbers, so copying it is an exact snapshot. Rules take it as `env`, a single
pointer, which makes calls cheap. The entity array doubles when an environment needs more room; no kernel writes past
its end.
"""

import functools
from typing import NamedTuple

import numpy as np

from ..kernels import mt19937
from .constants import CHUNKS_PER_SIDE, DAY_LENGTH, ENTITIES, ITEMS, MAP_SIZE, MAX_EPISODE_STEPS, SKILLS
from .level import LEVEL_PARAMS

INITIAL_CAPACITY = 256  # entities; a new map holds about 50
MAX_CAPACITY = 2 * (MAP_SIZE * MAP_SIZE + 128)  # one entity per cell plus what a step can add; no map needs more
NUM_CHUNKS = CHUNKS_PER_SIDE * CHUNKS_PER_SIDE

ENTITY = np.dtype(
    [
        ("arrival", np.int32),  # orders the entities of a chunk by when they entered it
        ("counter", np.int16),  # zombie: cooldown; skeleton: reload; plant: steps grown
        ("health", np.int16),
        ("x", np.int8),
        ("y", np.int8),
        ("kind", np.int8),  # index in ENTITIES; 0 once removed
        ("facing", np.int8),  # of arrows
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("seed_hash", np.int64),  # Python's hash of the environment's seed
        ("daylight", np.float64),  # of this step, 0 to 1
        ("episode_return", np.float64),  # sum of rewards so far
        ("episode", np.int32),  # 1, 2, ... since the seed was set
        ("episode_seed", np.int32),  # seed of this episode's random generator
        ("level", np.int32),  # index of this episode's level
        ("step", np.int32),
        ("num_entities", np.int32),  # the first rows of the entity array; the player is row 0
        ("num_chunks", np.int32),  # entries of chunk_order in use
        ("next_arrival", np.int32),  # the next ENTITY.arrival
        ("facing", np.int32),
        ("sleeping", np.int32),
        ("hunger", np.int32),  # in half steps, like thirst and recover: the reference adds 0.5 during sleep
        ("thirst", np.int32),
        ("fatigue", np.int32),
        ("recover", np.int32),
        ("prev_health", np.int32),  # after the player's previous update; losing health wakes the player
        ("rewarded_health", np.int32),  # at the previous reward
        ("unlocked", np.int32),  # bit mask of the skills rewarded so far
        ("achievements", np.int32, len(SKILLS)),  # how often each skill succeeded in this episode
        ("inventory", np.int8, len(ITEMS)),
        ("params", LEVEL_PARAMS),  # of the level
        ("rng", np.uint32, mt19937.SIZE),  # the random generator
        ("chunk_order", np.uint8, NUM_CHUNKS),  # chunks in the order in which they got their first entity
        ("grass_count", np.uint8, NUM_CHUNKS),  # grass cells per chunk
        ("path_count", np.uint8, NUM_CHUNKS),  # path cells per chunk
        ("chunk_counts", np.uint8, (NUM_CHUNKS, len(ENTITIES))),  # entities per chunk and kind, while balancing
        ("ground", np.uint8, (MAP_SIZE, MAP_SIZE)),  # material at [x, y]
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
    n, capacity = state.entities.shape
    if capacity >= MAX_CAPACITY:
        raise AssertionError(f"a Crafter map cannot need more than {MAX_CAPACITY} entities")
    entities = np.zeros((n, min(2 * capacity, MAX_CAPACITY)), ENTITY)
    entities[:, :capacity] = state.entities
    return state._replace(entities=entities)


@functools.cache
def make_daylight_table() -> np.ndarray:
    """The daylight of each step, with the reference's float operations in their order. All callers share the array.

    The table covers all steps because different days differ in the last bits.
    """
    table = np.empty(DAY_LENGTH + MAX_EPISODE_STEPS + 1)
    for step in range(len(table)):
        progress = (step / 300) % 1 + 0.3
        table[step] = 1 - np.abs(np.cos(np.pi * progress)) ** 3
    return table
