"""The numbers that a level turns in the kernels: one record per level. ORIGINAL holds the original game's."""

import numpy as np

from . import constants as const

NEVER = 2.0  # a threshold that neither noise nor a uniform number reaches

DIALS = np.dtype(
    [
        # Terrain: what is added to the noise of water and mountains, and what must be exceeded.
        ("water_shift", np.float64),
        ("mountain_shift", np.float64),
        ("lake", np.float64),  # water above this covers mountains too
        ("sand", np.float64),  # water above this, and not above .35, may be sand
        ("tunnel", np.float64),  # noise
        ("coal_noise", np.float64),
        ("coal", np.float64),  # uniform
        ("iron_noise", np.float64),
        ("iron", np.float64),  # uniform
        ("diamond", np.float64),  # uniform
        ("lava", np.float64),  # noise
        ("tree_noise", np.float64),
        ("tree", np.float64),  # uniform
        # Creatures: uniform thresholds when the world is made, then factors on the numbers and the pace of the balance.
        ("cow", np.float64),
        ("zombie", np.float64),
        ("skeleton", np.float64),
        ("cow_density", np.float64),
        ("zombie_density", np.float64),
        ("skeleton_density", np.float64),
        ("respawn", np.float64),
        # What is put near the start.
        ("pond", np.int32),
        ("near_table", np.int32),
        ("near_furnace", np.int32),
        ("near_water", np.int32),
        ("near_plant", np.int32),  # 1 a sapling, 2 ripe
        ("near_cows", np.int32),
        ("near_cave", np.int32),
        # The player and the clock.
        ("inventory", np.int8, len(const.ITEMS)),
        ("dawn", np.int32),
        ("length", np.int32),
    ],
    align=True,
)

ORIGINAL = np.zeros((), DIALS)
for _name, _value in {
    "lake": NEVER, "sand": 0.25, "tunnel": 0.4, "coal_noise": 0.0, "coal": 0.85, "iron_noise": 0.4, "iron": 0.75,
    "diamond": 0.994, "lava": 0.35, "tree_noise": 0.0, "tree": 0.8, "cow": 0.985, "zombie": 0.993, "skeleton": 0.95,
    "cow_density": 1.0, "zombie_density": 1.0, "skeleton_density": 1.0, "respawn": 1.0, "length": const.MAX_EPISODE_STEPS,
    "inventory": [const.MAX_ITEM_COUNT] * len(const.VITALS) + [0] * (len(const.ITEMS) - len(const.VITALS)),
}.items():  # fmt: skip
    ORIGINAL[_name] = _value
