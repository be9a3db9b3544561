"""Random scenes of Heist, for our tests and for the reference: worlds of any size with entities anywhere.

This file needs only numpy, so that it also runs in the reference's environment.
"""

import hashlib

import numpy as np

WORLD_SIZES = (9, 13, 23)  # of the reference's own worlds
MIN_WORLD_SIZE, MAX_WORLD_SIZE = 5, 25
KEY_RY = np.float32(0.375) / np.float32(84 / 52)
GEM_RY = np.float32(0.375) / np.float32(70 / 48)


def make_scene(k):
    """Scene number k. Every third is in memory mode; every second has a world of another size than the reference's."""
    rng = np.random.RandomState(k)
    size = WORLD_SIZES[k % 3] if k % 2 else rng.randint(MIN_WORLD_SIZE, MAX_WORLD_SIZE + 1)
    entities = []  # (kind, color, x, y, rx, ry)
    for color in rng.permutation(3)[: rng.randint(4)]:
        cell = rng.randint(size, size=2) + 0.5
        entities.append(("door", int(color), *np.float32([*cell, 0.5, 0.5])))
    for color in rng.permutation(3)[: rng.randint(4)]:
        position = rng.uniform(0, size, 2)
        entities.append(("key", int(color), *np.float32(position), np.float32(0.375), KEY_RY))
    entities.append(("gem", 0, *np.float32(rng.uniform(0, size, 2)), np.float32(0.375), GEM_RY))
    order = rng.permutation(len(entities))
    num_key_slots = rng.randint(4)
    return {
        "memory": k % 3 == 2,
        "world_size": size,
        "background": -1 if k % 10 == 9 else rng.randint(9),
        "walls": rng.rand(size, size) < 0.4,  # [y, x]
        "entities": [entities[n] for n in order],
        "x": np.float32(rng.uniform(0.4, size - 0.4)),
        "y": np.float32(rng.uniform(0.4, size - 0.4)),
        "facing": rng.randint(9),  # as an action; 4: none pressed yet
        "num_key_slots": num_key_slots,
        "has_key": [bool(rng.randint(2)) for _ in range(num_key_slots)],
    }


def digest(frame):
    return hashlib.sha256(np.ascontiguousarray(frame, np.uint8).tobytes()).hexdigest()[:16]
