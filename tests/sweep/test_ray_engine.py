"""The Ray engine with a module in place of Ray that records its calls and executes tasks in this process."""

import importlib
import logging
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from envgen.sweep.engines import engine as engines
from envgen.sweep.engines.engine import Job
from envgen.sweep.grid import SweepError

NODE = {"CPU": 1.0, "memory": 4e9}


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(f"ray::_run()\n{cause!r}")
        self.cause = cause


class WorkerCrashedError(RayError):
    def __str__(self):
        return "The worker died unexpectedly.\nCheck its log."


class TaskCancelledError(RayError):
    pass


class FakeRay(ModuleType):
    """A cluster with the given nodes."""

    ObjectRef = object

    def __init__(self):
        super().__init__("ray")
        self.resources, self.started, self.options, self.result = [NODE], None, None, None

    def is_initialized(self):
        return self.started is not None

    def init(self, address, **options):
        self.started = {"address": address, **options}

    def shutdown(self):
        self.started = None

    def nodes(self):
        dead = {"Alive": False, "Resources": {"CPU": 64.0, "memory": 1e12}}
        return [dead, *({"Alive": True, "Resources": resources} for resources in self.resources)]

    def remote(self, **options):
        self.options = options
        return lambda function: SimpleNamespace(options=lambda name: SimpleNamespace(remote=function))

    def wait(self, tasks, num_returns, timeout):
        return tasks, []

    def get(self, task):
        if isinstance(self.result, BaseException):
            raise self.result
        return task


@pytest.fixture
def ray(monkeypatch):
    fake, exceptions = FakeRay(), ModuleType("ray.exceptions")
    exceptions.RayError, exceptions.RayTaskError = RayError, RayTaskError
    for name in list(os.environ):
        if name.startswith("RAY_"):
            monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
    monkeypatch.delitem(sys.modules, "envgen.sweep.engines.ray", raising=False)
    variables = dict(os.environ)
    yield fake
    sys.modules.pop("envgen.sweep.engines.ray", None)
    for name in set(os.environ) - set(variables):
        del os.environ[name]


def make_engine(ray, **arguments):
    return importlib.import_module("envgen.sweep.engines.ray").RayEngine(**arguments)


def end_of(ray, tmp_path, monkeypatch, result):
    """How a job ends whose task has the given result."""
    monkeypatch.setattr(engines.JobProcess, "__call__", lambda self, job: 0)
    engine, ray.result = make_engine(ray), result
    engine.start(Job("seed=0", (), tmp_path))
    (end,) = engine.poll()
    return end


def test_without_an_address_ray_starts_on_this_machine(ray):
    make_engine(ray, options={"num_cpus": 2})
    assert (ray.started["address"], ray.started["num_cpus"]) == ("local", 2)
    assert ray.started["logging_level"] == logging.WARNING
    names = ("RAY_worker_niceness", "RAY_kill_child_processes_on_worker_exit", "RAY_ENABLE_UV_RUN_RUNTIME_ENV")
    assert dict.fromkeys(names, "0").items() <= os.environ.items()


def test_the_variables_of_the_user_decide(ray, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://host:10001")
    monkeypatch.setenv("RAY_worker_niceness", "5")
    make_engine(ray)
    assert ray.started["address"] == "ray://host:10001"
    assert ("RAY_worker_niceness", "5") in os.environ.items()
    ray.shutdown()
    make_engine(ray, options={"address": "auto"})
    assert ray.started["address"] == "auto"


def test_each_run_gets_its_resources(ray):
    ray.resources = [{**NODE, "CPU": 4, "GPU": 1, "fast": 2}]
    make_engine(ray, threads=2, gpus=1, memory=10**9, options={"resources": {"fast": 1}})
    assert ray.options == {
        "num_cpus": 2, "num_gpus": 1, "memory": 10**9, "resources": {"fast": 1}, "max_retries": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_cpu": 1}, "EngineOptions: setting 'num_cpu' is not one of .*did you mean 'num_cpus'"),
        ({"num_cpus": -1}, "num_cpus: Input should be greater than or equal to 0"),
        ({"num_cpus": 1.5}, "num_cpus: Input should be a valid integer"),
        ({"num_gpus": True}, "num_gpus: Input should be a valid integer"),
        ({"address": 6379}, "address: Input should be a valid string"),
        ({"address": ""}, "address: String should have at least 1 character"),
        ({"resources": "fast"}, "resources: Input should be a valid dictionary"),
        ({"resources": {"fast": 0}}, "resources.fast: Input should be greater than 0"),
        ({"resources": {"fast": "1"}}, "resources.fast: Input should be a valid number"),
        ({"resources": {"fast": True}}, "resources.fast: Input should be a valid number"),
        ({"resources": {"GPU": 1}}, "resources: GPU is not a custom resource; use --gpus"),
        ({"resources": {"memory": 1}}, "resources: memory is not a custom resource; use --memory-per-run"),
    ],
)
def test_wrong_options_are_explained(ray, options, message):
    with pytest.raises(SweepError, match=message):
        make_engine(ray, options=options)
    assert ray.started is None


def test_all_lines_of_an_error_of_ray_are_shown(ray, monkeypatch):
    def init(address, **options):
        raise AssertionError("cannot connect\n  to host:6379")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(SweepError, match="cannot use Ray: cannot connect to host:6379"):
        make_engine(ray)


@pytest.mark.parametrize(
    ("nodes", "arguments", "message"),
    [
        ([NODE], {"threads": 2}, "a run needs 2 CPUs, but the largest node has 1"),
        ([{**NODE, "CPU": 8}], {"gpus": 1}, "a run needs 1 GPUs, but the largest node has 0"),
        ([NODE], {"memory": 8 * 10**9}, "a run needs 8 GB of memory, but the largest node has 4"),
        ([NODE], {"options": {"resources": {"fast": 0.5}}}, "a run needs 0.5 fast, but the largest node has 0"),
        (
            [{**NODE, "CPU": 2}, {**NODE, "GPU": 1}], {"threads": 2, "gpus": 1},
            "no node has enough CPUs and GPUs for a run",
        ),
        ([], {}, "a run needs 1 CPUs, but the largest node has 0"),
    ],
)  # fmt: skip
def test_runs_that_fit_on_no_node_are_refused_or_wait_for_a_larger_cluster(ray, monkeypatch, nodes, arguments, message):
    ray.resources = nodes
    with pytest.raises(SweepError, match=message):
        make_engine(ray, **arguments)
    assert ray.started is None  # it has been shut down
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    engine = make_engine(ray, **arguments)
    assert engine.notice == f"{message}; the runs wait until the cluster has a node with enough"


def test_runs_that_fit_need_no_notice(ray):
    ray.resources = [NODE, {**NODE, "CPU": 2, "GPU": 1}]
    assert make_engine(ray, threads=2, gpus=1, memory=4 * 10**9).notice == ""


def test_a_run_uses_the_working_directory_and_the_python_path_of_the_sweep(ray, tmp_path, monkeypatch):
    """On a worker, whose own are those of `ray start`."""
    processes = []
    process = SimpleNamespace(wait=lambda seconds: 0)
    monkeypatch.setattr(
        engines.subprocess, "Popen", lambda command, **options: processes.append(options) or process
    )  # fmt: skip
    site_packages = importlib.import_module("site").getsitepackages()[0]
    monkeypatch.setattr(sys, "path", ["", "/sweep/src", os.path.dirname(os.__file__), site_packages])
    monkeypatch.setenv("PYTHONPATH", "/worker/src")
    engine = make_engine(ray)
    engine.start(Job("seed=0", (), tmp_path / "run", cwd=tmp_path))
    assert engine.poll() == [("seed=0", 0, "")]
    assert processes[0]["cwd"] == tmp_path
    assert processes[0]["env"]["PYTHONPATH"] == os.pathsep.join(["/sweep/src", "/worker/src"])


def test_a_task_that_raises_has_failed_with_its_reason(ray, tmp_path, monkeypatch):
    end = end_of(ray, tmp_path, monkeypatch, RayTaskError(SweepError("cannot start the run seed=0")))
    assert end == ("seed=0", 1, "cannot start the run seed=0")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (WorkerCrashedError(), "Ray lost the task: WorkerCrashedError: The worker died unexpectedly."),
        (RayTaskError(TaskCancelledError()), "Ray lost the task: TaskCancelledError"),
        (TaskCancelledError(), "Ray lost the task: TaskCancelledError"),
    ],
)
def test_a_lost_or_cancelled_task_has_not_failed(ray, tmp_path, monkeypatch, error, reason):
    assert end_of(ray, tmp_path, monkeypatch, error) == ("seed=0", None, reason)
