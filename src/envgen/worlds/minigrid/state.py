"""The state of a MiniGrid environment as a numpy record.

Every rule takes one `ENV` record as `env`; a batch of environments is an array of them. `env.grid` is stored row by
row with a margin around it (constants.STRIDE), and a cell is an index into it. Records hold plain numbers only, so a
copy of a record is an exact snapshot.
"""

import numpy as np

from ..kernels import pcg64
from .constants import GRID_SIZE, MARGIN, MAX_OBSTACLES, SKILLS, STRIDE

PARAMS = np.dtype(  # a MiniGridLevel in numbers; see MiniGridLevel.to_params
    [
        ("task", np.int32),  # index in TASKS, or MIXED
        ("width", np.int32),
        ("height", np.int32),
        ("room_size", np.int32),
        ("num_rows", np.int32),
        ("num_rooms", np.int32),
        ("num_crossings", np.int32),
        ("num_obstacles", np.int32),
        ("num_objects", np.int32),
        ("num_walls", np.int32),
        ("lava_row", np.int32),
        ("num_quarters", np.int32),  # of an obstructed maze; 0: a maze of two rooms
        (
            "agent_room",
            np.int32,
        ),  # of an obstructed maze: column of the room in which the agent starts, in the middle row
        ("random_start", np.int32),
        ("random_length", np.int32),
        ("keys_in_boxes", np.int32),
        ("blocked_doors", np.int32),
        ("keys_last", np.int32),
        ("has_map", np.int32),
        ("length", np.int32),  # steps of an episode; for MIXED, the most that an episode may have
        ("has_length", np.int32),  # 1 if the level sets the length, 0 if it is the task's usual one
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("seed_hash", np.int64),  # Python's hash of the environment's seed, from which levels and tasks are sampled
        ("episode_return", np.float64),
        ("rng", np.uint64, pcg64.SIZE),  # the random stream of the environment, which continues over its episodes
        ("episode", np.int32),  # 1, 2, ... since the seed
        ("level", np.int32),  # index of the level this episode plays
        ("step", np.int32),
        ("length", np.int32),  # steps of this episode
        ("task", np.int32),  # index in TASKS
        ("objective", np.int32),  # what ends the episode with success
        ("width", np.int32),
        ("height", np.int32),
        ("cell", np.int32),  # the agent's
        ("direction", np.int32),  # index in DIRECTIONS
        ("carrying", np.int32),  # code of the object that the agent carries, EMPTY if none
        ("sees_through_walls", np.int32),
        ("target_cell", np.int32),  # of the objective
        ("other_cell", np.int32),  # the blue door, the wrong object of memory
        ("num_obstacles", np.int32),
        ("obstacles", np.int32, MAX_OBSTACLES),  # cells of the moving obstacles
        ("mission", np.uint8, 5),  # index in MISSIONS, 1 + color, object, 1 + other color, other object; 0 for none
        ("solved", np.uint8),
        ("achievements", np.int32, len(SKILLS)),
        ("params", PARAMS),
        ("grid", np.uint8, GRID_SIZE),
    ],
    align=True,
)


def to_position(cell: int) -> tuple[int, int]:
    return int(cell) % STRIDE - MARGIN, int(cell) // STRIDE - MARGIN


def grid_view(env: np.void) -> np.ndarray:
    """The grid without its margin, (height, width)."""
    grid = env["grid"].reshape(STRIDE, STRIDE)
    return grid[MARGIN : MARGIN + env["height"], MARGIN : MARGIN + env["width"]]


def allocate(num_envs: int) -> np.ndarray:
    """`num_envs` zeroed ENV records."""
    return np.zeros(num_envs, ENV)
