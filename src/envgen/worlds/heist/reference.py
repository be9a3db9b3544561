"""The reference implementation, the PyPI package `procgen-mirror`, run in its own process and compared bit by bit.

    make procgen       # installs the reference in its own virtual environment, .procgen

This file runs on both sides. `ReferenceHeist` starts the other Python with this file, and its `rollout` sends requests;
`_serve` steps environments there and reads, from the bytes of the reference's saved state, where everything is after
each step. The module therefore imports only numpy and the standard library at the top.

`record_engine_rollout` runs the same request in this engine. Rollouts of the reference are also recorded, in
tests/worlds/heist/recorded.json.gz, so that the comparison runs where the reference is not installed.
"""

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .env import HeistVectorEnv

REFERENCE_VENV = Path(__file__).resolve().parents[4] / ".procgen"
MAX_ENTITIES = 12
ENTITY = np.dtype([("x", "<f4"), ("y", "<f4"), ("rx", "<f4"), ("ry", "<f4"), ("kind", "<i4"), ("color", "<i4")])
STATE = np.dtype(  # the state of one environment after a step
    [
        ("seed", "<i4"), ("reward", "<f4"), ("first", "<i4"),
        ("words_used", "<i4"),  # words drawn from the current block of the episode's random stream
        ("agent", "<f4", 5),  # x, y, vx, vy, rotation
        ("background", "<i4"), ("num_entities", "<i4"), ("entities", ENTITY, MAX_ENTITIES),
        ("num_key_slots", "<i4"), ("has_key", "u1", 4),
        ("world_size", "<i4"), ("walls", "u1", (25, 25)),  # at [y, x]
    ]
)  # fmt: skip
FRAME_SHAPE = (64, 64, 3)

# The layout of the reference's saved state, in 32-bit words, found by observing which words change.
ENTITY_WORDS = 31
WORDS_BEFORE_ENTITIES, WORDS_AFTER_ENTITIES, BACKGROUND_WORD = 16, 20, 1
WORDS_BEFORE_GRID = 9
STREAMS_OFFSET = 85  # bytes
REFERENCE_KEY, REFERENCE_DOOR, REFERENCE_GEM = 2, 1, 9
REFERENCE_WALL = 51

REPEAT_PROBABILITY = 0.6  # that a random policy repeats its last action
ChooseActions = Callable[["HeistVectorEnv", int], np.ndarray]  # (envs, step) -> actions


class RolloutRequest(NamedTuple):
    """Environment settings for a rollout. Actions, (steps, num_envs), are passed separately."""

    mode: str = "hard"
    num_envs: int = 1
    rand_seed: int = 0
    num_levels: int = 0
    start_level: int = 0
    with_frames: bool = False


class Rollout(NamedTuple):
    """Actions and the resulting states and frames."""

    actions: np.ndarray  # (steps, num_envs)
    states: np.ndarray  # (steps + 1, num_envs) STATE
    frames: np.ndarray | None  # (steps + 1, num_envs, 64, 64, 3)


class ReferenceHeist:
    """The reference in its own process. Use it as a context manager, or `close` it."""

    def __init__(self, python: Path | None = None):
        python = python or REFERENCE_VENV / "bin" / "python"
        if not python.exists():
            raise FileNotFoundError(f"{python} does not exist; run `make procgen` to install the reference there")
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def rollout(self, request: RolloutRequest, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The states (steps + 1, num_envs) at the start and after each step, and the frames if requested."""
        steps = len(actions)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**request._asdict(), "steps": steps}).encode() + b"\n")
        self._process.stdin.write(np.ascontiguousarray(actions, "<i4").tobytes())
        self._process.stdin.flush()
        shape = (steps + 1, request.num_envs)
        states = np.frombuffer(self._read(STATE.itemsize * shape[0] * shape[1]), STATE).reshape(shape)
        if not request.with_frames:
            return states, None
        frames = np.frombuffer(self._read(int(np.prod(shape + FRAME_SHAPE))), np.uint8)
        return states, frames.reshape(shape + FRAME_SHAPE)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise RuntimeError("the process of the reference has ended; run this file in .procgen's Python to see why")
        return data

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> "ReferenceHeist":
        return self

    def __exit__(self, *_) -> None:
        self.close()


# --- this engine


def record_engine_rollout(
    request: RolloutRequest, steps: int, choose_actions: ChooseActions, skin: str | None = None
) -> Rollout:
    """Run a request in this engine; with frames if a skin is given."""
    from .env import HeistVectorEnv

    envs = HeistVectorEnv(
        request.num_envs, {"mode": request.mode}, "pixels" if skin else "symbols", num_levels=request.num_levels,
        start_level=request.start_level, skin=skin or "envgen", threads=1,
    )  # fmt: skip
    obs, _ = envs.reset(options={"rand_seed": request.rand_seed})
    states = np.zeros((steps + 1, request.num_envs), STATE)
    frames = np.zeros((steps + 1, request.num_envs, *FRAME_SHAPE), np.uint8) if skin else None
    actions = np.zeros((steps, request.num_envs), np.int64)
    states["first"][0] = 1
    for step in range(steps + 1):
        for i in range(request.num_envs):
            _fill_from_env(envs.engine.envs[i], states[step, i])
        if frames is not None:
            frames[step] = obs
        if step < steps:
            actions[step] = choose_actions(envs, step)
            obs, reward, terminated, truncated, _ = envs.step(actions[step])
            states["reward"][step + 1], states["first"][step + 1] = reward, terminated | truncated
    return Rollout(actions, states, frames)


def _fill_from_env(env: np.void, row: np.ndarray) -> None:
    """Fill a STATE row from one of the engine's ENV records."""
    from . import constants as const

    reference_kinds = {
        const.ENTITY_KEY: REFERENCE_KEY, const.ENTITY_DOOR: REFERENCE_DOOR, const.ENTITY_GEM: REFERENCE_GEM,
    }  # fmt: skip
    row["seed"], row["words_used"] = env["level_seed"], env["mt"][-1]
    row["background"], row["world_size"] = env["background"], env["world_size"]
    row["agent"] = env["x"], env["y"], env["vx"], env["vy"], env["rotation"]
    entities = env["entities"][: env["num_entities"]]
    entities = entities[entities["alive"] == 1]
    row["num_entities"] = len(entities)
    for entity, target in zip(entities, row["entities"], strict=False):
        target["x"], target["y"], target["rx"], target["ry"] = entity["x"], entity["y"], entity["rx"], entity["ry"]
        target["kind"], target["color"] = reference_kinds[int(entity["kind"])], entity["color"]
    row["num_key_slots"] = env["num_key_slots"]
    row["has_key"][: const.NUM_COLORS] = env["has_key"]
    row["walls"] = env["grid"] == const.WALL


def first_difference(actual: Rollout, states: np.ndarray, frames: np.ndarray | None = None) -> str | None:
    """Describe the first difference in any bit between the engine's rollout and the reference's, or None."""
    expected = np.ascontiguousarray(states)
    differs = (_state_bytes(actual.states) != _state_bytes(expected)).any(-1)  # (steps + 1, num_envs)
    if frames is not None and actual.frames is not None:
        differs |= (actual.frames != frames).any((2, 3, 4))
    if not differs.any():
        return None
    step, i = (int(k) for k in np.argwhere(differs)[0])
    a, b = actual.states[step, i], expected[step, i]
    names = [name for name in STATE.names or () if a[name].tobytes() != b[name].tobytes()]
    details = "; ".join(f"{name} {a[name].tolist()} should be {b[name].tolist()}" for name in names)
    return f"environment {i} after {step} steps: {details or 'the image differs'}"


def _state_bytes(states: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(states).view(np.uint8).reshape(*states.shape, -1)


def row_hashes(rows: np.ndarray) -> list[str]:
    """One hash per row, usually the states or frames of all environments after one step."""
    return [f"{zlib.crc32(np.ascontiguousarray(row).tobytes()):08x}" for row in rows]


def mixed_policies(num_envs: int, seed: int) -> ChooseActions:
    """Four kinds of policies: random, expert, an expert that often errs, and one that alternates between them."""
    from .constants import ACTIONS
    from .expert_policy import expert_actions

    rng = np.random.default_rng(seed)
    last_actions = np.zeros(num_envs, np.int64)
    kind = np.arange(num_envs) % 4

    def choose_actions(envs: "HeistVectorEnv", step: int) -> np.ndarray:
        nonlocal last_actions
        changes = rng.random(num_envs) >= REPEAT_PROBABILITY
        random_actions = np.where(changes, rng.integers(0, len(ACTIONS), num_envs), last_actions)
        last_actions = random_actions
        is_random = (kind == 0) | ((kind == 2) & (rng.random(num_envs) < 0.3)) | ((kind == 3) & (step // 25 % 2 == 0))
        return np.where(is_random, random_actions, expert_actions(envs.engine))

    return choose_actions


# --- the reference's process


def _read_text(state: bytes, offset: int) -> tuple[bytes, int]:
    """A length-prefixed string and the offset after it."""
    (size,) = struct.unpack_from("<i", state, offset)
    return state[offset + 4 : offset + 4 + size], offset + 4 + size


def _fill_from_saved_state(state: bytes, row: np.ndarray) -> None:
    """Fill a STATE row from the bytes of the reference's saved state."""
    _, offset = _read_text(state, STREAMS_OFFSET)  # the stream of level seeds, a flag, the episode's stream
    stream, offset = _read_text(state, offset + 4)
    row["words_used"] = int(stream.rsplit(b" ", 1)[1])
    offset += 4 * WORDS_BEFORE_ENTITIES
    (count,) = struct.unpack_from("<i", state, offset)
    floats = np.frombuffer(state, "<f4", ENTITY_WORDS * count, offset + 4).reshape(count, ENTITY_WORDS)
    integers = floats.view("<i4")
    row["agent"] = floats[0, [0, 1, 2, 3, 13]]
    entities = row["entities"]
    row["num_entities"] = 0
    for k in range(1, count):
        entity = entities[row["num_entities"]]
        if integers[k, 6] not in (REFERENCE_KEY, REFERENCE_DOOR, REFERENCE_GEM):
            continue
        entity["x"], entity["y"], entity["rx"], entity["ry"] = floats[k, [0, 1, 4, 5]]
        entity["kind"], entity["color"] = integers[k, 6], integers[k, 8]
        row["num_entities"] += 1
    offset += 4 + 4 * ENTITY_WORDS * count
    row["background"] = struct.unpack_from("<i", state, offset + 4 * BACKGROUND_WORD)[0]
    _, offset = _read_text(state, offset + 4 * WORDS_AFTER_ENTITIES)
    offset += 4 * WORDS_BEFORE_GRID
    width, height, size = struct.unpack_from("<3i", state, offset)
    assert (height, size) == (width, width * width), "the grid is not square"
    row["world_size"] = width
    row["walls"] = 1
    grid = np.frombuffer(state, "<i4", size, offset + 12).reshape(width, width)
    row["walls"][:width, :width] = grid == REFERENCE_WALL
    row["num_key_slots"], _, slots = struct.unpack_from("<3i", state, offset + 12 + 4 * size)
    row["has_key"][:slots] = np.frombuffer(state, "<i4", slots, offset + 24 + 4 * size)
    assert len(state) == offset + 28 + 4 * size + 4 * slots, "the saved state has an unexpected length"


def _serve() -> None:
    """Answer requests from stdin in the reference's Python."""
    from procgen import ProcgenGym3Env  # pyright: ignore[reportMissingImports]

    for line in sys.stdin.buffer:
        request = json.loads(line)
        steps, num_envs = request["steps"], request["num_envs"]
        actions = np.frombuffer(sys.stdin.buffer.read(4 * steps * num_envs), "<i4").reshape(steps, num_envs)
        env = ProcgenGym3Env(
            num=num_envs, env_name="heist", rand_seed=request["rand_seed"], distribution_mode=request["mode"],
            num_levels=request["num_levels"], start_level=request["start_level"], num_threads=0,
        )  # fmt: skip
        states = np.zeros((steps + 1, num_envs), STATE)
        frames = np.zeros((steps + 1, num_envs, *FRAME_SHAPE), np.uint8) if request["with_frames"] else None
        for step in range(steps + 1):
            reward, obs, first = env.observe()
            states["reward"][step], states["first"][step] = reward, first
            for i, (state, info) in enumerate(zip(env.callmethod("get_state"), env.get_info(), strict=True)):
                states["seed"][step, i] = info["level_seed"]
                _fill_from_saved_state(state, states[step, i])
            if frames is not None:
                frames[step] = obs["rgb"]
            if step < steps:
                env.act(actions[step])
        env.close()
        sys.stdout.buffer.write(states.tobytes() + (frames.tobytes() if frames is not None else b""))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
