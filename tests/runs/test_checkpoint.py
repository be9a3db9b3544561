"""Checkpoints are written atomically, damage is detected, and a failed write leaves earlier ones intact."""

import json
import os
import resource
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from envgen.runs import checkpoint
from envgen.runs.checkpoint import CheckpointError, list_checkpoints, load_latest, save_checkpoint

ARRAYS = {"agent": {"weights": np.arange(5000, dtype=np.float32), "step": np.array(7.0, np.float32)}}
VALUES = {"steps": 12, "random": {"state": 2**100}}


def test_save_and_load_round_trip(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, VALUES)
    number, arrays, values = load_latest(tmp_path)
    assert (number, values) == (1, VALUES)
    for name, array in ARRAYS["agent"].items():
        np.testing.assert_array_equal(arrays["agent"][name], array)
        assert arrays["agent"][name].shape == array.shape
        assert arrays["agent"][name].dtype == array.dtype


def test_large_groups_are_not_in_memory_together(tmp_path, monkeypatch):
    """Each group is on disk before the next one is serialized, and is parsed before the next one is read."""
    events = []

    def record(module, name, describe):
        function = getattr(module, name)

        def call(*args, **options):
            events.append(describe(args[0]))
            return function(*args, **options)

        monkeypatch.setattr(module, name, call)

    record(safetensors.numpy, "save", lambda arrays: "serialize")
    record(safetensors.numpy, "load", lambda data: "parse")
    record(checkpoint, "write_flushed", lambda file: f"write {file.suffix}")
    record(checkpoint, "read_regular", lambda file: f"read {file.suffix}")
    save_checkpoint(tmp_path, {"agent": ARRAYS["agent"], "proposer": ARRAYS["agent"]}, VALUES)
    load_latest(tmp_path)
    assert [event for event in events if "json" not in event] == [
        *["serialize", "write .safetensors"] * 2, *["read .safetensors", "parse"] * 2
    ]  # fmt: skip


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    for steps in range(5):
        save_checkpoint(tmp_path, ARRAYS, {"steps": steps})
    assert list_checkpoints(tmp_path) == [4, 5]
    assert load_latest(tmp_path).values == {"steps": 4}


def test_load_latest_returns_none_without_a_checkpoint(tmp_path):
    assert load_latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", ["agent.safetensors", "values.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["changed", "truncated", "removed"])
def test_damaged_checkpoint_is_skipped_with_a_warning(tmp_path, name, damage):
    save_checkpoint(tmp_path, ARRAYS, {"steps": 1})
    file = save_checkpoint(tmp_path, ARRAYS, {"steps": 2}) / name
    data = bytearray(file.read_bytes())
    if damage == "removed":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="00000002 is damaged.*the previous checkpoint"):
        assert load_latest(tmp_path).values == {"steps": 1}


def test_run_does_not_start_over_if_every_checkpoint_is_damaged(tmp_path):
    (save_checkpoint(tmp_path, ARRAYS, VALUES) / "values.json").write_text("{}")
    with pytest.warns(RuntimeWarning), pytest.raises(CheckpointError, match=r"every checkpoint .* is damaged"):
        load_latest(tmp_path)


def test_damaged_checkpoints_are_removed_before_intact_ones(tmp_path):
    for steps in range(3):
        save_checkpoint(tmp_path, ARRAYS, {"steps": steps})
    (tmp_path / "00000003" / "values.json").write_text("{}")
    with pytest.warns(RuntimeWarning, match="trying the previous checkpoint"):
        latest = load_latest(tmp_path)
    save_checkpoint(tmp_path, ARRAYS, {"steps": 4}, latest.number)
    assert list_checkpoints(tmp_path) == [2, 4]


def test_unfinished_checkpoint_is_ignored_and_removed(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, {"steps": 1})
    unfinished = tmp_path / f"{checkpoint.TEMP_PREFIX}00000002"
    unfinished.mkdir()
    (unfinished / "agent.safetensors").write_bytes(b"half")
    assert load_latest(tmp_path).values == {"steps": 1}
    save_checkpoint(tmp_path, ARRAYS, {"steps": 2})
    assert not unfinished.exists()
    assert load_latest(tmp_path).values == {"steps": 2}


def test_full_disk_leaves_earlier_checkpoints_intact(tmp_path):
    """A limit of 4 KB per file makes the system refuse to write, as a full disk does."""
    save_checkpoint(tmp_path, ARRAYS, {"steps": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(CheckpointError, match=r"cannot write checkpoint 2 .*; checkpoint 1 is intact"):
            save_checkpoint(tmp_path, ARRAYS, {"steps": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000001"]
    assert load_latest(tmp_path).values == {"steps": 1}


def test_manifest_lists_every_file_with_its_checksum(tmp_path):
    folder: Path = save_checkpoint(tmp_path, ARRAYS, VALUES)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest.keys() == {"agent.safetensors", "values.json"}
    assert all(len(entry["sha256"]) == 64 for entry in manifest.values())


def _edit_manifest(folder: Path, edit) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    edit(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "name", ["/dev/zero", "../outside", "..", ".", "", "manifest.json", "a/b", "a\\b", "c:", "a\0b"]
)
def test_only_plain_file_names_are_read(tmp_path, name):
    (tmp_path / "outside").write_bytes(b"")
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    _edit_manifest(folder, lambda manifest: manifest.update({name: {"bytes": 0, "sha256": "0" * 64}}))
    with pytest.raises(CheckpointError, match=r"is damaged: manifest\.json names"):
        checkpoint.load_checkpoint(folder)


@pytest.mark.parametrize("name", ["agent.safetensors", "values.json", "manifest.json"])
@pytest.mark.parametrize("file_type", ["link", "fifo", "directory", "device"])
def test_only_regular_files_are_read(tmp_path, name, file_type):
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    file = folder / name
    outside = tmp_path / "outside"
    file.rename(outside)
    if file_type == "link":
        file.symlink_to(outside)
    elif file_type == "device":
        file.symlink_to("/dev/zero")
    elif file_type == "fifo":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(CheckpointError, match=r"is damaged: .*it is (a symbolic link|not a regular file)"):
        checkpoint.load_checkpoint(folder)


def test_file_of_another_size_is_not_read(tmp_path):
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    with open(folder / "agent.safetensors", "rb+") as stream:
        stream.truncate(1 << 40)  # a sparse file, which would fill the memory
    with pytest.raises(CheckpointError, match=r"is damaged: .*it has 1099511627776 bytes, not"):
        checkpoint.load_checkpoint(folder)


def test_names_in_a_manifest_cannot_control_the_terminal(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, VALUES)
    manifest = save_checkpoint(tmp_path, ARRAYS, VALUES) / "manifest.json"
    manifest.write_text(json.dumps({"\x1b]0;title\x07": {"bytes": 1, "sha256": ""}}))
    with pytest.warns(RuntimeWarning, match="]0;title") as warnings:
        assert load_latest(tmp_path).number == 1
    assert str(warnings[0].message).isprintable()


def test_linked_checkpoints_are_refused(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    other_checkpoint = save_checkpoint(other, ARRAYS, VALUES)
    run.mkdir()
    (run / "00000007").symlink_to(other_checkpoint)
    with pytest.warns(RuntimeWarning, match="it is not a directory"), pytest.raises(CheckpointError):
        load_latest(run)
    (tmp_path / "linked").symlink_to(other)
    with pytest.raises(CheckpointError, match="is a symbolic link"):
        load_latest(tmp_path / "linked")


def test_names_with_other_digits_are_not_checkpoints(tmp_path):
    for name in ("\u00b2", "\u0663\u0663\u0663\u0663\u0663\u0663\u0663\u0663", "7", "000000007"):
        (tmp_path / name).mkdir()
    save_checkpoint(tmp_path, ARRAYS, VALUES)
    assert list_checkpoints(tmp_path) == [1]
    assert load_latest(tmp_path).values == VALUES
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load_checkpoint(tmp_path / "\u00b2")


def test_deeply_nested_json_counts_as_damage(tmp_path):
    folder = save_checkpoint(tmp_path, ARRAYS, VALUES)
    (folder / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load_checkpoint(folder)


def test_values_that_could_not_be_read_again_are_not_written(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, {}, {"levels": []})
    monkeypatch.setattr("envgen.runs.checkpoint.MAX_JSON_BYTES", 1 << 20)
    with pytest.raises(CheckpointError, match=r"has 2 MiB of JSON, .* at most 1; .* lower its buffer_size"):
        save_checkpoint(tmp_path, {}, {"levels": ["x" * 1000] * 2200})
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000001"]
