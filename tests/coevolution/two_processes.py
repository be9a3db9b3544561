"""Launch two processes that train together, and read what they wrote."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

TIMEOUT = 600  # seconds, on a busy machine


def launch(worker: ModuleType, folder: Path, models: Sequence[Any]) -> None:
    """Run `python WORKER FOLDER AGENT ENVIRONMENT` in two processes of the CPU."""
    path = [str(Path(worker.__file__ or "").parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*command, str(worker.__file__), str(folder), *map(str, models)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-4000:]


def read_json(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())
