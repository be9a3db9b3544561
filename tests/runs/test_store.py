"""A run directory belongs to one process and one request, and its progress is cut back to the checkpoint."""

import errno
import fcntl
import json
import os
import stat

import numpy as np
import pytest

import envgen
from envgen.coevolution.task_stores import TaskStore
from envgen.runs.checkpoint import CheckpointError, save_checkpoint
from envgen.runs.compare import compare
from envgen.runs.files import read_regular
from envgen.runs.store import FORMAT, Run, RunError, differences, read_progress, read_request
from envgen.settings import flatten

ARRAYS = {"agent": {"weights": np.zeros(3)}}


def test_run_json_holds_request_and_versions(tmp_path):
    with Run(tmp_path / "deep" / "run", {"steps": 5}):
        entry = json.loads((tmp_path / "deep" / "run" / "run.json").read_text())
    assert entry["format"] == FORMAT == 2
    assert entry["request"] == {"steps": 5}
    assert entry["versions"]["numpy"] == np.__version__
    assert entry["versions"]["envgen"] == envgen.__version__


def test_same_request_resumes_and_changed_values_are_named(tmp_path):
    request = {"plan": {"cycles": 4, "levels": 2}, "seed": 0}
    Run(tmp_path, request).close()
    Run(tmp_path, request).close()
    with pytest.raises(RunError, match=r"was started with plan\.cycles 4 \(now 8\); choose another directory"):
        Run(tmp_path, {**request, "plan": {"cycles": 8, "levels": 2}})
    with pytest.raises(
        RunError, match=r"started with plan\.cycles 4 \(now unset\), plan\.levels 2 \(now unset\), seed 0 \(now 1\);"
    ):
        Run(tmp_path, {"seed": 1})


def test_of_another_learner_only_the_name_is_named(tmp_path):
    request = {"learner": {"name": "ppo", "gamma": 0.95}, "seed": 0}
    Run(tmp_path, request).close()
    other = {"name": "distillation", "gamma": 0.99, "aux_epochs": 6}
    with pytest.raises(RunError, match=r"started with learner\.name 'ppo' \(now 'distillation'\), seed 0 \(now 1\);"):
        Run(tmp_path, {"learner": other, "seed": 1})


def test_differences_name_only_the_values_that_differ():
    before = {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": None}
    assert differences(before, before) == []
    assert differences(before, {"a": {"b": 1, "c": {"d": [1]}}}) == ["a.c.d [1, 2] (now [1])", "e None (now unset)"]
    assert differences({}, {"long": "x" * 500}) == [f"long unset (now '{'x' * 59})"]
    assert flatten({}) == {}
    assert flatten({"a": {}}) == {"a": {}}
    assert flatten(before) == {"a.b": 1, "a.c.d": [1, 2], "e": None}


def test_another_format_is_refused_and_the_old_one_names_the_command(tmp_path):
    Run(tmp_path, {}).close()
    entry = json.loads((tmp_path / "run.json").read_text())
    old = {name: value for name, value in entry.items() if name != "format"}
    for written, expected in ((old, f"envgen migrate {tmp_path}"), ({**entry, "format": 3}, "has the format 3")):
        (tmp_path / "run.json").write_text(json.dumps(written))
        with pytest.raises(RunError, match=expected):
            read_request(tmp_path)
        with pytest.raises(RunError, match=expected):
            Run(tmp_path, {})


def test_a_folder_of_other_runs_does_not_become_a_run(tmp_path):
    Run(tmp_path / "first", {}).close()
    with pytest.raises(RunError, match="holds other runs, such as first"):
        Run(tmp_path, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["first"]


# --- extension

EXTENDABLE = ("plan.cycles", "plan.steps")


def plan(cycles: int, steps: int, seed: int = 0) -> dict:
    return {"plan": {"cycles": cycles, "steps": steps}, "seed": seed}


def test_extension_updates_the_request_and_removes_the_results(tmp_path):
    with Run(tmp_path, plan(2, 100)) as run:
        run.write("summary", {})
        run.write("reference", {})
        assert run.extended_from == []
    with Run(tmp_path, plan(3, 100), extendable=EXTENDABLE, extend=True) as run:
        assert not run.has("summary")
        assert not run.has("reference")
        assert run.extended_from == [{"plan.cycles": 2, "plan.steps": 100}]
    assert read_request(tmp_path)[0] == plan(3, 100)
    with Run(tmp_path, plan(3, 100), extendable=EXTENDABLE, extend=True) as run:  # resumes
        assert len(run.extended_from) == 1
        run.write("summary", {})
    with Run(tmp_path, plan(3, 150), extendable=EXTENDABLE, extend=True) as run:
        assert run.extended_from[1:] == [{"plan.cycles": 3, "plan.steps": 100}]


@pytest.mark.parametrize("request_now", [plan(1, 100), plan(3, 50), plan(3, 100, seed=1), {**plan(3, 100), "new": 1}])
def test_extension_only_grows_the_numbers_it_may_grow(tmp_path, request_now):
    with Run(tmp_path, plan(2, 100)) as run:
        run.write("summary", {})
    with pytest.raises(RunError, match="was started with"):
        Run(tmp_path, request_now, extendable=EXTENDABLE, extend=True)
    assert (tmp_path / "summary.json").exists()


def test_results_of_the_shorter_run_are_kept_until_the_extension_is_recorded(tmp_path, monkeypatch):
    with Run(tmp_path, plan(2, 100)) as run:
        run.write("summary", {})
    with monkeypatch.context() as patch:
        patch.setattr("envgen.runs.store.os.replace", fail_with_full_disk)
        with pytest.raises(RunError, match="No space left"):
            Run(tmp_path, plan(3, 100), extendable=EXTENDABLE, extend=True)
    assert (tmp_path / "summary.json").exists()
    assert read_request(tmp_path)[0] == plan(2, 100)


def test_results_of_the_shorter_run_are_not_used_after_an_interrupted_extension(tmp_path, monkeypatch):
    with Run(tmp_path, plan(2, 100)) as run:
        run.write("summary", {})
    with monkeypatch.context() as patch:
        patch.setattr(Run, "_remove_old_results", fail_with_full_disk)
        with pytest.raises(OSError, match="No space left"):
            Run(tmp_path, plan(3, 100), extendable=EXTENDABLE, extend=True)
    with Run(tmp_path, plan(3, 100), extendable=EXTENDABLE) as run:
        assert run.extended_from == [{"plan.cycles": 2, "plan.steps": 100}]
        assert not run.has("summary")
        run.write("summary", {})
    with Run(tmp_path, plan(3, 100), extendable=EXTENDABLE) as run:
        assert run.has("summary")


def fail_with_full_disk(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_runtime_options_of_the_last_start_are_stored(tmp_path):
    Run(tmp_path, {"seed": 0}, runtime_options={"max_calls": 2}).close()
    with Run(tmp_path, {"seed": 0}, runtime_options={"max_calls": 50, "timeout": 900.0}):
        assert read_request(tmp_path) == ({"seed": 0}, {"max_calls": 50, "timeout": 900.0})


def test_a_run_that_does_not_exist_cannot_be_extended(tmp_path):
    with pytest.raises(RunError, match="missing has no run to extend"):
        Run(tmp_path / "missing", plan(3, 100), extendable=EXTENDABLE, extend=True)
    assert not (tmp_path / "missing").exists()


def test_unfinished_run_cannot_be_extended(tmp_path):
    Run(tmp_path, plan(2, 100)).close()
    with pytest.raises(RunError, match="is not finished; resume it"):
        Run(tmp_path, plan(3, 100), extendable=EXTENDABLE, extend=True)
    assert read_request(tmp_path)[0] == plan(2, 100)


# --- files


def test_two_processes_cannot_use_one_run(tmp_path):
    with Run(tmp_path, {}), pytest.raises(RunError, match="another process is using"):
        Run(tmp_path, {})
    Run(tmp_path, {}).close()


def test_directory_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot create the run directory"):
        Run(tmp_path / "file" / "run", {})


def test_progress_after_the_checkpoint_is_removed(tmp_path):
    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
        run.save(ARRAYS, {"steps": 1})
        run.log({"steps": 2})
    with Run(tmp_path, {}) as run:
        assert run.resume().values["steps"] == 1
        assert list(read_progress(tmp_path)) == [{"steps": 1}]


def test_progress_without_a_checkpoint_is_removed(tmp_path):
    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
    with Run(tmp_path, {}) as run:
        assert run.resume() is None
        assert list(read_progress(tmp_path)) == []


def test_progress_shorter_than_its_checkpoint_is_an_error(tmp_path):
    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
        run.save(ARRAYS, {})
        (tmp_path / "progress.jsonl").write_text("")
        with pytest.raises(CheckpointError, match="shorter than when checkpoint 1 was written"):
            run.resume()


def test_incomplete_last_line_is_not_read(tmp_path):
    (tmp_path / "progress.jsonl").write_text('{"steps": 1}\n{"st')
    assert list(read_progress(tmp_path)) == [{"steps": 1}]


def test_results_are_written_atomically_and_read_back(tmp_path):
    with Run(tmp_path, {}) as run:
        run.write("result", {"score": 1.5})
        assert run.read("result") == {"score": 1.5}
        assert not list(tmp_path.glob(".*unfinished"))
        with pytest.raises(RunError, match="cannot read"):
            run.read("nothing")


@pytest.fixture(params=["link", "dangling link", "device", "fifo"])
def irregular_file(request, tmp_path_factory):
    """A function that replaces a file by something that is not a regular file; returns the target of the link."""
    outside = tmp_path_factory.mktemp("outside") / "file"

    def replace(file):
        file.unlink(missing_ok=True)
        if request.param == "fifo":
            os.mkfifo(file)
        elif request.param == "device":
            file.symlink_to("/dev/zero")
        else:
            file.symlink_to(outside)
            if request.param == "link":
                outside.write_text('{"request": {}}\n')
        return outside

    return replace


def _is_unchanged(outside) -> bool:
    return not outside.exists() or outside.read_text() == '{"request": {}}\n'


def test_a_file_system_without_a_lock_daemon_has_no_locks(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    Run(tmp_path, {}).close()


def test_files_are_flushed_while_they_are_open_for_writing(tmp_path, monkeypatch):
    """Windows refuses to flush others."""

    def fsync(descriptor):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        assert flags & os.O_ACCMODE != os.O_RDONLY or stat.S_ISDIR(os.fstat(descriptor).st_mode)

    monkeypatch.setattr(os, "fsync", fsync)
    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
        run.save(ARRAYS, {})
    store = TaskStore(tmp_path / "tasks.jsonl")
    store.add([{"name": "a"}], key=lambda record: record["name"])
    assert store.flush() > 0


def test_run_reads_only_regular_files(tmp_path, irregular_file):
    outside = irregular_file(tmp_path / "run.json")
    with pytest.raises(RunError, match=r"cannot read .*it is (a symbolic link|not a regular file)"):
        read_request(tmp_path)
    with pytest.raises(RunError, match="cannot read"):
        Run(tmp_path, {})
    irregular_file(tmp_path / "summary.json")
    with pytest.raises(RunError, match="cannot read"):
        Run(tmp_path, {}, is_main=False).read("summary")
    irregular_file(tmp_path / "progress.jsonl")
    with pytest.raises(RunError, match="cannot open"):
        list(read_progress(tmp_path))
    assert _is_unchanged(outside)


def test_run_writes_to_no_file_outside(tmp_path, irregular_file):
    with Run(tmp_path, {}) as run:
        outside = irregular_file(tmp_path / "progress.jsonl")
        with pytest.raises(RunError, match="cannot write"):
            run.log({"steps": 1})
        with pytest.raises(RunError, match="cannot write"):
            run.save(ARRAYS, {})
        with pytest.raises(RunError, match="cannot open"):
            run.resume()
        irregular_file(tmp_path / ".result.json.unfinished")
        irregular_file(tmp_path / "result.json")
        run.write("result", {"score": 1})
        assert run.read("result") == {"score": 1}
    irregular_file(tmp_path / "lock")
    with pytest.raises(RunError, match="cannot lock the run directory"):
        Run(tmp_path, {})
    assert _is_unchanged(outside)


def test_linked_folder_that_leads_outside_is_refused(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (outside / "levels.json").write_text("{}")
    with Run(run, {}) as run_dir:
        (run / "cycles").symlink_to(outside)
        with pytest.raises(RunError, match="is outside"):
            run_dir.read("cycles/levels")
        with pytest.raises(RunError, match="is outside"):
            run_dir.write("cycles/levels", {"score": 1})
    assert (outside / "levels.json").read_text() == "{}"


def test_run_directory_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with Run(tmp_path / "run", {}) as run:
        run.write("cycles/1", [1])
        assert run.read("cycles/1") == [1]


# --- damage


def start_run(folder) -> None:
    with Run(folder, {}) as run:
        run.log({"steps": 1})
        run.save(ARRAYS, {"steps": 1})


def resume(folder):
    with Run(folder, {}) as run:
        return run.resume()


def test_missing_progress_is_noticed(tmp_path):
    start_run(tmp_path)
    (tmp_path / "progress.jsonl").unlink()
    with pytest.raises(CheckpointError, match=r"progress\.jsonl, which checkpoint 1 refers to, is missing; restore"):
        resume(tmp_path)


def test_a_run_that_saved_before_any_progress_needs_none(tmp_path):
    with Run(tmp_path, {}) as run:
        run.save(ARRAYS, {})
    assert resume(tmp_path).number == 1


def test_changed_progress_is_noticed(tmp_path):
    start_run(tmp_path)
    changed = '{"steps": 2}\n{"steps": 3}\n'
    (tmp_path / "progress.jsonl").write_text(changed)
    with pytest.raises(CheckpointError, match=r"progress\.jsonl has changed since checkpoint 1 was written; restore"):
        resume(tmp_path)
    assert (tmp_path / "progress.jsonl").read_text() == changed


@pytest.mark.parametrize("length", [None, -1, "5", 1.5, True])
def test_a_checkpoint_with_an_impossible_length_is_refused(tmp_path, length):
    start_run(tmp_path)
    save_checkpoint(tmp_path / "checkpoints", ARRAYS, {"progress_bytes": length})
    with pytest.raises(CheckpointError, match=r"does not hold the length of progress\.jsonl"):
        resume(tmp_path)


def test_runs_of_earlier_versions_have_no_checksum(tmp_path):
    start_run(tmp_path)
    save_checkpoint(tmp_path / "checkpoints", ARRAYS, {"progress_bytes": 13})
    assert resume(tmp_path).number == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{oops", "is damaged"),
        (b"\xff\xfe\x00", "is damaged"),
        (b"[" * 100_000, "is damaged: it is nested too deeply"),
        (b'{"a": ' + b"[" * 90 + b"]" * 90 + b"}", "is damaged: it is nested deeper than 64 levels"),
        (b"9" * 5000, "is damaged"),
        (b"[1]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
    ],
)
def test_a_damaged_progress_line_is_named(tmp_path, line, message):
    (tmp_path / "progress.jsonl").write_bytes(b'{"steps": 1}\n' + line + b"\n")
    with pytest.raises(RunError, match=f"line 2 of .* {message}"):
        list(read_progress(tmp_path))


def test_a_line_without_end_is_not_read_into_memory(tmp_path):
    with open(tmp_path / "progress.jsonl", "wb") as out:
        out.truncate(1 << 40)
    with pytest.raises(RunError, match=r"line 1 of .* is longer than"):
        list(read_progress(tmp_path))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"request": ' + "[" * 90 + "]" * 90 + "}", "\ufeff", "{", "9" * 5000])
def test_unreadable_json_is_an_error_with_its_file(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    for read in (lambda: read_request(tmp_path), lambda: Run(tmp_path, {}), lambda: compare([tmp_path])):
        with pytest.raises(RunError, match=r"cannot read .*run\.json"):
            read()


def test_an_oversized_file_is_not_read(tmp_path):
    with open(tmp_path / "run.json", "wb") as out:
        out.truncate(1 << 40)
    with pytest.raises(RunError, match="it has 1,099,511,627,776 bytes, but at most 67,108,864 are read"):
        read_request(tmp_path)
    with pytest.raises(OSError, match="1,099,511,627,776 bytes"):
        read_regular(tmp_path / "run.json")  # more than half of any memory


@pytest.mark.parametrize("request_value", [3, None, [], {"cycles": "many"}, {"cycles": 1e999}, {"cycles": True}])
def test_an_extension_of_a_damaged_request_is_refused(tmp_path, request_value):
    with Run(tmp_path, {"plan": request_value}) as run:
        run.write("summary", {})
    with pytest.raises(RunError, match="was started with"):
        Run(tmp_path, {"plan": {"cycles": 5}}, extendable=("plan.cycles",), extend=True)


@pytest.mark.parametrize("value", [3, {}, ["plan"], [{"plan.cycles": "4"}], [{"plan.cycles": True}], None])
def test_damaged_extensions_are_refused(tmp_path, value):
    with Run(tmp_path, {}) as run:
        run.write("run", {**run.read("run"), "extended_from": value})
        with pytest.raises(RunError, match=r"extended_from in .* is not a list of old values"):
            _ = run.extended_from


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(RunError, match="No space left on device"):
            run.save(ARRAYS, {})
