"""Environments in worker processes are the same as in one process, and their processes end."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from python_worlds import Walk, WalkLevel

from envgen.worlds import worker_process
from envgen.worlds.check_episodes import are_equal, copy_values
from envgen.worlds.worker_process import WorkerError, close_idle_workers
from envgen.worlds.world import SupportsActive, SupportsEnvLevels, SupportsEnvState

NUM_ENVS = 5
LEVELS = [{"length": 3}, {"length": 6}]
FOLDER = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def end_workers():
    yield
    close_idle_workers()


def make(num_workers: int, **kwargs):
    return Walk().make(LEVELS, NUM_ENVS, seed=7, num_workers=num_workers, **kwargs)


def actions(steps: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-0.4, 1, (steps, NUM_ENVS, 1)).astype(np.float32)


def play(envs, rows) -> list:
    return [copy_values(envs.step(row)) for row in rows]


def test_workers_change_nothing():
    one, two, three = make(1), make(2), make(3)
    assert [envs.num_workers for envs in (one, two, three)] == [1, 2, 3]
    first = copy_values(one.reset())
    assert are_equal(first, copy_values(two.reset()))
    assert are_equal(first, copy_values(three.reset()))
    for envs in (one, two, three):
        envs.set_levels(LEVELS, sample_levels=True)
    results = play(one, actions(40))
    assert sum(result[2].sum() for result in results) > 5  # episodes have ended
    assert are_equal(results, play(two, actions(40)))
    assert are_equal(results, play(three, actions(40)))
    for envs in (one, two, three):
        envs.set_env_levels([1, 4], [{"length": 1}, {"length": 9}])
    results = play(one, actions(20))
    assert are_equal(results, play(two, actions(20)))
    assert two.levels == one.levels
    assert WalkLevel(length=9) in one.levels
    for envs in (one, two, three):
        envs.close()


def test_infos_name_the_level_of_the_episode_that_ended():
    envs = make(2)
    envs.reset()
    envs.set_levels({"length": 9})
    while True:
        _, _, terminated, truncated, infos = envs.step(np.full((NUM_ENVS, 1), 0.5, np.float32))
        ended = terminated | truncated
        if ended.any():
            break
    lengths = [envs.levels[k].length for k in infos["final_info"]["level"][ended]]
    assert lengths == [LEVELS[i % 2]["length"] for i in np.flatnonzero(ended)]
    assert {envs.levels[k].length for k in infos["level"][ended]} == {9}
    assert infos["possible"].tolist() == [[True, False]] * NUM_ENVS
    assert infos["final_info"]["position"][ended].min() >= 3
    envs.close()


def test_a_state_moves_between_numbers_of_workers():
    one, two = make(1), make(2)
    one.reset()
    play(one, actions(9))
    state = one.get_state()
    obs = two.set_state(state)
    assert np.array_equal(obs, one.set_state(state))
    assert are_equal(play(one, actions(30)), play(two, actions(30)))
    assert are_equal(one.get_state(), two.get_state())
    damaged = {**state, "state.wind": state["state.wind"][:-1]}
    before = two.get_state()
    with pytest.raises(ValueError, match="does not fit 5 environments of walk"):
        two.set_state(damaged)
    assert are_equal(before, two.get_state())
    one.close()
    two.close()


def test_episodes_move_between_environments_of_different_workers():
    one, two = make(1), make(2)
    for envs in (one, two):
        assert isinstance(envs, SupportsEnvState)
        assert isinstance(envs, SupportsEnvLevels)
        assert isinstance(envs, SupportsActive)
        envs.reset()
        play(envs, actions(2))
    ids = np.array([4, 0, 3])
    states = one.get_env_state(ids)
    assert are_equal(states, two.get_env_state(ids))
    two.check_env_state(states)
    results = [envs.set_env_state(np.array([1, 2, 4]), states, [5, 6, 7]) for envs in (one, two)]
    assert are_equal(copy_values(results[0]), copy_values(results[1]))
    assert are_equal(play(one, actions(20)), play(two, actions(20)))
    one.close()
    two.close()


@pytest.mark.parametrize("num_workers", [1, 2])
def test_environments_that_nobody_needs_stand_still(num_workers):
    envs = make(num_workers)
    envs.reset()
    envs.set_active(np.array([True, False, True, False, False]))
    _, rewards, _, _, infos = envs.step(np.full((NUM_ENVS, 1), 0.25, np.float32))
    assert infos["episode_length"].tolist() == [1, 0, 1, 0, 0]
    assert (rewards != 0).tolist() == [True, False, True, False, False]
    _, infos = envs.reset()
    envs.step(np.full((NUM_ENVS, 1), 0.25, np.float32))
    assert envs.get_state()["episodes"][:, 3].tolist() == [1] * NUM_ENVS
    envs.close()


def test_pipes_with_high_descriptors_can_be_waited_for():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = 1500
    if hard != resource.RLIM_INFINITY and hard <= high:
        pytest.skip(f"no more than {hard} files may be open")
    reader, writer = os.pipe()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, high + 1), hard))
    try:
        os.dup2(reader, high)
        with open(high, "rb") as file:
            assert not worker_process._wait_readable(file, 0)
            os.write(writer, b"x")
            assert worker_process._wait_readable(file, None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(reader)
        os.close(writer)


def test_calls_reach_all_processes():
    envs = make(2)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros((NUM_ENVS, 1), np.float32))
    processes = envs.call("process")
    assert len(set(processes)) == 2
    assert os.getpid() not in processes
    assert envs.call("process", env_ids=[4, 0]) == [processes[4], processes[0]]  # what they print is not mixed up
    with pytest.raises(AttributeError, match="in worker processes; use call"):
        _ = envs.envs
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.call("process")


def test_closed_environments_leave_their_processes_to_the_next():
    envs = make(2)
    processes = set(envs.call("process"))
    envs.close()
    envs = make(2)
    assert set(envs.call("process")) == processes
    envs.close()
    close_idle_workers()
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_classes_of_a_reloaded_module_get_processes_of_their_own(monkeypatch):
    class Reloaded(Walk):
        pass

    with closing(make(2)) as envs:
        processes = set(envs.call("process"))
    with closing(Reloaded().make(LEVELS, NUM_ENVS, num_workers=2)) as envs:
        assert not processes & set(envs.call("process"))
    with closing(make(2)) as envs:
        assert set(envs.call("process")) == processes
    monkeypatch.syspath_prepend("/nowhere")
    with closing(make(2)) as envs:
        assert not processes & set(envs.call("process"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_the_environments_of_its_parent_alone():
    with closing(make(2)) as envs, closing(make(2)) as others:
        for each in (envs, others):
            each.reset()
        expected = play(others, actions(1))
        child = os.fork()
        if not child:
            code = 1
            try:
                with pytest.raises(WorkerError, match="forked from"):
                    envs.step(actions(1)[0])
                envs.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert are_equal(play(envs, actions(1)), expected)


def test_errors_of_environments_are_raised_here():
    envs = make(2)
    envs.reset()
    rows = np.zeros((NUM_ENVS, 1), np.float32)
    with pytest.raises(ValueError, match=r"action \[2.0\] of environment 1 is not in Box"):
        envs.step(np.array([[0], [2], [0], [0], [0]]))
    rows[3] = -1
    with pytest.raises(ArithmeticError, match="minus one is refused") as error:
        envs.step(rows)
    assert "in advance" in error.value.__notes__[0]
    rows[3] = -0.5
    with pytest.raises(WorkerError, match=r"ended with exit status 3 .* num_workers=1"):
        envs.step(rows)
    with pytest.raises(WorkerError, match="make the environments again"):
        envs.step(rows)
    envs.close()


def test_wrong_numbers_of_workers():
    with pytest.raises(ValueError, match="num_workers must be an integer of at least 1, not 0"):
        make(0)
    envs = make(9)
    assert envs.num_workers == NUM_ENVS
    envs.close()


def wait_until(condition, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_classes_of_a_script_are_known_to_the_workers():
    script = """
    import numpy as np
    import envgen
    from python_worlds import Walk

    class MyLevel(Walk.Level):
        pass

    class MyWalk(Walk):
        Level = MyLevel

    envs = MyWalk().make([{"length": 9}, {"length": 5}], 4, num_workers=2)
    envs.reset(seed=0)
    envs.set_env_levels([3], [MyLevel(length=7)])
    envs.reset()
    levels = envs.call("level")
    print([level.length for level in levels], {type(level) for level in levels} == {MyLevel})
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path])}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[0] == "[9, 5, 9, 7] True"


def test_workers_find_a_world_of_the_current_directory(tmp_path):
    """Also if it is not in `sys.path`, as for a script that lies elsewhere."""
    script = """
    import sys
    import envgen

    path = list(sys.path)
    envs = envgen.make_world("python_worlds:Walk").make([{"length": 9}], 2, num_workers=2)
    envs.reset(seed=0)
    print([level.length for level in envs.call("level")], sys.path == path)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    others = [entry for entry in sys.path if entry and Path(entry) != FOLDER]
    result = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], env={**os.environ, "PYTHONPATH": os.pathsep.join(others)},
        cwd=FOLDER, text=True, capture_output=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[0] == "[9, 9] True"


@pytest.mark.parametrize("num_workers", [1, 2])
def test_environments_that_do_not_exist_are_refused(num_workers):
    with closing(Walk().make([{"length": 9}], 4, num_workers=num_workers)) as envs:
        for env_ids, levels in (([-1], [{}]), ([4], [{}]), ([0, 1], [{}]), ([0.5], [{}]), (["a"], [{}])):
            with pytest.raises(ValueError, match=r"set_env_levels|no environment"):
                envs.set_env_levels(env_ids, levels)
        with pytest.raises(ValueError, match=r"an environment twice: \[0, 0\]"):
            envs.set_env_levels([0, 0], [{}, {"length": 5}])
        with pytest.raises(ValueError, match="boolean array of shape"):
            envs.set_active(np.array([True]))


def test_full_shared_memory_is_an_error(monkeypatch):
    def raise_full(*args: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", raise_full)
    with pytest.raises(WorkerError, match=r"has no room for .* MB of observations and states: No space left"):
        Walk().make([], 4, num_workers=2)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_its_parent(signal_number):
    script = """
    import numpy as np
    from python_worlds import Walk

    envs = Walk().make([{"length": 9}], 4, num_workers=2)  # at module level, without a guard
    envs.reset(seed=0)
    print(*set(envs.call("process")), flush=True)
    while True:
        envs.step(np.zeros((4, 1), np.float32))
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 2
        parent.send_signal(signal_number)
        _, errors = parent.communicate(timeout=60)
    assert wait_until(lambda: not any(map(is_running, workers)))
    if signal_number == signal.SIGINT:
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert errors.count("Traceback") == 1  # none from a worker


def test_memory_is_not_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_process, "SHARED_MEMORY_FOLDER", str(tmp_path))
    envs = make(2)
    assert not list(tmp_path.iterdir())
    envs.close()
