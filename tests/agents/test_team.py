"""Two processes started by torchrun learn what one would, to rounding."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from envgen.agents.team import ProcessGroup

WORKER = Path(__file__).with_name("team_worker.py")


def started(processes: int, folder: Path) -> list[dict[str, np.ndarray]]:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*run, str(WORKER), str(folder)], capture_output=True, text=True, env=quiet, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return [dict(np.load(folder / f"{processes}-{rank}.npz")) for rank in range(processes)]


def test_two_processes_learn_what_one_does(tmp_path):
    (alone,) = started(1, tmp_path)
    first, second = started(2, tmp_path)
    assert alone["steps"] == first["steps"] == second["steps"] == 8 * 16 * 4
    for name, weights in alone.items():
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
        np.testing.assert_allclose(first[name], weights, rtol=1e-3, atol=2e-5, err_msg=name)


def test_environments_that_cannot_be_shared_evenly_are_refused():
    with pytest.raises(ValueError, match="7 environments cannot be shared evenly by 2 processes"):
        ProcessGroup(0, 2).local_slice(7)
