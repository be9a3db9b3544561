"""The state of many Crafter environments as arrays with one row each, and how it is allocated.

`State` is what every kernel takes. A row is about 20 KB, and all of it is plain numbers: copying the arrays is an exact
snapshot. The list of things grows by doubling when an environment needs it; no kernel writes past its end.
"""

from typing import NamedTuple

import numpy as np

from ..kernels import mt19937
from .dials import DIALS
from .tables import CHUNKS, DAY, ITEMS, MAX_LENGTH, SIDE, SKILLS, THINGS

CAPACITY = 256  # things an environment has room for at first; a fresh world holds about 70
MOST = 2 * (SIDE * SIDE + 128)  # room for one thing a cell and whatever a step may add: no world needs more

THING = np.dtype(
    [
        ("kind", np.int8),  # of tables.THINGS; 0 once it is removed
        ("facing", np.int8),  # of arrows
        ("x", np.int16),
        ("y", np.int16),
        ("health", np.int16),
        ("clock", np.int16),  # zombie: cooldown; skeleton: reload; plant: steps grown
        ("arrival", np.int32),  # when it came into its chunk, to order a chunk's things
    ],
    align=True,
)

BODY = np.dtype(
    [
        ("step", np.int32),
        ("length", np.int32),  # steps after which the episode is cut off
        ("dawn", np.int32),  # steps into the day at which the episode began
        ("things", np.int32),  # rows of State.things in use; the player is row 0
        ("chunks", np.int32),  # entries of State.chunk_order in use
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
        ("level", np.int32),  # row of the dials
        ("episode", np.int32),  # 1, 2, ... since the seed
        ("world_seed", np.int32),  # of this episode's random stream
        ("over", np.int32),  # the episode has ended and waits for a reset
        ("total", np.float64),  # reward so far
        ("seed_hash", np.int64),  # Python's hash of the environment's seed
    ],
    align=True,
)


class State(NamedTuple):
    """Arrays over environments (n, ...)."""

    mt: np.ndarray  # (n, 625) uint32, the random stream
    ground: np.ndarray  # (n, SIDE, SIDE) uint8, materials at [x, y]
    slots: np.ndarray  # (n, SIDE, SIDE) int16, 1 + the thing at [x, y], or 0
    things: np.ndarray  # (n, capacity) THING, in order of creation
    chunk_order: np.ndarray  # (n, CHUNKS**2) uint8, chunks in order of their first thing
    grass: np.ndarray  # (n, CHUNKS**2) uint8, grass cells of each chunk
    path: np.ndarray  # (n, CHUNKS**2) uint8, path cells of each chunk
    herds: np.ndarray  # (n, CHUNKS**2, len(THINGS)) uint8, scratch of the balance
    inventory: np.ndarray  # (n, 16) int8
    achievements: np.ndarray  # (n, 22) int32, how often each skill succeeded this episode
    body: np.ndarray  # (n,) BODY
    dial: np.ndarray  # (n,) DIALS, the level of this episode
    daylight: np.ndarray  # (DAY + MAX_LENGTH + 1,) float64, by step; shared, not part of a snapshot


def daylight_table() -> np.ndarray:
    """The light at each step, by the original's operations in the original's order: phases differ in the last bits."""
    table = np.empty(DAY + MAX_LENGTH + 1)
    for step in range(len(table)):
        progress = (step / 300) % 1 + 0.3
        table[step] = 1 - np.abs(np.cos(np.pi * progress)) ** 3
    return table


def allocate(n: int, capacity: int = CAPACITY) -> State:
    return State(
        mt=np.zeros((n, mt19937.SIZE), np.uint32),
        ground=np.zeros((n, SIDE, SIDE), np.uint8),
        slots=np.zeros((n, SIDE, SIDE), np.int16),
        things=np.zeros((n, capacity), THING),
        chunk_order=np.zeros((n, CHUNKS * CHUNKS), np.uint8),
        grass=np.zeros((n, CHUNKS * CHUNKS), np.uint8),
        path=np.zeros((n, CHUNKS * CHUNKS), np.uint8),
        herds=np.zeros((n, CHUNKS * CHUNKS, len(THINGS)), np.uint8),
        inventory=np.zeros((n, len(ITEMS)), np.int8),
        achievements=np.zeros((n, len(SKILLS)), np.int32),
        body=np.zeros(n, BODY),
        dial=np.zeros(n, DIALS),
        daylight=daylight_table(),
    )


def grown(state: State) -> State:
    """The same state with room for twice as many things."""
    n, old = state.things.shape
    if old >= MOST:
        raise AssertionError(f"a Crafter world cannot need more than {MOST} things")
    things = np.zeros((n, min(2 * old, MOST)), THING)
    things[:, :old] = state.things
    return state._replace(things=things)


def bytes_per_environment(state: State) -> int:
    return sum(array.nbytes for array in state[:-1]) // len(state.body)
