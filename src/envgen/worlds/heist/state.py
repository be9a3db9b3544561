"""The state of a Heist environment as a numpy record.

Every rule takes one `ENV` record as `env`; a batch of environments is an array of them. Cells are unit squares, x grows
to the right and y upwards, and the center of cell (i, j) is (i + 0.5, j + 0.5). Records hold plain numbers only, so a
copy of a record is an exact snapshot.
"""

import numpy as np

from ..kernels import mt19937
from .constants import MAX_ENTITIES, MAX_WORLD_SIZE, NUM_COLORS, SKILLS

ENTITY = np.dtype(
    [
        ("x", np.float32),  # center
        ("y", np.float32),
        ("rx", np.float32),  # half the width
        ("ry", np.float32),  # half the height
        ("kind", np.int8),  # ENTITY_KEY, ENTITY_DOOR or ENTITY_GEM
        ("color", np.int8),  # index in COLORS; 0 for the gem
        ("alive", np.uint8),  # 0 once a key is taken or a door opened
    ],
    align=True,
)

PARAMS = np.dtype(  # a HeistLevel in numbers; see HeistLevel.to_params
    [
        ("mode", np.int32),  # EASY, HARD or MEMORY
        ("world_size", np.int32),  # cells along a side of the grid, which contains the maze
        ("maze_size", np.int32),  # cells; 0: sampled as in the original
        ("num_keys", np.int32),  # pairs of a key and a door; -1: sampled as in the original
        ("held_keys", np.int32),  # bit mask by color
        ("open_doors", np.int32),  # bit mask by color
        ("start", np.int32),  # -1: as in the original; else near the key of this color, or near the gem
        ("key_distance", np.int32),  # -1 short, 0 as in the original, 1 long
        ("gem_distance", np.int32),
        ("loop_percent", np.int32),  # percent of the removable walls that are removed
        ("acceleration", np.float32),  # added to the velocity in the direction pressed
        ("length", np.int32),  # steps of an episode
        ("key_reward", np.int32),
        ("door_reward", np.int32),
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("seed_hash", np.int64),  # Python's hash of the environment's seed, from which levels are sampled
        ("episode_return", np.float64),
        ("bonus", np.float64),  # the part of the return that came from keys and doors
        ("episode", np.int32),  # 1, 2, ... since the seed
        ("level", np.int32),  # index of the level this episode plays
        ("level_seed", np.int32),  # seed of this episode's random stream, named as in Procgen, where a maze is a level
        ("first_seed", np.int32),  # smallest seed an episode may have
        ("num_seeds", np.int32),  # number of possible seeds, starting at first_seed
        ("step", np.int32),
        ("mode", np.int32),  # EASY, HARD or MEMORY; in MEMORY the image shows 8 x 8 cells around the agent
        ("world_size", np.int32),  # cells along a side of the grid
        ("background", np.int32),  # index of the floor texture; -1: none
        ("num_key_slots", np.int32),  # slots for held keys in the image; the maze may have fewer keys
        ("num_doors", np.int32),  # keys and doors of the colors below this one exist, unless the level removed them
        ("num_entities", np.int32),
        ("shortest_path", np.int32),  # moves from cell to cell on the shortest path to the gem
        ("x", np.float32),  # center of the agent
        ("y", np.float32),
        ("vx", np.float32),
        ("vy", np.float32),
        ("rotation", np.float32),  # radians, as in the reference: -atan2(dy, dx) of the last direction pressed
        ("facing", np.int32),  # that direction as an action, 0 to 8; NOOP before any was pressed
        ("needs_redraw", np.uint8),  # 1 if cells have changed since the last observation; cleared when one is drawn
        ("won", np.uint8),  # 1 once the gem is stolen
        ("has_key", np.uint8, NUM_COLORS),
        ("possible", np.uint8, len(SKILLS)),  # whether this episode's maze allows the skill
        ("achievements", np.int32, len(SKILLS)),  # how often each skill succeeded in this episode
        ("entities", ENTITY, MAX_ENTITIES),  # keys, doors and the gem, in the reference's order
        ("grid", np.uint8, (MAX_WORLD_SIZE, MAX_WORLD_SIZE)),  # at [y, x]: WALL, FLOOR, KEY + color, ...
        ("params", PARAMS),
        ("seed_stream", np.uint32, mt19937.SIZE),  # generator of level_seed
        ("mt", np.uint32, mt19937.SIZE),  # generator of this episode
    ],
    align=True,
)


def allocate(num_envs: int) -> np.ndarray:
    """`num_envs` zeroed ENV records."""
    return np.zeros(num_envs, ENV)
