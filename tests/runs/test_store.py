"""A run directory belongs to one process and one request, and its progress is cut back to the checkpoint."""

import json

import numpy as np
import pytest

from envgen.runs.checkpoint import CheckpointError
from envgen.runs.store import Run, RunError, read_progress

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
