"""Runs as real processes: on this machine, and through submitit and Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envgen.api import train
from envgen.cli.sweep import check_run
from envgen.runs.checkpoint import load_latest
from envgen.runs.store import read_progress
from envgen.sweep.engines.engine import Job, start_process
from envgen.sweep.engines.local import LocalEngine, available_cores, available_memory, memory_of
from envgen.sweep.grid import PlannedRun, SweepError
from envgen.sweep.runner import Sweep, open_runs

OPTIONS = {
    "world": "crafter", "designer": "none", "cycles": "2", "levels": "2", "cycle-steps": "512", "final-steps": "256",
    "feedback-groups": "2", "feedback-episodes": "2", "episodes": "3", "audit-steps": "0", "ppo.num-envs": "8",
    "ppo.num-steps": "16",
}  # fmt: skip
PLAN = {"cycles": 2, "levels": 2, "cycle_steps": 512, "final_steps": 256, "feedback_groups": 2, "feedback_episodes": 2,
        "episodes": 3, "audit_steps": 0}  # fmt: skip
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and sets the affinity of processes")
TIMEOUT = 900.0  # of a wait: much more than it takes, because machines are busy


class NoDisplay:
    def __init__(self, on_update=lambda: None):
        self.on_update = on_update

    def update(self, runs, run=None):
        self.on_update()

    def message(self, text): ...


def make_sweep(folder: Path, **options: str) -> Sweep:
    request = check_run(PlannedRun("run", "train", OPTIONS))
    return Sweep(folder, open_runs(folder, [PlannedRun("run", "train", {**OPTIONS, **options})], [request]))


def wait_for(condition) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def read_summary(folder: Path) -> dict:
    return {**json.loads((folder / "summary.json").read_text()), "seconds": None}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    train("crafter", "none", plan=PLAN, hyperparameters={"num_envs": 8, "num_steps": 16}, folder=folder, verbose=False)
    return folder


def kill_once(sweep: Sweep, find_process) -> NoDisplay:
    """A display that kills the process of the run once, after its first checkpoint."""
    killed = []

    def on_update():
        if not killed and list(sweep.runs[0].folder.glob("checkpoints/[0-9]*")):
            killed.append(find_process())
            os.kill(killed[0], signal.SIGKILL)

    return NoDisplay(on_update)


def process_of(folder: Path) -> int:
    """The process that has a run directory as its argument."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"-m" in words[1:3] and os.fsencode(folder) in words:  # after -P, if there is one
            return int(entry.name)
    raise AssertionError(f"no process works in {folder}")


@LINUX
def test_a_killed_run_is_resumed_from_its_checkpoint_with_the_same_result(tmp_path, uninterrupted, monkeypatch):
    monkeypatch.setattr("envgen.sweep.runner.DISPLAY_SECONDS", 0.0)
    monkeypatch.setattr("envgen.sweep.runner.POLL_SECONDS", 0.01)
    sweep, engine = make_sweep(tmp_path), LocalEngine(workers=1)
    assert sweep.run(engine, kill_once(sweep, lambda: engine.workers[0].process.pid))
    assert (sweep.runs[0].num_lost, sweep.runs[0].num_failures) == (1, 0)  # it had a checkpoint
    assert read_summary(tmp_path / "run") == read_summary(uninterrupted)
    resumed, expected = (load_latest(folder / "checkpoints") for folder in (tmp_path / "run", uninterrupted))
    assert resumed is not None
    assert expected is not None
    assert {name: array.tobytes() for name, array in resumed.arrays["agent"].items()} == {
        name: array.tobytes() for name, array in expected.arrays["agent"].items()
    }
    assert engine.peak_memory is not None
    assert engine.peak_memory > 50 << 20


def test_the_log_of_a_run_is_not_a_link(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "output.log").symlink_to(tmp_path / "other")
    with pytest.raises(SweepError, match="cannot start the run x"):
        start_process(Job("x", ("train",), tmp_path / "x", threads=1))
    assert not (tmp_path / "other").exists()


def test_ctrl_c_lets_runs_write_their_checkpoints(tmp_path):
    options = "--designer none --cycles 0 --final-steps 10000000 --ppo.num-envs 8 --seed 0,1 --workers 1 --folder out"
    command = [sys.executable, "-m", "envgen", "sweep", "crafter", *options.split()]
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    run = tmp_path / "out" / "seed=0"
    try:
        wait_for(lambda: process.poll() is not None or len(list(read_progress(run))) > 2)
        process.send_signal(signal.SIGINT)
        code = process.wait(TIMEOUT)
    finally:
        process.kill()
        process.wait()
        log.seek(0)
        output = log.read()
        log.close()
    assert code == 130, output
    assert "Repeat the command to continue." in output
    checkpoint = load_latest(run / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.values["progress_bytes"] == (run / "progress.jsonl").stat().st_size  # nothing is lost
    assert not (tmp_path / "out" / "seed=1").exists()


def test_a_run_has_the_working_directory_of_the_sweep(tmp_path):
    folder = tmp_path / "directory"
    job = Job("x", ("train", "my_world:World", "--folder", "y"), tmp_path / "x", cwd=folder)
    with pytest.raises(SweepError, match=f"its working directory {folder} does not exist on"):
        start_process(job)
    assert not job.folder.exists()
    folder.mkdir()
    (folder / "my_world.py").write_text("raise ImportError('the right module')")
    assert start_process(job).wait(TIMEOUT) != 0
    assert "the right module" in job.log_file.read_text()


@pytest.mark.parametrize("safe_path", [False, True])
def test_modules_of_the_current_directory_hide_others_only_if_they_do_so_in_the_sweep(tmp_path, monkeypatch, safe_path):
    (tmp_path / "gymnasium.py").write_text("raise ImportError('not the library')")
    monkeypatch.chdir(tmp_path)
    job = Job("x", ("--version",), tmp_path / "x", safe_path=safe_path)
    assert (start_process(job).wait(TIMEOUT) == 0) == safe_path
    assert ("not the library" in job.log_file.read_text()) != safe_path


@LINUX
def test_processes_have_their_cores_and_end_with_the_sweep(tmp_path):
    core = available_cores()[0]
    script = (
        "import os, sys, time; from pathlib import Path; from envgen.sweep.engines.engine import Job, start_process;"
        f"process = start_process(Job('x', ('bench', 'crafter'), Path({str(tmp_path)!r}), 1), [{core}]);"
        "print(process.pid, flush=True); time.sleep(600)"
    )
    sweep = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert sweep.stdout is not None
    pid = int(sweep.stdout.readline())
    wait_for(lambda: b"-m" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2])  # it has become the run
    assert os.sched_getaffinity(pid) == {core}
    sweep.kill()
    sweep.wait()
    sweep.stdout.close()
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def test_what_a_run_prints_is_its_log_and_its_last_error_the_reason(tmp_path):
    sweep = make_sweep(tmp_path, **{"ppo.gamma": "2"})
    sweep.retries = 0
    sweep.run(LocalEngine(workers=1), NoDisplay())
    assert sweep.runs[0].state == "failed"
    assert "gamma: Input should be less than or equal to 1 (got 2" in sweep.runs[0].reason


def test_threads_are_set_for_every_library(tmp_path, monkeypatch):
    environments = []
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kw: environments.append(kw["env"]))
    start_process(Job("x", ("train",), tmp_path / "x", threads=3, env={"A": "b"}))
    assert environments[0]["OMP_NUM_THREADS"] == environments[0]["NUMBA_NUM_THREADS"] == "3"
    assert environments[0]["A"] == "b"


def test_cores_are_divided_among_workers(monkeypatch):
    monkeypatch.setattr("envgen.sweep.engines.local.affinity", lambda: [0, 1, 2, 3, 4])
    assert [worker.cores for worker in LocalEngine(threads=2).workers] == [(0, 1), (2, 3)]
    for workers in (1, 4, 7):  # others may use the remaining cores
        assert [worker.cores for worker in LocalEngine(workers=workers).workers] == [()] * workers
    assert [worker.cores for worker in LocalEngine(num_runs=2).workers] == [()] * 2
    assert len(LocalEngine(num_runs=7).workers) == 5
    with pytest.raises(SweepError, match="threads is 6, but there are 5 cores"):
        LocalEngine(threads=6)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5")
    assert [worker.gpus for worker in LocalEngine(gpus=1).workers] == [("2",), ("3",), ("5",)]
    with pytest.raises(SweepError, match="gpus is 4, but 3 are visible"):
        LocalEngine(gpus=4)


def test_a_quota_of_time_pins_no_cores(tmp_path, monkeypatch):
    """Other containers with the same quota would be pinned to the same ones."""
    monkeypatch.setattr("envgen.sweep.engines.local.affinity", lambda: list(range(16)))
    monkeypatch.setattr("envgen.sweep.engines.local.CGROUP", tmp_path)
    (tmp_path / "cpu.max").write_text("200000 100000")
    assert available_cores() == [0, 1]
    assert [worker.cores for worker in LocalEngine().workers] == [()] * 2


def test_a_run_starts_only_if_its_memory_is_free(monkeypatch):
    monkeypatch.setattr("envgen.sweep.engines.local.available_cores", lambda: [0, 1, 2])
    memory = {"available": 100}
    monkeypatch.setattr("envgen.sweep.engines.local.available_memory", lambda: memory["available"])
    monkeypatch.setattr("envgen.sweep.engines.local.memory_of", lambda pid: (30, 50))
    engine = LocalEngine(peak_memory=50)
    assert engine.has_room()
    memory["available"] = 10
    assert engine.has_room()  # the first always starts
    engine.workers[0].process = type("Process", (), {"pid": 1})()  # needs 20 more than it uses
    memory["available"] = 69
    assert not engine.has_room()
    memory["available"] = 70
    assert engine.has_room()
    memory["available"] = None
    assert engine.has_room()


@LINUX
def test_memory_is_measured():
    current, peak = memory_of(os.getpid())
    assert 10 << 20 < current <= peak
    assert (available_memory() or 0) > 0
    assert memory_of(2**30) == (0, 0)


@LINUX
@pytest.mark.slow
def test_submitit_resumes_a_job_that_was_killed(tmp_path, uninterrupted, monkeypatch):
    pytest.importorskip("submitit")
    from envgen.sweep.engines.slurm import SubmititEngine

    monkeypatch.setattr("envgen.sweep.runner.DISPLAY_SECONDS", 0.0)
    sweep = make_sweep(tmp_path)
    engine = SubmititEngine(tmp_path, options={"cluster": "local", "timeout_min": 60})

    def kill_job():  # what Slurm does when a node fails: the job ends without a result
        (job,) = engine.jobs.values()
        return int(subprocess.check_output(["pgrep", "-P", job.job_id]).split()[0])

    assert sweep.run(engine, kill_once(sweep, kill_job))
    assert sweep.runs[0].num_lost == 1
    assert read_summary(tmp_path / "run") == read_summary(uninterrupted)


@LINUX
@pytest.mark.slow
def test_ray_resumes_a_run_whose_worker_was_killed(tmp_path, uninterrupted, monkeypatch):
    pytest.importorskip("ray")
    from envgen.sweep.engines.ray import RayEngine

    monkeypatch.setattr("envgen.sweep.runner.DISPLAY_SECONDS", 0.0)
    sweep = make_sweep(tmp_path)
    engine = RayEngine(options={"num_cpus": 1})

    def find_worker():
        status = Path(f"/proc/{process_of(tmp_path / 'run')}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("PPid")).split()[1])

    try:
        assert sweep.run(engine, kill_once(sweep, find_worker))
    finally:
        engine.close()
    assert sweep.runs[0].num_lost == 1
    assert read_summary(tmp_path / "run") == read_summary(uninterrupted)


@LINUX
@pytest.mark.slow
def test_ray_resumes_a_run_whose_node_was_lost_on_another_node(tmp_path, uninterrupted, monkeypatch):
    """Two nodes of a cluster on this machine: the one that trains is removed, then the other joins."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from envgen.sweep.engines.ray import RayEngine

    monkeypatch.setattr("envgen.sweep.runner.DISPLAY_SECONDS", 0.0)
    monkeypatch.setenv("RAY_worker_niceness", "0")
    sweep, lost = make_sweep(tmp_path), []
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    first = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    engine = RayEngine()

    def lose_node():
        if not lost and list(sweep.runs[0].folder.glob("checkpoints/[0-9]*")):
            lost.append(process_of(tmp_path / "run"))
            cluster.remove_node(first, allow_graceful=False)
            cluster.add_node(num_cpus=1)

    try:
        assert sweep.run(engine, NoDisplay(lose_node))
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert lost
    assert sweep.runs[0].num_lost == 1
    assert read_summary(tmp_path / "run") == read_summary(uninterrupted)
