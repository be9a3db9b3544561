"""The processes in which benchmarks train many runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envgen.interrupts import INTERRUPTED

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPT = """
import sys, time
from pathlib import Path
from envgen.interrupts import GracefulInterrupt
from training_runs import run_tasks

def train(k):
    with GracefulInterrupt() as interrupt:
        Path(f"started {k}").touch()
        deadline = time.monotonic() + 60
        while not interrupt.requested and time.monotonic() < deadline:
            time.sleep(0.01)
    Path(f"saved {k}").touch()
    raise KeyboardInterrupt

if __name__ == "__main__":
    run_tasks(train, [(k,) for k in range(4)], 2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
@pytest.mark.parametrize(("number", "to_workers"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_stops_all_runs_at_a_signal(tmp_path, number, to_workers):
    """The runs in progress save a checkpoint, and no others start. A terminal sends Ctrl-C to workers, too."""
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("started *"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        if to_workers:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.communicate(timeout=60)  # until the workers have closed the pipes, too
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == INTERRUPTED
    assert sorted(file.name for file in tmp_path.glob("* [0-9]")) == ["saved 0", "saved 1", "started 0", "started 1"]
