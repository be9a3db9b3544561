"""Record how the reference draws the scenes of heist_scenes.py: `python record_images.py 300 > images.json`.

Run this in the reference's environment (procgen-mirror 0.10.7, Python 3.11, numpy below 2). It edits the bytes of the
reference's saved state to set up each scene.
"""

import json
import math
import sys

import numpy as np
from heist_scenes import digest, make_scene
from procgen import ProcgenGym3Env

ENTITY_WORDS = 31
X, Y, RX, RY, KIND, IMAGE, COLOR, LAYER, ROTATION, ON_SCREEN = 0, 1, 4, 5, 6, 7, 8, 9, 13, 20
KINDS = {"door": 1, "key": 2, "gem": 9}
HELD_KEY = 11
WALL, SPACE = 51, 100


class SavedState:
    """The reference's saved state, split where scenes differ."""

    def __init__(self, data):
        self.data, self.offset = data, 0
        self.skip_text(4)
        self.options = self.offset
        self.skip_words(17)
        self.skip_text(4)
        self.skip_text(4)
        self.skip_words(16)  # up to the size of the grid's cells
        self.entities = self.offset
        count = self.read_number()
        self.agent = np.frombuffer(data, np.int32, ENTITY_WORDS, self.offset).copy()
        self.skip_words(ENTITY_WORDS * count)
        self.after_entities = self.offset
        self.skip_words(19)  # backgrounds, the agent's speeds, the camera's center, switches
        self.skip_text(4)
        self.world_size = self.offset
        self.skip_words(9)
        self.grid = self.offset

    def read_number(self):
        self.offset += 4
        return int.from_bytes(self.data[self.offset - 4 : self.offset], "little", signed=True)

    def skip_words(self, words):
        self.offset += 4 * words

    def skip_text(self, bytes_before):
        self.offset += bytes_before
        length = self.read_number()
        self.offset += length


def to_bytes(*values):
    return np.array(values, np.int32).tobytes()


def entity_bytes(template, x, y, rx, ry, kind, image, color, layer, rotation, on_screen=0):
    words = template.copy()
    floats = words.view(np.float32)
    floats[X], floats[Y], floats[RX], floats[RY], floats[ROTATION] = x, y, rx, ry, rotation
    words[[KIND, IMAGE, COLOR, LAYER, ON_SCREEN]] = kind, image, color, layer, on_screen
    return words.tobytes()


def scene_bytes(state, scene):
    """The bytes of a saved state that shows a scene."""
    dx, dy = scene["facing"] // 3 - 1, scene["facing"] % 3 - 1
    rotation = -math.atan2(dy, dx) if dx or dy else 0.0
    r = np.float32(0.375)
    rows = [entity_bytes(state.agent, scene["x"], scene["y"], r, r, 0, 0, 0, 1, rotation)]
    for kind, color, x, y, rx, ry in scene["entities"]:
        rows.append(entity_bytes(state.agent, x, y, rx, ry, KINDS[kind], KINDS[kind], color, 0, 0.0))
    r = np.float32(0.03)
    for k in range(scene["num_key_slots"]):
        x, ry = 1 - float(r) * (2 * k + 1.25), r / np.float32(84 / 52)
        y = float(r) * 0.75
        rows.append(entity_bytes(state.agent, x, y, r, ry, HELD_KEY, KINDS["key"], k, 1, math.pi / 2, 1))
    head = bytearray(state.data[: state.entities])
    head[state.options + 16 : state.options + 20] = to_bytes(scene["background"] >= 0)
    middle = bytearray(state.data[state.after_entities : state.world_size])
    middle[4:8] = to_bytes(max(scene["background"], 0))
    size = scene["world_size"]
    grid = np.where(scene["walls"], WALL, SPACE).astype(np.int32)
    return b"".join(
        (
            bytes(head),
            to_bytes(len(rows)),
            *rows,
            bytes(middle),
            to_bytes(size, size),
            state.data[state.world_size + 8 : state.grid],
            to_bytes(size, size, size * size),
            grid.tobytes(),
            to_bytes(scene["num_key_slots"], size, scene["num_key_slots"], *scene["has_key"]),
            state.data[-4:],
        )
    )


def main(num_scenes):
    envs = {}
    for memory in (False, True):
        mode = "memory" if memory else "easy"
        env = ProcgenGym3Env(num=1, env_name="heist", distribution_mode=mode, rand_seed=0, num_threads=0)
        envs[memory] = env, SavedState(env.get_state()[0])
    digests = []
    for k in range(num_scenes):
        scene = make_scene(k)
        env, state = envs[scene["memory"]]
        env.set_state([scene_bytes(state, scene)])
        digests.append(digest(env.observe()[1]["rgb"][0]))
    print(json.dumps({"original": digests}, indent=0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
