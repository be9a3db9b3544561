"""The state of one Crafter environment as a record, and of many as an array of records.

`ENV` is what every rule takes, as `e`: one pointer, so that calls cost nothing. The things on the map are a list beside
it, which grows by doubling when an environment needs more room; no kernel writes past its end. A row is plain numbers,
about 20 KB: copying it is an exact snapshot.
"""

from typing import NamedTuple

import numpy as np

from ..kernels import mt19937
from .constants import CHUNKS, DAY, ITEMS, MAX_LENGTH, SIDE, SKILLS, THINGS
from .dials import DIALS

CAPACITY = 256  # things an environment has room for at first; a fresh world holds about 60
MOST = 2 * (SIDE * SIDE + 128)  # room for one thing a cell and whatever a step may add: no world needs more
ALL_CHUNKS = CHUNKS * CHUNKS

THING = np.dtype(
    [
        ("arrival", np.int32),  # when it came into its chunk, to order a chunk's things
        ("clock", np.int16),  # zombie: cooldown; skeleton: reload; plant: steps grown
        ("health", np.int16),
        ("x", np.int8),
        ("y", np.int8),
        ("kind", np.int8),  # of tables.THINGS; 0 once it is removed
        ("facing", np.int8),  # of arrows
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("seed_hash", np.int64),  # Python's hash of the environment's seed
        ("light", np.float64),  # of this step, 0 to 1
        ("total", np.float64),  # reward so far
        ("episode", np.int32),  # 1, 2, ... since the seed
        ("world_seed", np.int32),  # of this episode's random stream
        ("level", np.int32),  # which level this episode plays
        ("step", np.int32),
        ("count", np.int32),  # rows of the list of things in use; the player is row 0
        ("chunks", np.int32),  # entries of chunk_order in use
        ("arrivals", np.int32),  # counts THING.arrival
        ("facing", np.int32),
        ("sleeping", np.int32),
        ("hunger", np.int32),  # in half steps, as thirst and recover: the original counts .5 asleep
        ("thirst", np.int32),
        ("fatigue", np.int32),
        ("recover", np.int32),
        ("felt_health", np.int32),  # at the player's last update, to wake up when hurt
        ("paid_health", np.int32),  # at the last reward
        ("unlocked", np.int32),  # bit mask of skills already rewarded
        ("achievements", np.int32, len(SKILLS)),  # how often each skill succeeded this episode
        ("inventory", np.int8, len(ITEMS)),
        ("params", DIALS),  # the level's numbers
        ("mt", np.uint32, mt19937.SIZE),  # the random stream
        ("chunk_order", np.uint8, ALL_CHUNKS),  # chunks in order of their first thing
        ("grass", np.uint8, ALL_CHUNKS),  # grass cells of each chunk
        ("path", np.uint8, ALL_CHUNKS),  # path cells of each chunk
        ("herds", np.uint8, (ALL_CHUNKS, len(THINGS))),  # scratch of the balance
        ("ground", np.uint8, (SIDE, SIDE)),  # materials at [x, y]
        ("slots", np.int16, (SIDE, SIDE)),  # 1 + the row of the thing at [x, y], or 0
    ],
    align=True,
)


class State(NamedTuple):
    envs: np.ndarray  # (n,) ENV
    things: np.ndarray  # (n, capacity) THING, in order of creation


def allocate(n: int) -> State:
    return State(np.zeros(n, ENV), np.zeros((n, CAPACITY), THING))


def grown(state: State) -> State:
    """The same state with room for twice as many things."""
    n, old = state.things.shape
    if old >= MOST:
        raise AssertionError(f"a Crafter world cannot need more than {MOST} things")
    things = np.zeros((n, min(2 * old, MOST)), THING)
    things[:, :old] = state.things
    return state._replace(things=things)


def daylight_table() -> np.ndarray:
    """The light at each step, by the original's operations in the original's order: phases differ in the last bits."""
    table = np.empty(DAY + MAX_LENGTH + 1)
    for step in range(len(table)):
        progress = (step / 300) % 1 + 0.3
        table[step] = 1 - np.abs(np.cos(np.pi * progress)) ** 3
    return table
