"""No kernel reads or writes outside its arrays: everything runs once with numba's bounds checking."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numba
import numpy as np

assert numba.config.BOUNDSCHECK == 1
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.level_stats import compute_level_stats
from envgen.worlds.heist.env import HeistVectorEnv

levels = [
    {}, {"mode": "easy"}, {"mode": "memory"}, {"maze_size": 25, "keys": "three", "loops": "many"},
    {"maze_size": 5, "keys": "three", "loops": "all", "start": "red key"},
    {
        "maze_size": 25, "loops": "all", "keys": "three", "key_distance": "long", "gem_distance": "short",
        "speed": "fast",
    },
    {"mode": "memory", "maze_size": 25, "start": "gem", "held_keys": {"blue": True}, "open_doors": {"green": True}},
    {"world_size": 25, "maze_size": 5, "length": 9}, {"world_size": 5},
]
rng = np.random.default_rng(0)
for observation in ("pixels", "symbols"):
    envs = HeistVectorEnv(16, levels, observation, threads=1, render_mode="rgb_array", render_size=40)
    envs.reset(seed=0)
    for step in range(250):
        actions = rng.integers(0, 15, 16)
        actions[::2] = expert_actions(envs.engine)[::2]
        actions[1:8] = [0, 2, 6, 8, 1, 3, 5][step // 30 % 7]  # into all corners
        envs.step(actions)
    envs.render()
for level in levels:
    compute_level_stats(level, range(4))

# Bounds checking is active: an index outside must raise.
from envgen.worlds.kernels import mt19937
try:
    mt19937.seed(np.zeros(10, np.uint32), 0)
except IndexError:
    print("checked")
"""


@pytest.mark.slow
def test_kernels_stay_within_their_arrays(tmp_path):
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "ENVGEN_CACHE": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["checked"]
