"""Scenes of Heist drawn from a seed, for the tests and for the original alike: any size of world, any place of things.

This file needs numpy alone, so that the original's old environment can run it too.
"""

import hashlib

import numpy as np

SIDES = (9, 13, 23)  # of the original's own worlds
SMALLEST, LARGEST = 5, 25
KEY_HEIGHT = np.float32(0.375) / np.float32(84 / 52)
GEM_HEIGHT = np.float32(0.375) / np.float32(70 / 48)


def scene(k):
    """Scene number k: in memory mode every third, in a world of another size than the original's every second."""
    draw = np.random.RandomState(k)
    side = SIDES[k % 3] if k % 2 else draw.randint(SMALLEST, LARGEST + 1)
    things = []  # (kind, colour, x, y, rx, ry)
    for colour in draw.permutation(3)[: draw.randint(4)]:
        cell = draw.randint(side, size=2) + 0.5
        things.append(("door", int(colour), *np.float32([*cell, 0.5, 0.5])))
    for colour in draw.permutation(3)[: draw.randint(4)]:
        at = draw.uniform(0, side, 2)
        things.append(("key", int(colour), *np.float32(at), np.float32(0.375), KEY_HEIGHT))
    things.append(("gem", 0, *np.float32(draw.uniform(0, side, 2)), np.float32(0.375), GEM_HEIGHT))
    order = draw.permutation(len(things))
    slots = draw.randint(4)
    return {
        "memory": k % 3 == 2,
        "side": side,
        "background": -1 if k % 10 == 9 else draw.randint(9),
        "walls": draw.rand(side, side) < 0.4,  # [y, x]
        "things": [things[n] for n in order],
        "x": np.float32(draw.uniform(0.4, side - 0.4)),
        "y": np.float32(draw.uniform(0.4, side - 0.4)),
        "facing": draw.randint(9),  # as an action; 4: none pressed yet
        "slots": slots,  # for keys on the ring
        "held": [bool(draw.randint(2)) for _ in range(slots)],
    }


def digest(frame):
    return hashlib.sha256(np.ascontiguousarray(frame, np.uint8).tobytes()).hexdigest()[:16]
