"""A checkpoint is whole or not there, knows when it is damaged, and a full disk costs no earlier one."""

import json
import resource
from pathlib import Path

import numpy as np
import pytest

from envgen.runs import checkpoint
from envgen.runs.checkpoint import CheckpointError, latest, numbers, save

ARRAYS = {"agent": {"weights": np.arange(5000, dtype=np.float32), "step": np.array(7.0, np.float32)}}
VALUES = {"steps": 12, "random": {"state": 2**100}}


def test_what_was_saved_is_read_back(tmp_path):
    save(tmp_path, ARRAYS, VALUES)
    number, arrays, values = latest(tmp_path)
    assert (number, values) == (1, VALUES)
    for name, array in ARRAYS["agent"].items():
        np.testing.assert_array_equal(arrays["agent"][name], array)
        assert arrays["agent"][name].shape == array.shape
        assert arrays["agent"][name].dtype == array.dtype


def test_the_newest_few_are_kept(tmp_path):
    for steps in range(5):
        save(tmp_path, ARRAYS, {"steps": steps}, kept=2)
    assert numbers(tmp_path) == [4, 5]
    assert latest(tmp_path).values == {"steps": 4}


def test_before_the_first_there_is_none(tmp_path):
    assert latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", ["agent.safetensors", "values.json", "manifest.json"])
@pytest.mark.parametrize("how", ["changed", "cut", "removed"])
def test_a_damaged_one_is_passed_over_loudly(tmp_path, name, how):
    save(tmp_path, ARRAYS, {"steps": 1})
    file = save(tmp_path, ARRAYS, {"steps": 2}) / name
    data = bytearray(file.read_bytes())
    if how == "removed":
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="00000002 is damaged.*the one before"):
        assert latest(tmp_path).values == {"steps": 1}


def test_if_all_are_damaged_nothing_silently_begins_anew(tmp_path):
    (save(tmp_path, ARRAYS, VALUES) / "values.json").write_text("{}")
    with pytest.warns(RuntimeWarning), pytest.raises(CheckpointError, match=r"every checkpoint .* is damaged"):
        latest(tmp_path)


def test_one_that_was_being_written_does_not_count_and_is_cleared_away(tmp_path):
    save(tmp_path, ARRAYS, {"steps": 1})
    unfinished = tmp_path / f"{checkpoint.UNFINISHED}00000002"
    unfinished.mkdir()
    (unfinished / "agent.safetensors").write_bytes(b"half")
    assert latest(tmp_path).values == {"steps": 1}
    save(tmp_path, ARRAYS, {"steps": 2})
    assert not unfinished.exists()
    assert latest(tmp_path).values == {"steps": 2}


def test_a_full_disk_costs_no_earlier_checkpoint(tmp_path):
    """Files may not grow beyond 4 KB for a while: the system refuses to write, as a full disk does."""
    save(tmp_path, ARRAYS, {"steps": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(CheckpointError, match=r"cannot write checkpoint 2 .*; checkpoint 1 still stands"):
            save(tmp_path, ARRAYS, {"steps": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000001"]
    assert latest(tmp_path).values == {"steps": 1}


def test_a_checkpoint_names_every_file_with_its_sum(tmp_path):
    folder: Path = save(tmp_path, ARRAYS, VALUES)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest.keys() == {"agent.safetensors", "values.json"}
    assert all(len(entry["sha256"]) == 64 for entry in manifest.values())
