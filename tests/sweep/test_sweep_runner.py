"""How a sweep starts, resumes, retries and stops its runs, with an engine that runs nothing."""

import io
import json
import os
import shutil
import signal
from collections import deque
from contextlib import suppress

import pytest
from rich.console import Console

from envgen.console import terminal
from envgen.errors import EnvgenError
from envgen.runs.store import lock_folder
from envgen.sweep.display import SweepDisplay
from envgen.sweep.engines.engine import LOG, Engine, EngineBusyError, JobEnd
from envgen.sweep.grid import PlannedRun, SweepError
from envgen.sweep.runner import Sweep, check_runs, locked, open_runs, read_peak_memory

PLAN = {"cycles": 1, "cycle_steps": 100, "final_steps": 0}
SUMMARY = {"final": {"score": {"value": 12.0}}, "seconds": 5.0, "steps": {"levels": 50, "original": 50}}


class ScriptedEngine(Engine):
    """Ends each job with the next result of its run: an exit code, None, or "advance" (killed after a checkpoint)."""

    name = "scripted"

    def __init__(self, script, room=2):
        self.script = {name: deque(ends) for name, ends in script.items()}
        self.room, self.running, self.started, self.requests = room, [], [], {}
        self.interrupted = self.killed = False

    def has_room(self):
        return len(self.running) < self.room

    def start(self, job):
        self.running.append(job)
        self.started.append(job.name)

    def poll(self):
        ends = []
        for job in list(self.running):
            script = self.script.get(job.name, deque([0]))
            end = -15 if self.interrupted else script.popleft() if script else "stay"
            if end == "stay":
                continue
            if end == "advance":
                (job.folder / "checkpoints" / f"{len(self.started):08}").mkdir(parents=True)
                end = -9
            job.folder.mkdir(exist_ok=True, parents=True)
            if end == 0:
                entry = {"format": 2, "request": self.requests[job.name]}
                (job.folder / "run.json").write_text(json.dumps(entry))
                (job.folder / "summary.json").write_text(json.dumps(SUMMARY))
            elif end == 2:
                with job.log_file.open("a") as log:
                    log.write("starting\n\nenvgen: the disk is full\nResume with: ...\n")
            elif end == 3:
                with job.log_file.open("a") as log:
                    log.write("ImportError: no such module\n")
            self.running.remove(job)
            ends.append(JobEnd(job.name, end))
        return ends

    def interrupt(self):
        self.interrupted = True

    def kill(self):
        self.killed = True

    @property
    def peak_memory(self):
        return 7


def run_sweep(runs, engine, display=None, **settings):
    engine.requests = {run.name: run.request for run in runs}
    return Sweep(runs[0].folder.parent, runs, **settings).run(engine, display or Messages())


class Messages:
    def __init__(self, on_update=lambda: None):
        self.events, self.messages, self.on_update = [], [], on_update

    def update(self, runs, run=None):
        if run is not None:
            self.events.append((run.name, run.state))
        self.on_update()

    def message(self, text):
        self.messages.append(text)


def plans(*names):
    return [PlannedRun(name, "train", {"seed": name}) for name in names]


def make_runs(folder, *names, plan=PLAN):
    return open_runs(folder, plans(*names), [{"world": "crafter", "seed": name, "plan": plan} for name in names])


def write_run(folder, request, finished=True):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"format": 2, "request": request}))
    if finished:
        (folder / "summary.json").write_text(json.dumps(SUMMARY))


def test_all_runs_are_started_as_there_is_room(tmp_path):
    runs = make_runs(tmp_path, "a", "b", "c")
    engine, display = ScriptedEngine({}, room=1), Messages()
    assert run_sweep(runs, engine, display)
    assert engine.started == ["a", "b", "c"]
    assert [run.state for run in runs] == ["finished"] * 3
    assert runs[0].result == ("final score %", 12.0)
    assert display.events[:2] == [("a", "running"), ("a", "finished")]
    assert read_peak_memory(tmp_path) == 7


def test_the_measured_memory_is_kept_by_engines_that_measure_none(tmp_path, monkeypatch):
    runs = make_runs(tmp_path, "a")
    sweep = Sweep(tmp_path, runs)
    sweep.save(5)
    monkeypatch.setattr(ScriptedEngine, "peak_memory", None)
    engine = ScriptedEngine({}, room=1)
    engine.requests = {"a": runs[0].request}
    assert sweep.run(engine, Messages())
    assert read_peak_memory(tmp_path) == 5


def test_a_measurement_that_cannot_be_stored_ends_no_runs(tmp_path):
    (tmp_path / "sweep.json").mkdir()  # nothing can be written in its place
    runs, display = make_runs(tmp_path, "a", "b"), Messages()
    assert run_sweep(runs, ScriptedEngine({}, room=1), display)
    assert [run.state for run in runs] == ["finished"] * 2
    assert display.messages[0].startswith(f"cannot write {tmp_path / 'sweep.json'}")


class BusyEngine(ScriptedEngine):
    """Refuses the first jobs."""

    def __init__(self, refusals):
        super().__init__({}, room=1)
        self.refusals = refusals

    def start(self, job):
        if self.refusals:
            self.refusals -= 1
            raise EngineBusyError(f"the run {job.name} cannot be submitted: timed out")
        super().start(job)


def test_a_scheduler_that_is_busy_gets_no_more_jobs_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.sweep.runner.FIRST_PAUSE_SECONDS", 0.01)
    runs, display = make_runs(tmp_path, "a", "b", "c"), Messages()
    assert run_sweep(runs, BusyEngine(5), display, retries=0)
    assert [(run.state, run.num_failures) for run in runs] == [("finished", 0)] * 3
    assert display.messages == ["the run a cannot be submitted: timed out; trying again for an hour"]


def test_a_scheduler_that_stays_busy_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.sweep.runner.FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("envgen.sweep.runner.MAX_PAUSE_SECONDS", 0.1)
    runs = make_runs(tmp_path, "a")
    assert run_sweep(runs, BusyEngine(1000), retries=0)
    assert (runs[0].state, runs[0].reason) == ("failed", "the run a cannot be submitted: timed out")


def test_an_error_of_a_run_that_is_stopped_is_listed(tmp_path):
    class Failing(ScriptedEngine):
        def interrupt(self):
            self.script["a"].append(2)

    runs = make_runs(tmp_path, "a")
    engine, signals = Failing({"a": []}), deque([signal.SIGTERM])
    display = Messages(lambda: signals and engine.started and signal.raise_signal(signals.pop()))
    assert not run_sweep(runs, engine, display)
    assert (runs[0].state, runs[0].reason) == ("failed", "the disk is full")


def test_finished_runs_are_skipped(tmp_path):
    write_run(tmp_path / "a", {"world": "crafter", "seed": "a", "plan": PLAN})
    runs = make_runs(tmp_path, "a", "b")
    engine = ScriptedEngine({})
    assert run_sweep(runs, engine)
    assert engine.started == ["b"]


@pytest.mark.parametrize(("episodes", "state"), [("0", "finished"), ("64", "waiting")])
def test_a_run_is_finished_once_its_reference_episodes_are_played(tmp_path, episodes, state):
    request = {"world": "crafter", "seed": 0, "plan": PLAN}
    write_run(tmp_path / "a", request)
    plan = PlannedRun("a", "train", {"reference-episodes": episodes})
    (run,) = open_runs(tmp_path, [plan], [request])
    assert run.state == state
    (tmp_path / "a" / "reference.json").write_text("{}")
    assert run.is_finished


def test_a_failed_run_is_retried_once_and_listed_with_its_error(tmp_path):
    runs = make_runs(tmp_path, "a", "b", "c")
    engine = ScriptedEngine({"a": [2, 2], "b": [2, 0]})
    assert run_sweep(runs, engine)
    assert [run.state for run in runs] == ["failed", "finished", "finished"]
    assert engine.started.count("a") == engine.started.count("b") == 2
    assert runs[0].reason == "the disk is full"


def test_a_run_that_was_trained_with_other_settings_has_failed(tmp_path):
    """On a node with other files, for example."""
    runs = make_runs(tmp_path, "a", "b")
    engine = ScriptedEngine({})
    requests = {"a": {**runs[0].request, "plan": {**PLAN, "cycles": 2}}, "b": runs[1].request}
    engine.start = lambda job: (engine.requests.update(requests), ScriptedEngine.start(engine, job))
    assert run_sweep(runs, engine)
    assert [run.state for run in runs] == ["failed", "finished"]
    assert engine.started == ["a", "b"]  # a second attempt in the same folder would fail too
    assert runs[0].reason.startswith("it was trained with other settings than planned: plan.cycles 1 (now 2); check")


def test_a_run_in_a_queue_runs_once_its_log_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.sweep.runner.DISPLAY_SECONDS", 0.0)

    class Queue(ScriptedEngine):
        has_queue = True

        def poll(self):
            polls.append([run.state for run in runs])
            if len(polls) == 3:
                runs[0].folder.mkdir()
                (runs[0].folder / LOG).touch()
            return super().poll() if len(polls) > 4 else []

    runs, polls, display = make_runs(tmp_path, "a"), [], Messages()
    assert run_sweep(runs, Queue({}), display)
    assert display.events == [("a", "queued"), ("a", "running"), ("a", "finished")]
    assert polls[:4] == [["waiting"], ["queued"], ["queued"], ["running"]]
    assert runs[0].started is not None


@pytest.mark.parametrize("writes_checkpoint", [True, False])
def test_the_process_of_a_lost_job_may_still_write_a_checkpoint(tmp_path, writes_checkpoint):
    """It can outlive its worker."""
    runs = make_runs(tmp_path, "a")
    runs[0].folder.mkdir()
    locks, folder = [lock_folder(runs[0].folder)], runs[0].folder

    def end_process():
        if len(updates) == 3:
            if writes_checkpoint:
                (folder / "checkpoints" / "00000001").mkdir(parents=True)
            locks.pop().close()
        updates.append(runs[0].state)

    updates = []
    engine, display = ScriptedEngine({"a": [None, 0]}), Messages(end_process)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("envgen.sweep.runner.DISPLAY_SECONDS", 0.0)
        run_sweep(runs, engine, display)
    assert (runs[0].state, runs[0].num_lost, runs[0].num_failures) == ("finished", 1, 0 if writes_checkpoint else 1)
    assert engine.started == ["a", "a"]


def test_a_notice_of_the_engine_is_shown_first(tmp_path):
    engine, display = ScriptedEngine({}), Messages()
    engine.notice = "a run needs 2 CPUs"
    run_sweep(make_runs(tmp_path, "a"), engine, display)
    assert display.messages == ["a run needs 2 CPUs"]


def test_a_later_command_keeps_the_runs_of_earlier_ones_in_the_file(tmp_path):
    for name in ("a", "b", "c"):
        run_sweep(make_runs(tmp_path, name), ScriptedEngine({}))
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
    entries = json.loads((tmp_path / "sweep.json").read_text())["runs"]
    assert entries == {name: {"command": "train", "args": ["--seed", name]} for name in ("a", "c")}


def test_a_run_that_ends_without_a_result_has_failed(tmp_path):
    runs = make_runs(tmp_path, "a")
    engine = ScriptedEngine({"a": [1]})
    run_sweep(runs, engine, retries=0)
    assert runs[0].state == "failed"
    assert runs[0].reason == "exit code 1"


def test_the_reason_of_a_failure_is_that_of_the_last_attempt(tmp_path):
    runs = make_runs(tmp_path, "a")
    run_sweep(runs, ScriptedEngine({"a": [2, 3]}), retries=1)
    assert (runs[0].state, runs[0].reason) == ("failed", "ImportError: no such module")


@pytest.fixture
def hangups_end_processes():
    """As without `nohup`."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


@pytest.mark.usefixtures("hangups_end_processes")
def test_a_closed_terminal_does_not_keep_the_runs_from_ending(tmp_path):
    class Terminal(io.StringIO):
        def write(self, text):
            if not signals:  # it has been closed
                raise OSError(5, "Input/output error")
            return super().write(text)

    class Display(SweepDisplay):
        def update(self, runs, run=None):
            super().update(runs, run)
            if signals and engine.started:
                signal.raise_signal(signals.pop())

    runs = make_runs(tmp_path, "a")
    engine = ScriptedEngine({"a": []})
    signals = deque([signal.SIGHUP])
    assert not run_sweep(runs, engine, Display(Console(file=Terminal()), live=False), retries=0)
    assert engine.interrupted
    assert runs[0].state == "interrupted"


def test_a_sweep_goes_on_when_the_reader_of_its_output_has_ended(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    runs = make_runs(tmp_path, "a", "b")
    with suppress(BrokenPipeError), open(writer, "w") as output:  # closing it writes what is left
        console = terminal(verbose=True)[0]
        console.file = output
        with pytest.raises(BrokenPipeError):  # and not SystemExit, as with rich's own console
            console.print("hello")
        assert run_sweep(runs, ScriptedEngine({}), SweepDisplay(console, live=False))
    assert [run.state for run in runs] == ["finished", "finished"]


def test_a_killed_run_is_resumed_as_long_as_it_advances(tmp_path):
    runs = make_runs(tmp_path, "a", "b")
    engine = ScriptedEngine({"a": ["advance", "advance", "advance", None, 0], "b": [-9, None]})
    run_sweep(runs, engine)
    assert [run.state for run in runs] == ["finished", "failed"]
    assert (engine.started.count("a"), engine.started.count("b")) == (5, 2)
    assert (runs[0].num_lost, runs[1].num_failures) == (4, 2)


def test_the_longest_runs_start_first(tmp_path):
    requests = [{"world": "crafter", "seed": k, "plan": {**PLAN, "cycle_steps": steps}}
                for k, steps in enumerate((10, 1000, 100))]  # fmt: skip
    runs = open_runs(tmp_path, plans("a", "b", "c"), requests)
    write_run(tmp_path / "d", {"world": "crafter", "seed": 9, "plan": PLAN})
    engine = ScriptedEngine({}, room=1)
    run_sweep(runs, engine)
    assert engine.started == ["b", "c", "a"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_runs_and_starts_no_more(tmp_path, number):
    runs = make_runs(tmp_path, "a", "b", "c")
    engine = ScriptedEngine({"a": [], "b": []})
    signals = deque([number])
    display = Messages(lambda: os.kill(os.getpid(), signals.pop()) if signals and len(engine.started) == 2 else None)
    assert not run_sweep(runs, engine, display)
    assert engine.interrupted
    assert not engine.killed
    assert [run.state for run in runs] == ["interrupted", "interrupted", "waiting"]
    assert "write their checkpoints" in display.messages[0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_options_of_a_run_that_exists_may_not_change(tmp_path):
    write_run(tmp_path / "a", {"world": "crafter", "seed": "a", "plan": PLAN})
    with pytest.raises(SweepError, match=r"a was started with plan.cycle_steps 100 \(now 200\); choose another folder"):
        make_runs(tmp_path, "a", "b", plan={**PLAN, "cycle_steps": 200})


def test_a_run_keeps_its_folder_when_the_grid_gets_another_option(tmp_path):
    write_run(tmp_path / "a", {"world": "crafter", "seed": 0, "plan": PLAN})
    requests = [{"world": "crafter", "seed": seed, "plan": PLAN} for seed in (0, 1)]
    runs = open_runs(tmp_path, plans("x=1,a", "x=1,b"), requests)
    assert [run.folder.name for run in runs] == ["a", "x=1,b"]
    assert [run.state for run in runs] == ["finished", "waiting"]


def test_parts_of_a_sweep_find_their_runs_under_other_names(tmp_path):
    requests = {name: {"world": "crafter", "designer": name, "plan": PLAN} for name in ("none", "expert")}
    write_run(tmp_path / "seed=0", requests["none"])
    write_run(tmp_path / "designer=expert,seed=0", requests["expert"])
    (run,) = open_runs(tmp_path, plans("seed=0"), [requests["expert"]])
    assert run.folder.name == "designer=expert,seed=0"
    both = open_runs(tmp_path, plans("designer=none,seed=0", "designer=expert,seed=0"), [*requests.values()])
    assert [run.folder.name for run in both] == ["seed=0", "designer=expert,seed=0"]


def test_the_directory_of_a_run_is_no_folder_for_a_sweep(tmp_path):
    write_run(tmp_path / "run", {"world": "crafter", "seed": 0, "plan": PLAN})
    with pytest.raises(SweepError, match="run is the directory of a run; choose another folder"):
        make_runs(tmp_path / "run", "a")


def test_a_sweep_that_ignores_the_end_of_its_terminal_goes_on(tmp_path, monkeypatch):
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        runs = make_runs(tmp_path, "a")
        display = Messages(lambda: signal.raise_signal(signal.SIGHUP))
        assert run_sweep(runs, ScriptedEngine({}), display)
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_errors_in_options_name_the_run(tmp_path):
    def check(plan):
        if plan.name == "b":
            raise EnvgenError("gamma must be at most 1")
        return {}

    with pytest.raises(SweepError, match="the run b: gamma must be at most 1"):
        check_runs(plans("a", "b"), check)


def test_two_sweeps_cannot_use_one_folder(tmp_path):
    with (
        locked(tmp_path / "sweep"),
        pytest.raises(EnvgenError, match="another process is using"),
        locked(tmp_path / "sweep"),
    ):
        pass
