"""Ours beside the original: the same games, told in the same words, compared float by float.

The original itself is played by `oracle.py`. What it did is also on record (tests/worlds/heist/recorded.json.gz), so
that ours is compared where the original is not installed.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import constants as t
from .engine import ORIGINAL_SIZE
from .expert_policy import expert_actions
from .original import DOOR, GEM, KEY, SEEN, Asked
from .vector import HeistVectorEnv

KIND_THERE = {t.A_KEY: KEY, t.A_DOOR: DOOR, t.A_GEM: GEM}
STICKY = 0.6  # the chance that a random player does the same again

Choose = Callable[[HeistVectorEnv, int], np.ndarray]


class Game(NamedTuple):
    """What was done and what was seen."""

    actions: np.ndarray  # (steps, num)
    seen: np.ndarray  # (steps + 1, num) SEEN
    frames: np.ndarray | None  # (steps + 1, num, 64, 64, 3)


def play(asked: Asked, steps: int, choose: Choose, skin: str | None = None) -> Game:
    """The games that the original would play if it were `asked`; with pictures in a skin, or without."""
    envs = HeistVectorEnv(
        asked.num, {"mode": asked.mode}, "pixels" if skin else "symbols", num_levels=asked.num_levels,
        start_level=asked.start_level, skin=skin or "envgen", threads=1,
    )  # fmt: skip
    pictures, _ = envs.reset(options={"rand_seed": asked.rand_seed})
    seen = np.zeros((steps + 1, asked.num), SEEN)
    frames = np.zeros((steps + 1, asked.num, *ORIGINAL_SIZE, 3), np.uint8) if skin else None
    done = np.zeros((steps, asked.num), np.int64)
    seen["first"][0] = 1
    for step in range(steps + 1):
        for i in range(asked.num):
            _tell(envs.engine.envs[i], seen[step, i])
        if frames is not None:
            frames[step] = pictures
        if step < steps:
            done[step] = choose(envs, step)
            pictures, reward, terminated, truncated, _ = envs.step(done[step])
            seen["reward"][step + 1], seen["first"][step + 1] = reward, terminated | truncated
    return Game(done, seen, frames)


def _tell(e: np.void, row: np.ndarray) -> None:
    """An environment as a row of SEEN."""
    row["seed"], row["used"], row["background"], row["side"] = e["level_seed"], e["mt"][-1], e["background"], e["side"]
    row["agent"] = e["x"], e["y"], e["vx"], e["vy"], e["rotation"]
    things = e["things"][: e["count"]]
    things = things[things["alive"] == 1]
    row["count"] = len(things)
    for thing, told in zip(things, row["things"], strict=False):
        told["x"], told["y"], told["rx"], told["ry"] = thing["x"], thing["y"], thing["rx"], thing["ry"]
        told["kind"], told["colour"] = KIND_THERE[int(thing["kind"])], thing["colour"]
    row["num_keys"] = e["num_keys"]
    row["has_key"][: t.KEYS] = e["has_key"]
    row["grid"] = e["grid"] == t.WALL


def difference(ours: Game, seen: np.ndarray, frames: np.ndarray | None = None) -> str | None:
    """Where two tellings of a game first differ in any bit, in words."""
    theirs = np.ascontiguousarray(seen)
    unlike = (_bytes(ours.seen) != _bytes(theirs)).any(-1)  # (steps + 1, num)
    if frames is not None and ours.frames is not None:
        unlike |= (ours.frames != frames).any((2, 3, 4))
    if not unlike.any():
        return None
    step, i = (int(k) for k in np.argwhere(unlike)[0])
    a, b = ours.seen[step, i], theirs[step, i]
    names = [name for name in SEEN.names or () if a[name].tobytes() != b[name].tobytes()]
    told = "; ".join(f"{name} {a[name].tolist()} is {b[name].tolist()}" for name in names) or "the picture"
    return f"environment {i} after {step} steps: {told}"


def _bytes(seen: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(seen).view(np.uint8).reshape(*seen.shape, -1)


def hashes(seen: np.ndarray) -> list[str]:
    """One for each step, of all environments."""
    return [f"{zlib.crc32(np.ascontiguousarray(row).tobytes()):08x}" for row in seen]


def players(num: int, seed: int) -> Choose:
    """Every fourth plays at random, as an expert, as one who often errs, and as one who for a while does not care."""
    rng = np.random.default_rng(seed)
    last = np.zeros(num, np.int64)
    kind = np.arange(num) % 4

    def choose(envs: HeistVectorEnv, step: int) -> np.ndarray:
        nonlocal last
        fresh = rng.random(num) >= STICKY
        random = np.where(fresh, rng.integers(0, len(t.ACTIONS), num), last)
        last = random
        careless = (kind == 0) | ((kind == 2) & (rng.random(num) < 0.3)) | ((kind == 3) & (step // 25 % 2 == 0))
        return np.where(careless, random, expert_actions(envs.engine))

    return choose
