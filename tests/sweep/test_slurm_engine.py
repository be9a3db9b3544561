"""The states of Slurm jobs, with commands in place of Slurm's that read and write files."""

import os
import signal
import subprocess
import threading
import time

import cloudpickle
import pytest

from envgen.sweep.engines import engine as engines
from envgen.sweep.engines.engine import EngineBusyError, Job
from envgen.sweep.grid import SweepError

pytest.importorskip("submitit")
from envgen.sweep.engines import slurm
from envgen.sweep.engines.slurm import SlurmJob, SubmititEngine

SBATCH = """
if [ -e refusal ]; then cat refusal >&2; exit 1; fi
id=$((100 + $(ls state.* 2> /dev/null | wc -l)))
echo RUNNING > state.$id
env > environment
echo "Submitted batch job $id"
"""
SACCT = """
echo "JobID|State|NodeList"
for file in state.*; do echo "${file#state.}|$(cat $file)|node1"; done
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The folder with the states of all jobs."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    for name, script in {"sbatch": SBATCH, "sacct": SACCT, "srun": "", "scancel": "echo CANCELLED > state.$1"}.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 0.05)
    monkeypatch.setattr(slurm, "REQUEUE_SECONDS", 0.3)
    return folder


@pytest.fixture
def engine(tmp_path, cluster):
    return SubmititEngine(tmp_path / "sweep")


def make_job(tmp_path, name="seed=0"):
    return Job(name, (), tmp_path / name)


def poll(engine, cluster, state, seconds=0.1):
    """The ends of jobs within some seconds after the only job has another state."""
    (cluster / "state.100").write_text(state)
    engine.watcher.update()
    ends, deadline = [], time.monotonic() + seconds
    while not ends and time.monotonic() < deadline:
        ends += engine.poll()
        time.sleep(0.01)
    return ends


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "a new state"])
def test_a_job_that_may_go_on_has_not_ended(engine, cluster, tmp_path, state):
    engine.start(make_job(tmp_path))
    assert poll(engine, cluster, state) == []
    assert [end.code for end in poll(engine, cluster, "NODE_FAIL", 5)] == [None]


@pytest.mark.parametrize("state", ["CANCELLED by 1000", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"])
def test_a_job_without_result_is_lost(engine, cluster, tmp_path, state):
    engine.start(make_job(tmp_path))
    (end,) = poll(engine, cluster, state, 5)
    assert end == ("seed=0", None, f"the job 100 ended with the state {state}")
    assert engine.poll() == []


def test_a_preempted_job_is_lost_unless_it_is_put_back_into_the_queue(engine, cluster, tmp_path):
    engine.start(make_job(tmp_path))
    assert poll(engine, cluster, "PREEMPTED", 0.1) == []
    assert poll(engine, cluster, "PENDING", 0.4) == []
    assert poll(engine, cluster, "PREEMPTED", 0.1) == []
    (end,) = poll(engine, cluster, "PREEMPTED", 5)
    assert end.reason == "the job 100 ended with the state PREEMPTED"


@pytest.mark.parametrize("code", [0, 2])
def test_the_exit_code_is_read_from_the_result(engine, cluster, tmp_path, code):
    engine.start(make_job(tmp_path))
    engine.jobs["seed=0"].paths.result_pickle.write_bytes(cloudpickle.dumps(("success", code)))
    assert poll(engine, cluster, "COMPLETED", 5) == [("seed=0", code, "")]


def test_an_error_of_a_job_is_named_with_its_log(engine, cluster, tmp_path):
    engine.start(make_job(tmp_path))
    paths = engine.jobs["seed=0"].paths
    paths.stderr.write_text("Traceback ...\nslurmstepd: error: *** STEP CANCELLED ***\n\n")
    (end,) = poll(engine, cluster, "FAILED", 5)
    ending = f"(its log, {paths.stderr}, ends with: slurmstepd: error: *** STEP CANCELLED ***)"
    assert end.reason == f"the job 100 ended with the state FAILED {ending}"
    engine.start(make_job(tmp_path, "seed=1"))
    paths = engine.jobs["seed=1"].paths
    paths.result_pickle.write_bytes(cloudpickle.dumps(("error", "Traceback ...\nModuleNotFoundError: no envgen\n")))
    (end,) = engine.poll()
    assert (end.code, end.reason) == (None, "the job 101 failed: ModuleNotFoundError: no envgen")


def test_an_interruption_cancels_all_jobs_without_waiting(engine, cluster, tmp_path):
    for seed in range(3):
        engine.start(make_job(tmp_path, f"seed={seed}"))
    start = time.monotonic()
    engine.interrupt()
    ends = []
    while len(ends) < 3 and time.monotonic() - start < 20:
        ends += engine.poll()
        time.sleep(0.01)
    assert {end.reason.rpartition(" ")[2] for end in ends} == {"CANCELLED"}
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", EngineBusyError),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit", EngineBusyError),
        ("sbatch: error: invalid partition specified: cpu", SweepError),
        ("sbatch: error: Requested time limit is invalid (missing or exceeds some limit)", SweepError),
    ],
)
def test_a_scheduler_that_is_busy_is_told_from_a_wrong_option(engine, cluster, tmp_path, reply, kind):
    (cluster / "refusal").write_text(reply)
    with pytest.raises(SweepError, match=r"the run seed=0 cannot be submitted: .*sbatch: error") as caught:
        engine.start(make_job(tmp_path))
    assert type(caught.value) is kind


@pytest.mark.parametrize("is_job", [False, True])
def test_a_sweep_that_is_a_job_itself_passes_on_none_of_its_variables(engine, cluster, tmp_path, monkeypatch, is_job):
    variables = {"SLURM_MEM_PER_CPU": "4000", "SLURM_CPU_BIND": "mask_cpu:0x1", "SLURM_CONF": "/etc/slurm.conf"}
    variables |= {"SLURM_JOB_ID": "55"} if is_job else {}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    engine.start(make_job(tmp_path))
    passed = {line.partition("=")[0] for line in (cluster / "environment").read_text().splitlines()}
    assert passed & variables.keys() == ({"SLURM_CONF"} if is_job else variables.keys())
    assert {name: os.environ[name] for name in variables} == variables


def test_sigterm_reaches_the_run(tmp_path, monkeypatch):
    """submitit ignores it in the process of the job."""
    processes = []

    def start_process(job):
        processes.append(subprocess.Popen(["sleep", "60"]))
        return processes[0]

    def send():
        while not processes:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(engines, "start_process", start_process)
    threading.Thread(target=send).start()
    assert SlurmJob()(make_job(tmp_path)) == -signal.SIGTERM
