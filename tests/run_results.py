"""Compare two run directories. Times are ignored."""

import json
from pathlib import Path

import numpy as np

from envgen.runs.checkpoint import load_latest
from envgen.runs.store import read_progress

TIME_KEYS = {"steps_per_second", "tokens_per_second", "seconds", "total_seconds"}


def without_times(value):
    if isinstance(value, dict):
        return {name: without_times(inner) for name, inner in value.items() if name not in TIME_KEYS}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def progress_without_times(folder: Path) -> list:
    return without_times(list(read_progress(folder)))


def results_of(folder: Path) -> list:
    """Return everything that a run wrote, except times and checkpoints."""
    files = [file for file in sorted(folder.rglob("*.json")) if "checkpoints" not in file.parts]
    results = [[str(file.relative_to(folder)), json.loads(file.read_text())] for file in files]
    return [without_times(results), progress_without_times(folder)]


def assert_same_weights(first: Path, second: Path) -> None:
    checkpoints = [load_latest(folder / "checkpoints") for folder in (first, second)]
    assert checkpoints[0]
    assert checkpoints[1]
    expected, actual = checkpoints[0].arrays["agent"], checkpoints[1].arrays["agent"]
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


def assert_same_run(first: Path, second: Path) -> None:
    assert results_of(first) == results_of(second)
    assert_same_weights(first, second)
