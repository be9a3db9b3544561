"""A checkpoint is whole or not there, knows when it is damaged, and a full disk costs no earlier one."""

import json
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from envgen.runs import checkpoint
from envgen.runs.checkpoint import CheckpointError, load_latest, list_checkpoints, save_checkpoint

ARRAYS = {"agent": {"weights": np.arange(5000, dtype=np.float32), "step": np.array(7.0, np.float32)}}
VALUES = {"steps": 12, "random": {"state": 2**100}}


def test_what_was_saved_is_read_back(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, VALUES)
    number, arrays, values = load_latest(tmp_path)
    assert (number, values) == (1, VALUES)
    for name, array in ARRAYS["agent"].items():
        np.testing.assert_array_equal(arrays["agent"][name], array)
        assert arrays["agent"][name].shape == array.shape
        assert arrays["agent"][name].dtype == array.dtype


def test_the_newest_few_are_kept(tmp_path):
    for steps in range(5):
        save_checkpoint(tmp_path, ARRAYS, {"steps": steps}, kept=2)
    assert list_checkpoints(tmp_path) == [4, 5]
    assert load_latest(tmp_path).values == {"steps": 4}


def test_before_the_first_there_is_none(tmp_path):
    assert load_latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", ["agent.safetensors", "values.json", "manifest.json"])
@pytest.mark.parametrize("how", ["changed", "cut", "removed"])
def test_a_damaged_one_is_passed_over_loudly(tmp_path, name, how):
    save_checkpoint(tmp_path, ARRAYS, {"steps": 1})
    file = save_checkpoint(tmp_path, ARRAYS, {"steps": 2}) / name
    data = bytearray(file.read_bytes())
    if how == "removed":
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="00000002 is damaged.*the one before"):
        assert load_latest(tmp_path).values == {"steps": 1}


def test_if_all_are_damaged_nothing_silently_begins_anew(tmp_path):
    (save_checkpoint(tmp_path, ARRAYS, VALUES) / "values.json").write_text("{}")
    with pytest.warns(RuntimeWarning), pytest.raises(CheckpointError, match=r"every checkpoint .* is damaged"):
        load_latest(tmp_path)


def test_one_that_was_being_written_does_not_count_and_is_cleared_away(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, {"steps": 1})
    unfinished = tmp_path / f"{checkpoint.UNFINISHED}00000002"
    unfinished.mkdir()
    (unfinished / "agent.safetensors").write_bytes(b"half")
    assert load_latest(tmp_path).values == {"steps": 1}
    save_checkpoint(tmp_path, ARRAYS, {"steps": 2})
    assert not unfinished.exists()
    assert load_latest(tmp_path).values == {"steps": 2}


def test_a_full_disk_costs_no_earlier_checkpoint(tmp_path):
    """Files may not grow beyond 4 KB for a while: the system refuses to write, as a full disk does."""
    save_checkpoint(tmp_path, ARRAYS, {"steps": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(CheckpointError, match=r"cannot write checkpoint 2 .*; checkpoint 1 still stands"):
            save_checkpoint(tmp_path, ARRAYS, {"steps": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000001"]
    assert load_latest(tmp_path).values == {"steps": 1}


def test_a_checkpoint_names_every_file_with_its_sum(tmp_path):
    folder: Path = save_checkpoint(tmp_path, ARRAYS, VALUES)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest.keys() == {"agent.safetensors", "values.json"}
    assert all(len(entry["sha256"]) == 64 for entry in manifest.values())


def _manifest(folder: Path, change) -> None:
    """Change what the manifest of a checkpoint says."""
    sums = json.loads((folder / "manifest.json").read_text())
    change(sums)
    (folder / "manifest.json").write_text(json.dumps(sums))


@pytest.mark.parametrize(
    "name", ["/dev/zero", "../outside", "..", ".", "", "manifest.json", "a/b", "a\\b", "c:", "a\0b"]
)
def test_only_plain_names_of_files_are_read(tmp_path, name):
    (tmp_path / "outside").write_bytes(b"")
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    _manifest(folder, lambda sums: sums.update({name: {"bytes": 0, "sha256": "0" * 64}}))
    with pytest.raises(CheckpointError, match=r"is damaged: manifest\.json names"):
        checkpoint.load_checkpoint(folder)


@pytest.mark.parametrize("name", ["agent.safetensors", "values.json", "manifest.json"])
@pytest.mark.parametrize("what", ["link", "fifo", "folder", "device"])
def test_only_regular_files_are_read(tmp_path, name, what):
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    file = folder / name
    outside = tmp_path / "outside"
    file.rename(outside)
    if what == "link":
        file.symlink_to(outside)
    elif what == "device":
        file.symlink_to("/dev/zero")
    elif what == "fifo":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(CheckpointError, match=r"is damaged: .*it is (a link|not a regular file)"):
        checkpoint.load_checkpoint(folder)


def test_a_file_of_another_size_is_not_read(tmp_path):
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    with open(folder / "agent.safetensors", "rb+") as out:
        out.truncate(1 << 40)  # a hole, which would fill the memory
    with pytest.raises(CheckpointError, match=r"is damaged: .*it has 1099511627776 bytes, not"):
        checkpoint.load_checkpoint(folder)


def test_a_checkpoint_is_a_folder_of_the_run(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    theirs = save_checkpoint(other, ARRAYS, VALUES)
    run.mkdir()
    (run / "00000007").symlink_to(theirs)
    with pytest.warns(RuntimeWarning, match="it is not a folder"), pytest.raises(CheckpointError):
        load_latest(run)
    (tmp_path / "linked").symlink_to(other)
    with pytest.raises(CheckpointError, match="is a link"):
        load_latest(tmp_path / "linked")


def test_names_with_other_digits_are_no_checkpoints(tmp_path):
    for name in ("\u00b2", "\u0663\u0663\u0663\u0663\u0663\u0663\u0663\u0663", "7", "000000007"):
        (tmp_path / name).mkdir()
    save_checkpoint(tmp_path, ARRAYS, VALUES)
    assert list_checkpoints(tmp_path) == [1]
    assert load_latest(tmp_path).values == VALUES
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load_checkpoint(tmp_path / "\u00b2")


def test_nested_json_is_damage(tmp_path):
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    (folder / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load_checkpoint(folder)
