"""No kernel accesses memory outside its arrays: plays once with numba's bounds checking enabled.

Numba accepts indices from -size to -1, which count from the end. The edges of the map are compared with the reference
instead (test_parity.py).
"""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numba
import numpy as np

assert numba.config.BOUNDSCHECK == 1
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.env import CrafterVectorEnv

near = {"table": True, "furnace": True, "water": True, "plant": "ripe", "cows": 4, "cave": True}
levels = [
    {}, {"biome": "mountain", "tunnels": "very common", "skeletons": "very common", "time_of_day": 200},
    {"biome": "beach", "near": near}, {"biome": "grassland", "cows": "very common", "zombies": "very common"},
]
rng = np.random.default_rng(0)
for observation in ("pixels", "symbols"):
    envs = CrafterVectorEnv(8, levels, observation, size=(70, 64), threads=1, render_mode="rgb_array")
    envs.reset(seed=0)
    for step in range(400):
        actions = rng.integers(0, 17, 8)
        actions[::2] = expert_actions(envs.engine)[::2]
        actions[1] = 1 + step // 120 % 4  # to all four edges of the map
        envs.step(actions)
    envs.render()

# Bounds checking is really enabled: an index out of bounds raises.
from envgen.worlds.kernels import mt19937
try:
    mt19937.seed(np.zeros(10, np.uint32), 0)
except IndexError:
    print("checked")
"""


@pytest.mark.slow
def test_kernels_stay_within_their_arrays(tmp_path):
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "ENVGEN_CACHE": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["checked"]
