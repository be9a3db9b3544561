"""No kernel leaves its arrays: everything is played once with numba's bounds checking switched on.

Indices from -size to -1 are Python's, counted from the end, and not errors to numba; what happens at the edges of the
map is compared with the original instead (test_parity.py).
"""

import os
import subprocess
import sys

PROGRAM = """
import numba
import numpy as np

assert numba.config.BOUNDSCHECK == 1
from envgen.worlds.crafter.expert import expert_actions
from envgen.worlds.crafter.vector import CrafterVectorEnv

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
        actions[1] = 1 + step // 120 % 4  # into all four edges of the map
        envs.step(actions)
    envs.render()

# The code under test really is checked: an index outside must raise.
from envgen.worlds.kernels import mt19937
try:
    mt19937.seed(np.zeros(10, np.uint32), 0)
except IndexError:
    print("checked")
"""


def test_no_kernel_reads_or_writes_outside_its_arrays(tmp_path):
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "ENVGEN_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["checked"]
