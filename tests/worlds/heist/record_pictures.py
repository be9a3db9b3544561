"""Record how the original draws the scenes of heist_scenes.py: `python record_pictures.py 300 > pictures.json`.

It runs where procgen-mirror 0.10.7 does (Python 3.11, numpy below 2), and changes the bytes of the original's saved
state so that it finds itself in each scene.
"""

import json
import math
import sys

import numpy as np
from heist_scenes import digest, scene
from procgen import ProcgenGym3Env

WORDS = 31  # of an entity
X, Y, RX, RY, KIND, IMAGE, COLOUR, LAYER, ROTATION, ON_SCREEN = 0, 1, 4, 5, 6, 7, 8, 9, 13, 20
KINDS = {"door": 1, "key": 2, "gem": 9}
RING = 11
WALL, SPACE = 51, 100


class State:
    """The original's saved state, taken apart where scenes differ."""

    def __init__(self, raw):
        self.raw, self.at = raw, 0
        self.text(4)
        self.options = self.at
        self.skip(17)
        self.text(4)
        self.text(4)
        self.skip(16)  # up to the size of the grid's cells
        self.entities = self.at
        count = self.number()
        self.agent = np.frombuffer(raw, np.int32, WORDS, self.at).copy()
        self.skip(WORDS * count)
        self.middle = self.at
        self.skip(19)  # backgrounds, the agent's speeds, the camera's middle, switches
        self.text(4)
        self.sides = self.at
        self.skip(9)
        self.grid = self.at

    def number(self):
        self.at += 4
        return int.from_bytes(self.raw[self.at - 4 : self.at], "little", signed=True)

    def skip(self, words):
        self.at += 4 * words

    def text(self, before):
        self.at += before
        length = self.number()
        self.at += length


def numbers(*values):
    return np.array(values, np.int32).tobytes()


def entity(like, x, y, rx, ry, kind, image, colour, layer, rotation, on_screen=0):
    row = like.copy()
    reals = row.view(np.float32)
    reals[X], reals[Y], reals[RX], reals[RY], reals[ROTATION] = x, y, rx, ry, rotation
    row[[KIND, IMAGE, COLOUR, LAYER, ON_SCREEN]] = kind, image, colour, layer, on_screen
    return row.tobytes()


def saved(state, scene):
    """The bytes of a saved state in which the original finds itself in a scene."""
    dx, dy = scene["facing"] // 3 - 1, scene["facing"] % 3 - 1
    turn = -math.atan2(dy, dx) if dx or dy else 0.0
    r = np.float32(0.375)
    rows = [entity(state.agent, scene["x"], scene["y"], r, r, 0, 0, 0, 1, turn)]
    for kind, colour, x, y, rx, ry in scene["things"]:
        rows.append(entity(state.agent, x, y, rx, ry, KINDS[kind], KINDS[kind], colour, 0, 0.0))
    r = np.float32(0.03)
    for k in range(scene["slots"]):
        x, ry = 1 - float(r) * (2 * k + 1.25), r / np.float32(84 / 52)
        rows.append(entity(state.agent, x, float(r) * 0.75, r, ry, RING, KINDS["key"], k, 1, math.pi / 2, 1))
    head = bytearray(state.raw[: state.entities])
    head[state.options + 16 : state.options + 20] = numbers(scene["background"] >= 0)
    middle = bytearray(state.raw[state.middle : state.sides])
    middle[4:8] = numbers(max(scene["background"], 0))
    side = scene["side"]
    grid = np.where(scene["walls"], WALL, SPACE).astype(np.int32)
    return b"".join(
        (
            bytes(head),
            numbers(len(rows)),
            *rows,
            bytes(middle),
            numbers(side, side),
            state.raw[state.sides + 8 : state.grid],
            numbers(side, side, side * side),
            grid.tobytes(),
            numbers(scene["slots"], side, scene["slots"], *scene["held"]),
            state.raw[-4:],
        )
    )


def main(count):
    games = {}
    for memory in (False, True):
        mode = "memory" if memory else "easy"
        game = ProcgenGym3Env(num=1, env_name="heist", distribution_mode=mode, rand_seed=0, num_threads=0)
        games[memory] = game, State(game.get_state()[0])
    digests = []
    for k in range(count):
        game, state = games[scene(k)["memory"]]
        game.set_state([saved(state, scene(k))])
        digests.append(digest(game.observe()[1]["rgb"][0]))
    print(json.dumps({"original": digests}, indent=0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
