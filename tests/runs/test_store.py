"""A run directory belongs to one process and one request, and its progress is cut back to the checkpoint."""

import json
import os

import numpy as np
import pytest

from envgen.runs.checkpoint import CheckpointError
from envgen.runs.store import Run, RunError, read_progress, read_request

ARRAYS = {"agent": {"weights": np.zeros(3)}}


def test_a_run_says_what_was_asked_and_with_which_versions(tmp_path):
    with Run(tmp_path / "deep" / "run", {"steps": 5}):
        about = json.loads((tmp_path / "deep" / "run" / "run.json").read_text())
    assert about["request"] == {"steps": 5}
    assert about["versions"]["numpy"] == np.__version__


def test_the_same_request_goes_on_and_another_is_refused_by_name(tmp_path):
    Run(tmp_path, {"steps": 5, "seed": 0}).close()
    Run(tmp_path, {"steps": 5, "seed": 0}).close()
    with pytest.raises(RunError, match=r"was begun with seed 0 \(now 1\)"):
        Run(tmp_path, {"steps": 5, "seed": 1})


def test_two_processes_cannot_work_in_one_run(tmp_path):
    with Run(tmp_path, {}), pytest.raises(RunError, match="another process is working"):
        Run(tmp_path, {})
    Run(tmp_path, {}).close()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot make the run directory"):
        Run(tmp_path / "file" / "run", {})


def test_progress_beyond_the_checkpoint_is_forgotten(tmp_path):
    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
        run.save(ARRAYS, {"steps": 1})
        run.log({"steps": 2})
    with Run(tmp_path, {}) as run:
        assert run.resume().values["steps"] == 1
        assert list(read_progress(tmp_path)) == [{"steps": 1}]


def test_progress_before_the_first_checkpoint_is_forgotten_too(tmp_path):
    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
    with Run(tmp_path, {}) as run:
        assert run.resume() is None
        assert list(read_progress(tmp_path)) == []


def test_progress_that_is_shorter_than_its_checkpoint_is_an_error(tmp_path):
    with Run(tmp_path, {}) as run:
        run.log({"steps": 1})
        run.save(ARRAYS, {})
        (tmp_path / "progress.jsonl").write_text("")
        with pytest.raises(CheckpointError, match="shorter than checkpoint 1"):
            run.resume()


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path):
    (tmp_path / "progress.jsonl").write_text('{"steps": 1}\n{"st')
    assert list(read_progress(tmp_path)) == [{"steps": 1}]


def test_results_are_written_whole_and_read_back(tmp_path):
    with Run(tmp_path, {}) as run:
        run.write("result", {"score": 1.5})
        assert run.read("result") == {"score": 1.5}
        assert not list(tmp_path.glob(".*unfinished"))
        with pytest.raises(RunError, match="cannot read"):
            run.read("nothing")


@pytest.fixture(params=["link", "dangling link", "device", "fifo"])
def odd(request, tmp_path_factory):
    """Puts something that is no regular file in a file's place; returns the file it links to, if it does."""
    outside = tmp_path_factory.mktemp("outside") / "file"

    def put(file):
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

    return put


def _untouched(outside) -> bool:
    return not outside.exists() or outside.read_text() == '{"request": {}}\n'


def test_a_run_reads_regular_files_alone(tmp_path, odd):
    outside = odd(tmp_path / "run.json")
    with pytest.raises(RunError, match=r"cannot read .*it is (a link|not a regular file)"):
        read_request(tmp_path)
    with pytest.raises(RunError, match="cannot read"):
        Run(tmp_path, {})
    odd(tmp_path / "summary.json")
    with pytest.raises(RunError, match="cannot read"):
        Run(tmp_path, {}, is_main=False).read("summary")
    odd(tmp_path / "progress.jsonl")
    with pytest.raises(RunError, match="cannot open"):
        list(read_progress(tmp_path))
    assert _untouched(outside)


def test_a_run_writes_to_no_file_outside(tmp_path, odd):
    with Run(tmp_path, {}) as run:
        outside = odd(tmp_path / "progress.jsonl")
        with pytest.raises(RunError, match="cannot write"):
            run.log({"steps": 1})
        with pytest.raises(RunError, match="cannot open"):
            run.save(ARRAYS, {})
        with pytest.raises(RunError, match="cannot open"):
            run.resume()
        odd(tmp_path / ".result.json.unfinished")
        odd(tmp_path / "result.json")
        run.write("result", {"score": 1})
        assert run.read("result") == {"score": 1}
    odd(tmp_path / "lock")
    with pytest.raises(RunError, match="cannot make the run directory"):
        Run(tmp_path, {})
    assert _untouched(outside)


def test_folders_of_a_run_do_not_lead_out_of_it(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (outside / "levels.json").write_text("{}")
    with Run(run, {}) as opened:
        (run / "cycles").symlink_to(outside)
        with pytest.raises(RunError, match="is outside"):
            opened.read("cycles/levels")
        with pytest.raises(RunError, match="is outside"):
            opened.write("cycles/levels", {"score": 1})
    assert (outside / "levels.json").read_text() == "{}"


def test_a_run_directory_may_itself_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with Run(tmp_path / "run", {}) as run:
        run.write("cycles/1", [1])
        assert run.read("cycles/1") == [1]
