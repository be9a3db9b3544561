"""How processes that torchrun started meet, and what is said if one is lost."""

import re
import signal
from datetime import timedelta

import pytest

from lost_worker import assert_says_that_a_process_was_lost, free_port, run_two

pytest.importorskip("torch")

from envgen import processes
from envgen.errors import NonFiniteLossError
from envgen.interrupts import INTERRUPTED
from envgen.processes import (
    ProcessGroupError,
    ProcessLostError,
    explaining_lost_processes,
    is_main_process,
    local_rank,
    meet,
    world_size,
)

TRAIN = ["train", "crafter", "--designer", "none", "--folder", "run", "--cycles", "0", "--final-steps", "100000",
         "--ppo.num-envs", "4", "--ppo.num-steps", "16", "--width", "8", "--quiet"]  # fmt: skip
VARIABLES = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29400"}


def set_variables(monkeypatch, **changes):
    for name in (*VARIABLES, "LOCAL_RANK", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**VARIABLES, **changes}.items():
        if value is not None:
            monkeypatch.setenv(name, value)


def test_a_process_that_torchrun_did_not_start_is_alone(monkeypatch):
    set_variables(monkeypatch, WORLD_SIZE=None, RANK="7")
    assert world_size() == 1
    assert local_rank() == 0
    assert is_main_process()  # a rank alone hides no output
    set_variables(monkeypatch)
    assert world_size() == 2
    assert not is_main_process()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": None, "MASTER_ADDR": None, "MASTER_PORT": None},
         r"these are not set: RANK, MASTER_ADDR, MASTER_PORT; start .* with torchrun, or unset"),
        ({"MASTER_ADDR": None}, "WORLD_SIZE is 2, but these are not set: MASTER_ADDR"),
        ({"MASTER_PORT": ""}, "WORLD_SIZE is 2, but these are not set: MASTER_PORT"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two', which is not a number"),
        ({"RANK": "one"}, "RANK is 'one', which is not a number"),
        ({"RANK": "-1"}, "RANK is '-1', which is not a number"),
        ({"RANK": "2"}, "RANK is 2, which is not less than WORLD_SIZE, 2"),
        ({"WORLD_SIZE": "0", "RANK": "0"}, "RANK is 0, which is not less than WORLD_SIZE, 0"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT is 'http', which is not a number"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT is 70000, which is not a port"),
    ],
)  # fmt: skip
def test_leftover_variables_of_torchrun_are_explained(changes, message, monkeypatch):
    set_variables(monkeypatch, **changes)
    with pytest.raises(ProcessGroupError, match=message):
        world_size()
    with pytest.raises(ProcessGroupError, match=message):
        meet()


def test_a_local_rank_must_be_a_number(monkeypatch):
    set_variables(monkeypatch, LOCAL_RANK="first")
    with pytest.raises(ProcessGroupError, match="LOCAL_RANK is 'first', which is not a number; unset it"):
        local_rank()


@pytest.mark.parametrize("rank", ["0", "1"])
def test_processes_that_do_not_come_are_not_awaited_for_long(rank, monkeypatch):
    set_variables(monkeypatch, RANK=rank, MASTER_PORT=free_port())
    monkeypatch.setattr(processes, "JOIN_TIMEOUT", timedelta(seconds=1))
    with pytest.raises(ProcessGroupError, match=rf"RANK={rank}, WORLD_SIZE=2, MASTER_ADDR=localhost, MASTER_PORT=\d+ "):
        meet()


def test_processes_may_wait_for_hours_but_only_minutes_for_others_to_come():
    assert timedelta(minutes=10) >= 2 * processes.JOIN_TIMEOUT
    assert timedelta(hours=12) <= processes.GROUP_TIMEOUT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[/a/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:4: Connection reset by peer. This is typical",
         "Read error [127.0.0.1]:4: Connection reset by peer"),
        ("[/a/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:8",
         "Connection closed by peer [127.0.0.1]:8"),
        ("NCCL error in: NCCLUtils.hpp:219, remote process exited or there was a network error\nmore",
         "NCCL error in: NCCLUtils.hpp:219, remote process exited or there was a network error"),
    ],
)  # fmt: skip
def test_a_lost_process_is_explained(text, reason):
    message = f"another of the 3 processes that train together was lost ({reason}); to resume from the last checkpoint"
    with pytest.raises(ProcessLostError, match=re.escape(message)), explaining_lost_processes(3):
        raise RuntimeError(text)
    with pytest.raises(KeyboardInterrupt), explaining_lost_processes(3, lambda: True):  # after Ctrl-C
        raise RuntimeError(text)
    with pytest.raises(RuntimeError), explaining_lost_processes(1):
        raise RuntimeError(text)


@pytest.mark.parametrize("error", [RuntimeError("shape mismatch"), OSError("broken pipe"), NonFiniteLossError("nan")])
def test_other_errors_are_not_those_of_a_lost_process(error):
    with pytest.raises(type(error), match=str(error)), explaining_lost_processes(2):
        raise error


@pytest.mark.parametrize("rank", [0, 1])
def test_training_that_loses_a_process_ends_in_one_sentence(tmp_path, rank):
    codes, errors = run_two(tmp_path, "die", rank, TRAIN)
    assert codes[rank] == -signal.SIGKILL
    assert codes[1 - rank] == 2, errors
    assert_says_that_a_process_was_lost(errors[1 - rank])


def test_ctrl_c_in_one_process_stops_all_after_the_same_update(tmp_path):
    codes, errors = run_two(tmp_path, "interrupt", 1, TRAIN)
    assert codes == [INTERRUPTED, INTERRUPTED], errors
    assert "Interrupted. Resume by repeating the command\n" in errors[0]  # which starts several
    assert "Interrupted" not in errors[1]  # the main process speaks for all
    assert "Traceback" not in errors[1]
