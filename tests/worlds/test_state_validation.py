"""A damaged state is refused before a kernel sees it, and changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from envgen.worlds.crafter import state as crafter_state
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.heist import state as heist_state
from envgen.worlds.heist.env import HeistVectorEnv

FUZZ = Path(__file__).with_name("fuzz_restore.py")
WORLDS = {
    "crafter": (CrafterVectorEnv, {"envs": crafter_state.ENV, "entities": crafter_state.ENTITY}),
    "heist": (HeistVectorEnv, {"envs": heist_state.ENV}),
}


@pytest.mark.slow
@pytest.mark.parametrize("world", [*WORLDS, "minigrid"])
def test_restored_states_never_make_kernels_leave_their_arrays(world, tmp_path):
    """Run with numba's bounds checking in a subprocess, which may crash or hang."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "ENVGEN_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, FUZZ, world, "0"], env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    refused, accepted = map(int, done.stdout.split())
    assert refused > 1000
    assert accepted > 100


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    make, dtypes = WORLDS[request.param]
    envs = make(2, None, "symbols", threads=1)
    envs.reset(seed=1)
    for _ in range(30):
        envs.step([1, 2])
    return request.param, envs, dtypes


INVALID_VALUES = {
    "crafter": [
        ("envs", "level", 1), ("envs", "level", -1), ("envs", "step", -1), ("envs", "step", 10_000),
        ("envs", "num_entities", 0), ("envs", "num_entities", 30_000),
        ("envs", "num_chunks", 37), ("envs", "chunk_order", 36),
        ("envs", "grass_count", 200), ("envs", "path_count", 200), ("envs", "facing", 4), ("envs", "facing", -1),
        ("envs", "sleeping", 2), ("envs", "inventory", 10), ("envs", "inventory", -1), ("envs", "rng", 2**32 - 1),
        ("envs", "ground", 13), ("envs", "entity_slots", 4096), ("envs", "entity_slots", -1),
        ("envs", "daylight", np.nan),
        ("envs", "episode", 2**31 - 1), ("envs", "next_arrival", 0),
        ("entities", "x", 64), ("entities", "y", -1), ("entities", "kind", 7), ("entities", "kind", 0),
        ("entities", "facing", 4), ("entities", "arrival", -1),
    ],
    "heist": [
        ("envs", "level", 1), ("envs", "level", -1), ("envs", "step", -1), ("envs", "step", 1000),
        ("envs", "num_entities", 8), ("envs", "num_entities", 0), ("envs", "mode", 3), ("envs", "world_size", 26),
        ("envs", "world_size", 0), ("envs", "num_seeds", 0),
        ("envs", "background", 9), ("envs", "num_key_slots", 4), ("envs", "x", np.nan), ("envs", "x", 0.1),
        ("envs", "y", 1e30), ("envs", "vx", 2.0), ("envs", "vy", np.inf), ("envs", "facing", 9), ("envs", "has_key", 2),
        ("envs", "grid", 9), ("envs", "mt", 2**32 - 1), ("envs", "seed_stream", 2**32 - 1),
    ],
}  # fmt: skip


def test_every_field_used_by_kernels_is_checked(world):
    name, envs, dtypes = world
    before = envs.get_state()
    for array, field, value in INVALID_VALUES[name]:
        state = {key: values.copy() for key, values in before.items()}
        old_value = state[array].view(dtypes[array])[field][1, 0]  # a number or an array
        state[array].view(dtypes[array])[field][1, 0] = np.full_like(old_value, value)
        with pytest.raises(ValueError, match="environment 1"):
            envs.set_state(state)
    after = envs.get_state()
    assert all(np.array_equal(after[key], before[key]) for key in before)


def test_params_must_be_those_of_the_level(world):
    _, envs, dtypes = world
    state = envs.get_state()
    state["envs"].view(dtypes["envs"])["params"]["length"][0] = 2**30
    with pytest.raises(ValueError, match="params length of environment 0"):
        envs.set_state(state)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("envs", None, "no array 'envs'"),
        ("phase", np.array([1, 3], np.uint8), "phase of environment 1"),
        ("phase", np.array([1], np.uint8), "'phase' is uint8 of shape"),
        ("seeded", np.array([1.0, 1.0]), "'seeded' is float64"),
        ("env_level_ids", np.array([-1]), "env_level_ids"),
        ("env_level_ids", np.array([1]), "env_level_ids"),
        ("env_level_ids", np.zeros(0, np.int64), "env_level_ids"),
        ("levels", np.frombuffer(b"[" * 100_000, np.uint8), "not valid JSON"),
        ("levels", np.frombuffer(b"\xff", np.uint8), "not valid JSON"),
        ("levels", np.frombuffer(b"[]", np.uint8), "not a list of JSON objects"),
        ("levels", np.frombuffer(b"[7]", np.uint8), "not a list of JSON objects"),
        ("levels", np.frombuffer(b'[{"length": 0}]', np.uint8), "length"),
        ("size", np.array([64.0, 64.0]), "'size' is float64"),
        ("sample_levels", np.zeros(0, np.uint8), "'sample_levels'"),
        ("reports", np.zeros((2, 3), np.uint8), "'reports'"),
    ],
)
def test_every_array_is_checked(world, name, array, message):
    _, envs, _ = world
    state = envs.get_state()
    if array is None:
        del state[name]
    else:
        state[name] = array
    with pytest.raises(ValueError, match=message):
        envs.set_state(state)


def test_invalid_symbols_are_refused(world):
    _, envs, _ = world
    state = envs.get_state()
    state["obs"][1, 0] = 200
    with pytest.raises(ValueError, match="the observation of environment 1"):
        envs.set_state(state)
