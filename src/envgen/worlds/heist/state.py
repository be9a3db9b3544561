"""The state of one Heist environment as a record, and of many as an array of records.

`ENV` is what every rule takes, as `e`: one pointer, so that calls cost nothing. Cells are unit squares, x grows to the
right and y upwards; cell (i, j) has its middle at (i + .5, j + .5). A row is plain numbers: copying it is an exact
snapshot.
"""

import numpy as np

from ..kernels import mt19937
from .constants import KEYS, SIDE, SKILLS, THINGS

THING = np.dtype(
    [
        ("x", np.float32),  # of its middle
        ("y", np.float32),
        ("rx", np.float32),  # half its width
        ("ry", np.float32),  # half its height
        ("kind", np.int8),  # A_KEY, A_DOOR or A_GEM
        ("colour", np.int8),  # index in COLOURS; 0 for the gem
        ("alive", np.uint8),  # 0 once a key is taken, a door opened
    ],
    align=True,
)

DIALS = np.dtype(  # what a level turns; see level.py
    [
        ("mode", np.int32),  # EASY, HARD or MEMORY
        ("side", np.int32),  # of the world, in cells
        ("maze", np.int32),  # of the maze, in cells; 0: drawn as in the original
        ("keys", np.int32),  # pairs of a key and a door; -1: drawn as in the original
        ("held", np.int32),  # bit mask of the keys held at the start
        ("open", np.int32),  # bit mask of the doors open at the start
        ("start", np.int32),  # -1: as in the original; else near key number `start`, or the gem
        ("keys_away", np.int32),  # -1 short, 0 as in the original, 1 long
        ("gem_away", np.int32),
        ("loops", np.int32),  # percent of the walls that separate no parts which are taken away
        ("push", np.float32),  # what a pressed direction adds to the velocity
        ("length", np.int32),  # steps
        ("key_reward", np.int32),
        ("door_reward", np.int32),
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("seed_hash", np.int64),  # Python's hash of the environment's seed, to draw levels by
        ("total", np.float64),  # reward so far
        ("bonus", np.float64),  # how much of it is for keys and doors
        ("episode", np.int32),  # 1, 2, ... since the seed
        ("level", np.int32),  # which level this episode plays
        ("level_seed", np.int32),  # of this episode's random stream
        ("first_seed", np.int32),  # the least seed a level may have
        ("seeds", np.int32),  # how many seeds there are from it on
        ("step", np.int32),
        ("mode", np.int32),  # EASY, HARD or MEMORY; in MEMORY the picture shows 8 x 8 cells around the agent
        ("side", np.int32),  # of the world, in cells
        ("background", np.int32),  # which of the 9 floors, 0 floortiles, 1 to 8 backgrounddetailed
        ("num_keys", np.int32),  # of the original's HUD: slots, although there may be fewer keys
        ("num_doors", np.int32),  # key k and door k exist for k below this, in the maze or as the level has them
        ("count", np.int32),  # things in use
        ("shortest", np.int32),  # moves from cell to cell on the shortest way to the gem
        ("x", np.float32),  # the agent's middle
        ("y", np.float32),
        ("vx", np.float32),
        ("vy", np.float32),
        ("rotation", np.float32),  # radians, as the original has it: -atan2(dy, dx) of the last direction pressed
        ("facing", np.int32),  # that direction as an action, 0 to 8; NOOP before any
        ("redraw", np.uint8),  # 1: what stands on the cells has changed; whoever draws it sets it to 0
        ("won", np.uint8),  # the gem is stolen
        ("has_key", np.uint8, KEYS),
        ("possible", np.uint8, len(SKILLS)),  # whether this episode's maze lets the skill happen
        ("achievements", np.int32, len(SKILLS)),  # how often each skill succeeded this episode
        ("things", THING, THINGS),  # keys, doors and the gem, in the original's order
        ("grid", np.uint8, (SIDE, SIDE)),  # what stands on each cell, at [y, x]: WALL, FLOOR, KEY + colour, ...
        ("params", DIALS),
        ("chain", np.uint32, mt19937.SIZE),  # the stream of the levels' seeds
        ("mt", np.uint32, mt19937.SIZE),  # this level's stream
    ],
    align=True,
)


def allocate(n: int) -> np.ndarray:
    """(n,) ENV"""
    return np.zeros(n, ENV)
