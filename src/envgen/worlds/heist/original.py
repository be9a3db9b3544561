"""The original, played in a process of its own: the PyPI package `procgen-mirror`, which lives with other libraries.

    make oracle        # puts it in a virtual environment of its own, .oracle

This file runs on both sides. Here `play` starts the other Python on this very file and asks it for games; there
`_serve` plays them and tells, from the bytes of the original's own state, where everything is after every step. So it
imports nothing but numpy and what Python has.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

HOME = Path(__file__).resolve().parents[4] / ".oracle"
MOST_THINGS = 12
THING = np.dtype([("x", "<f4"), ("y", "<f4"), ("rx", "<f4"), ("ry", "<f4"), ("kind", "<i4"), ("colour", "<i4")])
SEEN = np.dtype(
    [
        ("seed", "<i4"), ("reward", "<f4"), ("first", "<i4"), ("used", "<i4"),  # words of the level's stream used up
        ("agent", "<f4", 5),  # x, y, vx, vy, rotation
        ("background", "<i4"), ("count", "<i4"), ("things", THING, MOST_THINGS),
        ("num_keys", "<i4"), ("has_key", "u1", 4), ("side", "<i4"), ("grid", "u1", (25, 25)),  # at [y, x]: 1 is wall
    ]
)  # fmt: skip
FRAME = (64, 64, 3)

# How the original's state lies in its bytes, as found by looking at what changes when something is done.
WORDS_OF_AN_ENTITY = 31
WORDS_BEFORE_ENTITIES, WORDS_AFTER_ENTITIES, BACKGROUND = 16, 20, 1
WORDS_BEFORE_GRID = 9
STREAMS = 85
KEY, DOOR, GEM = 2, 1, 9
WALL = 51


class Asked(NamedTuple):
    """Games of several environments. `actions` (steps, num) go beside."""

    mode: str = "hard"
    num: int = 1
    rand_seed: int = 0
    num_levels: int = 0
    start_level: int = 0
    frames: bool = False


class Oracle:
    """The original. Use as a context, or `close` it."""

    def __init__(self, python: Path | None = None):
        python = python or HOME / "bin" / "python"
        if not python.exists():
            raise FileNotFoundError(f"{python} does not exist; `make oracle` installs the original there")
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def play(self, asked: Asked, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """What is seen (steps + 1, num) SEEN, at first and after every step, and the frames if asked for."""
        steps = len(actions)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**asked._asdict(), "steps": steps}).encode() + b"\n")
        self._process.stdin.write(np.ascontiguousarray(actions, "<i4").tobytes())
        self._process.stdin.flush()
        shape = (steps + 1, asked.num)
        seen = np.frombuffer(self._read(SEEN.itemsize * shape[0] * shape[1]), SEEN).reshape(shape)
        if not asked.frames:
            return seen, None
        frames = np.frombuffer(self._read(int(np.prod(shape + FRAME))), np.uint8)
        return seen, frames.reshape(shape + FRAME)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise RuntimeError("the original has stopped")
        return data

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _text(state: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from("<i", state, at)
    return state[at + 4 : at + 4 + size], at + 4 + size


def _read_state(state: bytes, row: np.ndarray) -> None:
    """Fill a row of SEEN from the bytes of a state."""
    _, at = _text(state, STREAMS)  # the stream of the levels' seeds, a flag, the level's own stream
    stream, at = _text(state, at + 4)
    row["used"] = int(stream.rsplit(b" ", 1)[1])
    at += 4 * WORDS_BEFORE_ENTITIES
    (count,) = struct.unpack_from("<i", state, at)
    entities = np.frombuffer(state, "<f4", WORDS_OF_AN_ENTITY * count, at + 4).reshape(count, WORDS_OF_AN_ENTITY)
    numbers = entities.view("<i4")
    row["agent"] = entities[0, [0, 1, 2, 3, 13]]
    things = row["things"]
    row["count"] = 0
    for k in range(1, count):
        thing = things[row["count"]]
        if numbers[k, 6] not in (KEY, DOOR, GEM):
            continue
        thing["x"], thing["y"], thing["rx"], thing["ry"] = entities[k, [0, 1, 4, 5]]
        thing["kind"], thing["colour"] = numbers[k, 6], numbers[k, 8]
        row["count"] += 1
    at += 4 + 4 * WORDS_OF_AN_ENTITY * count
    row["background"] = struct.unpack_from("<i", state, at + 4 * BACKGROUND)[0]
    _, at = _text(state, at + 4 * WORDS_AFTER_ENTITIES)
    at += 4 * WORDS_BEFORE_GRID
    side, high, size = struct.unpack_from("<3i", state, at)
    assert (high, size) == (side, side * side), "a world that is not square"
    row["side"] = side
    row["grid"] = 1
    row["grid"][:side, :side] = np.frombuffer(state, "<i4", size, at + 12).reshape(side, side) == WALL
    row["num_keys"], _, slots = struct.unpack_from("<3i", state, at + 12 + 4 * size)
    row["has_key"][:slots] = np.frombuffer(state, "<i4", slots, at + 24 + 4 * size)
    assert len(state) == at + 28 + 4 * size + 4 * slots, "a state of another length"


def _serve() -> None:
    from procgen import ProcgenGym3Env  # pyright: ignore[reportMissingImports]

    for line in sys.stdin.buffer:
        asked = json.loads(line)
        steps, num = asked["steps"], asked["num"]
        actions = np.frombuffer(sys.stdin.buffer.read(4 * steps * num), "<i4").reshape(steps, num)
        env = ProcgenGym3Env(
            num=num, env_name="heist", rand_seed=asked["rand_seed"], distribution_mode=asked["mode"],
            num_levels=asked["num_levels"], start_level=asked["start_level"], num_threads=0,
        )  # fmt: skip
        seen = np.zeros((steps + 1, num), SEEN)
        frames = np.zeros((steps + 1, num, *FRAME), np.uint8) if asked["frames"] else None
        for step in range(steps + 1):
            reward, picture, first = env.observe()
            seen["reward"][step], seen["first"][step] = reward, first
            for i, (state, info) in enumerate(zip(env.callmethod("get_state"), env.get_info(), strict=True)):
                seen["seed"][step, i] = info["level_seed"]
                _read_state(state, seen[step, i])
            if frames is not None:
                frames[step] = picture["rgb"]
            if step < steps:
                env.act(actions[step])
        env.close()
        sys.stdout.buffer.write(seen.tobytes() + (frames.tobytes() if frames is not None else b""))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
